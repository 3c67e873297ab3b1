"""The real directories behind a pod's volumes.

A claim is the directory that its PersistentVolume names (`hostPath` or `local`); emptyDir, secret, configMap, downwardAPI-free
projected volumes are made under the pod's directory and go with it; hostPath is the path itself. "Read-only" cannot be
enforced, programs run as the same user. Secret and ConfigMap files follow their objects while the pod lives (`refresh`).
"""

import contextlib
import os
import tempfile
from pathlib import Path
from typing import Any

from noctaya.kube.client import Client
from noctaya.kube.errors import NotFound
from noctaya.kube.resources import CONFIGMAPS, PVCS, PVS, SECRETS, Resource
from noctaya.local.agent.environment import read_bytes
from noctaya.local.agent.errors import VolumeNotReady
from noctaya.local.agent.spec import ContainerSpec, PodObject

Json = dict[str, Any]


class PodVolumes:
    """The volumes of one pod."""

    def __init__(self, client: Client, pod: PodObject, directory: Path) -> None:
        self._client = client
        self._pod = pod
        self._directory = directory
        self._paths: dict[str, Path] = {}
        self._projected: list[Json] = []

    async def mount(self) -> None:
        """Make every volume.

        Raises:
            VolumeNotReady: a claim is not bound, a Secret or ConfigMap is missing, or the kind is not supported.
            KubeError: the API server does not answer.
        """
        self._projected = []
        for volume in self._pod.spec.get("volumes") or ():
            self._paths[str(volume["name"])] = await self._make(volume)

    async def refresh(self) -> None:
        """Bring Secret and ConfigMap files up to date; a source that is gone leaves its files as they are."""
        for volume in self._projected:
            with contextlib.suppress(VolumeNotReady):
                await self._project(volume, sources_of(volume))

    @property
    def has_projections(self) -> bool:
        """Whether `refresh` has anything to do."""
        return bool(self._projected)

    def paths(self, container: ContainerSpec) -> dict[str, Path]:
        """mountPath → real path for one container.

        Raises:
            VolumeNotReady: a mount names no volume, or its subPath leaves the volume.
        """
        result = {}
        for mount in container.mounts:
            if mount.volume not in self._paths:
                raise VolumeNotReady(
                    f'container {container.name} mounts volume "{mount.volume}", which the pod does not have'
                )
            real = self._paths[mount.volume]
            if mount.sub_path:
                below = (real / mount.sub_path).resolve()
                if not below.is_relative_to(real.resolve()):
                    raise VolumeNotReady(f"subPath {mount.sub_path} leaves volume {mount.volume}")
                if not below.exists() and os.access(real, os.W_OK):
                    below.mkdir(parents=True)
                real = below
            result[mount.path] = real
        return result

    async def _make(self, volume: Json) -> Path:
        name = str(volume["name"])
        if (claim := volume.get("persistentVolumeClaim")) is not None:
            return await self._claimed(claim["claimName"])
        if (host := volume.get("hostPath")) is not None:
            return host_path(host)
        path = self._directory / name
        path.mkdir(parents=True, exist_ok=True)
        if volume.get("emptyDir") is not None:
            return path
        if not any(kind in volume for kind in ("secret", "configMap", "projected")):
            kinds = ", ".join(kind for kind in volume if kind != "name")
            raise VolumeNotReady(
                f'volume "{name}": {kinds or "no source"} is not supported by the embedded cluster'
            )
        path.chmod(0o700)
        await self._project(volume, sources_of(volume))
        self._projected.append(volume)
        return path

    async def _claimed(self, claim: str) -> Path:
        namespace = self._pod.namespace
        try:
            found = await self._client.get(PVCS, namespace, claim)
            volume_name = (found.get("spec") or {}).get("volumeName")
            if not volume_name or (found.get("status") or {}).get("phase") != "Bound":
                raise VolumeNotReady(f'persistentvolumeclaim "{namespace}/{claim}" is not bound yet')
            volume = await self._client.get(PVS, None, volume_name)
        except NotFound as error:
            raise VolumeNotReady(
                f'persistentvolumeclaim "{namespace}/{claim}" or its volume was not found'
            ) from error
        source = volume["spec"].get("hostPath") or volume["spec"].get("local")
        if source is None:
            raise VolumeNotReady(
                f'persistentvolume "{volume_name}" has no directory on this machine (hostPath or local)'
            )
        return existing_directory(volume_name, source["path"])

    async def _project(self, volume: Json, sources: list[tuple[Resource, Json]]) -> None:
        path = self._directory / volume["name"]
        files: dict[str, bytes] = {}
        for resource, source in sources:
            files.update(await self._files(resource, source))
        for name, content in files.items():
            write_if_changed(path / name, content)
        for old in [entry for entry in path.rglob("*") if entry.is_file()]:
            if str(old.relative_to(path)) not in files:
                old.unlink()

    async def _files(self, resource: Resource, source: Json) -> dict[str, bytes]:
        name = source.get("secretName") or source.get("name") or ""
        data = await read_bytes(self._client, resource, self._pod.namespace, name)
        if data is None:
            if source.get("optional"):
                return {}
            raise VolumeNotReady(f'{resource.kind.lower()} "{self._pod.namespace}/{name}" not found')
        if not source.get("items"):
            return data
        files = {}
        for item in source["items"]:
            if item["key"] in data:
                files[item["path"]] = data[item["key"]]
            elif not source.get("optional"):
                raise VolumeNotReady(f'{resource.kind.lower()} "{name}" has no key "{item["key"]}"')
        return files


def sources_of(volume: Json) -> list[tuple[Resource, Json]]:
    """Which Secrets and ConfigMaps a volume is made of; a projected service account token is left out."""
    if "secret" in volume:
        return [(SECRETS, volume["secret"])]
    if "configMap" in volume:
        return [(CONFIGMAPS, volume["configMap"])]
    result: list[tuple[Resource, Json]] = []
    for source in volume["projected"].get("sources") or ():
        for field, resource in (("secret", SECRETS), ("configMap", CONFIGMAPS)):
            if field in source:
                result.append((resource, source[field]))
    return result


def existing_directory(volume_name: str, path: str) -> Path:
    """A PersistentVolume's directory, which whoever made the volume has made."""
    directory = Path(path)
    if not directory.is_dir():
        raise VolumeNotReady(f'persistentvolume "{volume_name}": {path} is not a directory')
    return directory


def host_path(host: Json) -> Path:
    """The directory or file itself; made when its type says so."""
    path = Path(host["path"])
    kind = host.get("type") or ""
    if kind == "DirectoryOrCreate":
        path.mkdir(parents=True, exist_ok=True)
    if kind and not path.exists():
        raise VolumeNotReady(f"hostPath {path} does not exist (type {kind})")
    return path


def write_if_changed(path: Path, content: bytes) -> None:
    """Replace a file atomically, readable by its owner only; an equal file is left alone."""
    if path.is_file() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".new-")  # mode 0600
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    Path(temporary).replace(path)

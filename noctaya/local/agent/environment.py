"""The environment of a container: a few variables of this machine, the image's, then the pod's own.

Nothing else of the agent's environment reaches a container. Secrets are read when the container starts and are only ever
put into the process; they stand in no message and no log. What is missing keeps the container in
CreateContainerConfigError, as on a cluster.
"""

import base64
import os
import re
from collections.abc import Mapping
from typing import Any

from noctaya.kube.client import Client
from noctaya.kube.errors import NotFound
from noctaya.kube.resources import CONFIGMAPS, SECRETS, Resource
from noctaya.local.agent.errors import NotStarted
from noctaya.local.agent.images import LocalImage
from noctaya.local.agent.spec import ContainerSpec, PodObject
from noctaya.local.agent.translation import expand

INHERITED = (
    "PATH", "HOME", "USER", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "PYTHONPATH",
    "SSL_CERT_FILE", "SSL_CERT_DIR",
)  # fmt: skip
"""Without these, programs of this machine do not find their interpreter, libraries or certificates."""

SUBSCRIPT = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")


class EnvironmentSource:
    """Resolves one container's env; each Secret and ConfigMap is read once."""

    def __init__(self, client: Client, pod: PodObject, ip: str, node: str) -> None:
        self._client = client
        self._pod = pod
        self._ip = ip
        self._node = node
        self._read: dict[tuple[str, str], dict[str, str] | None] = {}

    async def resolve(self, container: ContainerSpec, image: LocalImage) -> tuple[dict[str, str], set[str]]:
        """Every variable of the container, `$(NAME)` references resolved, and the names of those that the pod sets.

        Raises:
            NotStarted: a Secret, ConfigMap, key or field that is not optional is missing.
            KubeError: the API server does not answer.
        """
        env = {name: os.environ[name] for name in INHERITED if name in os.environ}
        env["HOSTNAME"] = self._pod.name
        env["PYTHONUNBUFFERED"] = "1"  # logs must not sit in a pipe's buffer
        env.update({name: expand(value, {"POD_IP": self._ip}) for name, value in image.env.items()})
        own: set[str] = set()
        for source in container.env_from:
            several = await self._all_of(source)
            env.update(several)
            own.update(several)
        for variable in container.env:
            name = variable["name"]
            if (origin := variable.get("valueFrom")) is None:
                env[name] = expand(variable.get("value") or "", env)
                own.add(name)
            elif (value := await self._value(origin)) is not None:
                env[name] = value
                own.add(name)
        return env, own

    async def _all_of(self, source: Mapping[str, Any]) -> dict[str, str]:
        prefix = source.get("prefix") or ""
        for field, resource in (("secretRef", SECRETS), ("configMapRef", CONFIGMAPS)):
            if (reference := source.get(field)) is not None:
                data = await self._data(resource, reference["name"])
                if data is None and not reference.get("optional"):
                    raise missing(resource, reference["name"])
                return {prefix + key: value for key, value in (data or {}).items()}
        return {}

    async def _value(self, origin: Mapping[str, Any]) -> str | None:
        if (field := origin.get("fieldRef")) is not None:
            return self._field(field["fieldPath"])
        for name, resource in (("secretKeyRef", SECRETS), ("configMapKeyRef", CONFIGMAPS)):
            if (reference := origin.get(name)) is None:
                continue
            data = await self._data(resource, reference["name"])
            if data is None:
                if reference.get("optional"):
                    return None
                raise missing(resource, reference["name"])
            if reference["key"] not in data:
                if reference.get("optional"):
                    return None
                where = f"{resource.kind} {self._pod.namespace}/{reference['name']}"
                raise NotStarted(
                    "CreateContainerConfigError", f"couldn't find key {reference['key']} in {where}"
                )
            return data[reference["key"]]
        kinds = ", ".join(origin)
        raise NotStarted(
            "CreateContainerConfigError", f"env from {kinds} is not supported by the embedded cluster"
        )

    def _field(self, path: str) -> str:
        metadata, spec = self._pod.metadata, self._pod.spec
        if found := SUBSCRIPT.fullmatch(path):
            values = metadata.labels if found.group(1) == "labels" else metadata.annotations
            return values.get(found.group(2), "")
        fields = {
            "metadata.name": metadata.name,
            "metadata.namespace": metadata.namespace,
            "metadata.uid": metadata.uid,
            "spec.nodeName": self._node,
            "spec.serviceAccountName": spec.get("serviceAccountName") or "default",
            "status.podIP": self._ip,
            "status.podIPs": self._ip,
            "status.hostIP": "127.0.0.1",
            "status.hostIPs": "127.0.0.1",
        }
        if path not in fields:
            raise NotStarted(
                "CreateContainerConfigError", f"fieldPath {path} is not supported by the embedded cluster"
            )
        return fields[path]

    async def _data(self, resource: Resource, name: str) -> dict[str, str] | None:
        key = (resource.kind, name)
        if key not in self._read:
            self._read[key] = await read_text(self._client, resource, self._pod.namespace, name)
        return self._read[key]


async def read_text(client: Client, resource: Resource, namespace: str, name: str) -> dict[str, str] | None:
    """A Secret's or ConfigMap's values as text, or None when there is no such object."""
    data = await read_bytes(client, resource, namespace, name)
    return None if data is None else {key: value.decode(errors="replace") for key, value in data.items()}


async def read_bytes(
    client: Client, resource: Resource, namespace: str, name: str
) -> dict[str, bytes] | None:
    """A Secret's or ConfigMap's values as bytes, or None when there is no such object."""
    try:
        found = await client.get(resource, namespace, name)
    except NotFound:
        return None
    if resource is SECRETS:
        return {key: base64.b64decode(value) for key, value in (found.get("data") or {}).items()}
    binary = {key: base64.b64decode(value) for key, value in (found.get("binaryData") or {}).items()}
    return {key: value.encode() for key, value in (found.get("data") or {}).items()} | binary


def missing(resource: Resource, name: str) -> NotStarted:
    """What a kubelet says of a missing Secret or ConfigMap."""
    return NotStarted("CreateContainerConfigError", f'{resource.kind.lower()} "{name}" not found')

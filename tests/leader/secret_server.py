"""Secrets with versions and compare-and-swap, as the keeper of certificates uses a client; and a switch that breaks it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from noctaya.kube.errors import AlreadyExists, Call, Conflict, Forbidden, KubeError, NotFound, Unavailable
from noctaya.kube.objects import Secret, format_time
from noctaya.kube.resources import Resource


class SecretServer:
    """`put` is what people do to it; `on_read` is called before each read, `refusal` answers instead."""

    def __init__(self) -> None:
        self.secrets: dict[str, Secret] = {}
        self.writes: list[tuple[str, str]] = []
        self.reads = 0
        self.refusal: type[KubeError] | None = None
        self.on_write: Callable[[], None] = lambda: None
        self._version = 0

    def put(self, name: str, secret: Secret) -> None:
        self._store(name, secret)

    async def get(self, resource: Resource, namespace: str, name: str, *, into: type[Secret]) -> Secret:
        self.reads += 1
        self._check("get", namespace, name)
        if name not in self.secrets:
            raise NotFound(_call("get", namespace, name), "not found")
        return self.secrets[name]

    async def create(self, resource: Resource, namespace: str, body: dict[str, Any]) -> None:
        secret = msgspec.convert(body, Secret)
        name = secret.metadata.name
        self.on_write()
        self._check("create", namespace, name)
        if name in self.secrets:
            raise AlreadyExists(_call("create", namespace, name), "there is one")
        self._store(name, secret)
        self.writes.append(("create", name))

    async def replace(self, resource: Resource, namespace: str, name: str, body: dict[str, Any]) -> None:
        secret = msgspec.convert(body, Secret)
        self.on_write()
        self._check("update", namespace, name)
        if name not in self.secrets:
            raise NotFound(_call("update", namespace, name), "not found")
        if secret.metadata.resource_version != self.secrets[name].metadata.resource_version:
            raise Conflict(_call("update", namespace, name), "somebody was there first")
        self._store(name, secret)
        self.writes.append(("update", name))

    def _store(self, name: str, secret: Secret) -> None:
        self._version += 1
        created = secret.metadata.creation_timestamp or format_time(datetime.now(UTC))
        metadata = msgspec.structs.replace(
            secret.metadata, name=name, resource_version=str(self._version), creation_timestamp=created
        )
        self.secrets[name] = msgspec.structs.replace(secret, metadata=metadata)

    def _check(self, verb: str, namespace: str, name: str) -> None:
        if self.refusal is not None and (self.refusal is not Forbidden or verb != "get"):
            raise self.refusal(_call(verb, namespace, name), "refused")


def _call(verb: str, namespace: str, name: str) -> Call:
    return Call(verb, f"secrets {namespace}/{name}")


DOWN = Unavailable

"""Client keys: from Secrets to digests, so that no key leaves a worker and none is kept in it.

A Secret is digested while it is decoded; only HMAC-SHA256 digests under the fleet's own secret stay. Secrets labelled
`serving.noctaya.io/client-keys=true` are watched; others are read every `busy_seconds` while their service is in use or was
lately, and every `idle_seconds` else. Fails closed: a Secret or entry that is not there yields no digest, and a service that
asks for a key lets nobody in. A read that gets no answer keeps what was known.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import logging
import secrets
from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from noctaya.api.names import LABEL_CLIENT_KEYS
from noctaya.errors import UserError
from noctaya.kube import Client, Store
from noctaya.kube.clock import boottime
from noctaya.kube.errors import AlreadyExists, Forbidden, KubeError, NotFound
from noctaya.kube.objects import Object, Secret
from noctaya.kube.resources import SECRETS
from noctaya.telemetry import context

log = logging.getLogger(__name__)

FLEET_KEY: Final = "noctaya-fleet-key"
FLEET_KEY_ENTRY: Final = "hmac"
FLEET_KEY_BYTES: Final = 32
READERS: Final = 4
DECIDED_POLL_SECONDS: Final = 0.25

Digest = tuple[str, bytes]
"""(who, HMAC-SHA256 of the key); who may be empty."""
SecretName = tuple[str, str]
"""(namespace, name)."""


class FleetKeyInvalid(UserError):
    """The Secret of the fleet's digest key is there and does not hold one."""

    def __init__(self, namespace: str) -> None:
        super().__init__(
            f"Secret {namespace}/{FLEET_KEY} has no entry {FLEET_KEY_ENTRY!r} of at least {FLEET_KEY_BYTES} bytes. Delete it: "
            "a worker makes a new one when it starts."
        )


def digests_of(fleet_secret: bytes, text: bytes) -> tuple[Digest, ...]:
    """One digest for each line that is `KEY` or `NAME KEY`; blank lines and lines of more words give none."""
    found: list[Digest] = []
    for line in text.splitlines():
        words = line.split()
        if len(words) in (1, 2):
            who = words[0].decode("utf-8", "replace") if len(words) == 2 else ""
            found.append((who, hmac.digest(fleet_secret, words[-1], "sha256")))
    return tuple(found)


class ClientKeys(Object, frozen=True):
    """A Secret of which only digests are left, by entry."""

    data: dict[str, bytes] = msgspec.field(default_factory=dict)
    digests: dict[str, tuple[Digest, ...]] = msgspec.field(default_factory=dict)

    def __repr__(self) -> str:
        return f"ClientKeys({self.metadata.namespace}/{self.metadata.name})"


def digesting(fleet_secret: bytes) -> type[ClientKeys]:
    """A type to decode a Secret into that digests it there and then: the keys are gone before anybody can keep them."""

    class Digested(ClientKeys, frozen=True):
        def __post_init__(self) -> None:
            entries = {entry: digests_of(fleet_secret, text) for entry, text in self.data.items()}
            msgspec.structs.force_setattr(self, "digests", entries)
            msgspec.structs.force_setattr(self, "data", {})

    return Digested


class KeyRing:
    """The digests of every Secret that a service names.

    `wanted()` gives those Secrets, each with whether its service has traffic; `on_change` hears of every Secret whose digests
    changed. `run` belongs to the caller's TaskGroup.
    """

    def __init__(
        self,
        client: Client,
        fleet_secret: bytes,
        *,
        wanted: Callable[[], Mapping[SecretName, bool]],
        on_change: Callable[[str, str], None],
        busy_seconds: float = 15.0,
        idle_seconds: float = 300.0,
        clock: Callable[[], float] = boottime,
    ) -> None:
        type_ = digesting(fleet_secret)
        self.watched = Store(client, SECRETS, type_, label_selector=f"{LABEL_CLIENT_KEYS}=true")
        self.loaded = asyncio.Event()
        """Set when every Secret wanted at the start has been looked at once."""
        self._client = client
        self._type = type_
        self._wanted = wanted
        self._on_change = on_change
        self._busy_seconds = busy_seconds
        self._look_seconds = busy_seconds / 3
        self._idle_seconds = idle_seconds
        self._clock = clock
        self._read: dict[SecretName, ClientKeys | None] = {}
        self._read_at: dict[SecretName, float] = {}
        self._nudge = asyncio.Event()

    def digests(self, namespace: str, name: str, entry: str) -> tuple[Digest, ...]:
        """The keys of one entry; empty when the Secret or the entry is not there."""
        found = self.watched.get(namespace, name) or self._read.get((namespace, name))
        return found.digests.get(entry, ()) if found else ()

    def look(self) -> None:
        """What is wanted has changed: read what is new at once."""
        self._nudge.set()

    async def run(self) -> None:
        """Watch and read until cancelled."""
        async with asyncio.TaskGroup() as group:
            self.watched.subscribe(
                lambda change: self._on_change(change.subject.namespace, change.subject.name)
            )
            group.create_task(self.watched.run())
            await self._watch_decided()
            while True:
                self._nudge.clear()
                await self._read_due()
                self.loaded.set()
                try:
                    async with asyncio.timeout(self._look_seconds):
                        await self._nudge.wait()
                except TimeoutError:
                    continue

    async def _watch_decided(self) -> None:
        """Return when labelled Secrets are known, or when this worker may not list Secrets and so reads each by name."""
        while not isinstance(self.watched.problem, Forbidden):
            try:
                async with asyncio.timeout(DECIDED_POLL_SECONDS):
                    await self.watched.settled.wait()
                    return
            except TimeoutError:
                continue

    async def _read_due(self) -> None:
        wanted, now = self._wanted(), self._clock()
        for gone in self._read.keys() - wanted.keys():
            self._read.pop(gone)
            self._read_at.pop(gone, None)
        due = [
            name
            for name, is_busy in wanted.items()
            if self.watched.get(*name) is None
            # What would be too old at the next look is read now: a key that was taken away works no longer than promised.
            and now + self._look_seconds - self._read_at.get(name, float("-inf"))
            >= (self._busy_seconds if is_busy or self._read.get(name) is None else self._idle_seconds)
        ]
        slots = asyncio.Semaphore(READERS)
        async with asyncio.TaskGroup() as group:
            for name in due:
                group.create_task(self._read_one(name, slots))

    async def _read_one(self, name: SecretName, slots: asyncio.Semaphore) -> None:
        async with slots:
            self._read_at[name] = self._clock()
            before = self._read.get(name)
            try:
                now: ClientKeys | None = await self._client.get(SECRETS, *name, into=self._type)
            except NotFound:
                now = None
            except KubeError as error:
                log.warning("client keys not read", extra=context(secret="/".join(name), error=error))
                return
            self._read[name] = now
            if (before.digests if before else None) != (now.digests if now else None):
                self._on_change(*name)


async def fleet_secret(client: Client, namespace: str) -> bytes:
    """The fleet's digest secret; made once, by whoever starts first.

    Raises:
        KubeError: the API server could not be asked, or refuses Secrets.
    """
    for _ in range(2):
        try:
            found = await client.get(SECRETS, namespace, FLEET_KEY, into=Secret)
        except NotFound:
            value = secrets.token_bytes(FLEET_KEY_BYTES)
            body = {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": FLEET_KEY, "namespace": namespace},
                "type": "Opaque",
                "data": {FLEET_KEY_ENTRY: base64.b64encode(value).decode()},
            }
            try:
                await client.create(SECRETS, namespace, body)
            except AlreadyExists:
                continue
            return value
        if len(found.data.get(FLEET_KEY_ENTRY, b"")) >= FLEET_KEY_BYTES:
            return found.data[FLEET_KEY_ENTRY]
        break
    raise FleetKeyInvalid(namespace)

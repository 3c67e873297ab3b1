"""The routes of every shard, each with a version that rises with every change, and the updates between two versions.

An update is a delta upon exactly the version that the receiver holds, when this book still knows what has changed since, and
else a snapshot (`base_version` 0: what it leaves out is gone). Versions count within one epoch; a new epoch starts with
snapshots, whatever a receiver holds.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from noctaya.api.names import SHARD_COUNT, shard_of
from noctaya.wire import control
from noctaya.workers.objects import shard_of_key

TOMBSTONES = 256
"""Removals remembered a shard; whoever is further behind gets a snapshot."""


@dataclass(slots=True)
class _Entry:
    service: control.Service
    version: int


@dataclass(slots=True)
class _Shard:
    version: int = 1
    """An empty shard has a version too, so that a receiver can hold it."""
    entries: dict[str, _Entry] = field(default_factory=dict)
    removed: deque[tuple[int, str]] = field(default_factory=deque)
    oldest_base: int = 1
    """The lowest version upon which a delta can still be built."""


class RouteBook:
    """See the module. A key is `namespace/name`."""

    def __init__(self) -> None:
        self._shards = [_Shard() for _ in range(SHARD_COUNT)]

    def put(self, service: control.Service) -> int | None:
        """Enter a service; returns its shard if anything changed."""
        key = f"{service.namespace}/{service.name}"
        number = shard_of(service.namespace, service.name)
        shard = self._shards[number]
        entry = shard.entries.get(key)
        if entry is not None and entry.service == service:
            return None
        shard.version += 1
        shard.entries[key] = _Entry(service, shard.version)
        return number

    def remove(self, key: str) -> int | None:
        """Take a service out; returns its shard if it was there."""
        number = shard_of_key(key)
        shard = self._shards[number]
        if shard.entries.pop(key, None) is None:
            return None
        shard.version += 1
        shard.removed.append((shard.version, key))
        if len(shard.removed) > TOMBSTONES:
            shard.oldest_base, _ = shard.removed.popleft()
        return number

    def get(self, key: str) -> control.Service | None:
        """The service as it is told to gateways."""
        entry = self._shards[shard_of_key(key)].entries.get(key)
        return entry.service if entry else None

    def version(self, shard: int) -> int:
        """The current version of a shard."""
        return self._shards[shard].version

    def update(self, shard: int, *, fleet: str, epoch: int, base: int) -> control.ShardUpdate | None:
        """What brings a receiver from version `base` (0: nothing usable) of this epoch to now; None when it is there."""
        state = self._shards[shard]
        if base == state.version:
            return None
        is_delta = state.oldest_base <= base < state.version
        since = base if is_delta else 0
        return control.ShardUpdate(
            fleet=fleet,
            shard=shard,
            epoch=epoch,
            version=state.version,
            base_version=since,
            services=[entry.service for entry in state.entries.values() if entry.version > since],
            removed=self._removed_since(state, since) if is_delta else [],
        )

    def counts(self) -> dict[int, tuple[int, int]]:
        """Version and number of services of every shard that has any, for people."""
        return {
            number: (shard.version, len(shard.entries))
            for number, shard in enumerate(self._shards)
            if shard.entries
        }

    @staticmethod
    def _removed_since(state: _Shard, since: int) -> list[str]:
        # A service that was removed and has come back is an entry, not a removal.
        return sorted({key for version, key in state.removed if version > since and key not in state.entries})

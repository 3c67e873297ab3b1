"""The object store: versions, bounded history, and watches over it.

One writer, one loop: every method is synchronous, so a read-check-write without an await in between is atomic. Each write
takes the next global resourceVersion and is handed to the watches of its resource in that order.
Invariants: a stored object is never changed in place (readers hold references; copy before changing); a watch sees every
write after its start exactly once and in order, or it is told that it cannot (`ApiError` 410) and must list again.
History and watch buffers are bounded; who falls behind is cut, nothing waits for him.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from noctaya.local.apiserver import status
from noctaya.local.apiserver.status import Object

Key = tuple[str, str]  # (namespace or "", name)
Objects = list[Object]


@dataclass(frozen=True, slots=True)
class Change:
    """One write: the object after it (before it, with the new version, for a delete) and what was there before."""

    type: str  # ADDED, MODIFIED, DELETED
    resource: str
    namespace: str
    name: str
    revision: int
    object: Object
    previous: Object | None


class Journal(Protocol):
    """Where changes go to outlive the process; see `journal.py`."""

    def append(self, change: Change) -> None:
        """Record a change; must not block for long."""


class Watch:
    """A bounded queue of the changes of one resource; made by `Storage.watch`."""

    def __init__(
        self, storage: Storage, resource: str, namespace: str | None, limit: int, since: int
    ) -> None:
        self._storage = storage
        self._since = since
        self.resource = resource
        self.namespace = namespace
        self._limit = limit
        self._queue: deque[Change] = deque()
        self._ready = asyncio.Event()
        self._lost = False
        self.closed = False

    def offer(self, change: Change) -> None:
        """Take a change, or note that the reader is too slow."""
        if change.revision <= self._since or (
            self.namespace is not None and change.namespace != self.namespace
        ):
            return
        if len(self._queue) >= self._limit:
            self._lost = True
            self._queue.clear()
        if not self._lost:
            self._queue.append(change)
        self._ready.set()

    async def changes(self) -> list[Change]:
        """All waiting changes, at least one unless the watch was closed; raises 410 when some were lost."""
        await self._ready.wait()
        return self.drain()

    def drain(self) -> list[Change]:
        """All waiting changes without waiting; raises 410 when some were lost."""
        if self._lost:
            raise status.expired(
                "too old resource version: this watch was too slow for the changes it asked for"
            )
        taken = list(self._queue)
        self._queue.clear()
        if not self.closed:
            self._ready.clear()
        return taken

    def seen_revision(self) -> int:
        """The version up to which a reader with nothing waiting has seen everything."""
        return self._queue[0].revision - 1 if self._queue else self._storage.revision

    def close(self) -> None:
        """End the watch; a waiting reader wakes with nothing."""
        if not self.closed:
            self.closed = True
            self._storage.forget(self)
        self._ready.set()


class Storage:
    """Objects by resource (`group/plural`) and key, with one version counter for all of them."""

    def __init__(
        self, *, history: int = 4096, watch_buffer: int = 8192, journal: Journal | None = None
    ) -> None:
        self.revision = 1
        self._history_limit = history
        self._watch_buffer = watch_buffer
        self._journal = journal
        self._objects: dict[str, dict[Key, Object]] = {}
        self._history: dict[str, deque[Change]] = {}
        self._floor: dict[str, int] = {}
        self._base_floor = 0
        self._watches: dict[str, set[Watch]] = {}

    # reading

    def get(self, resource: str, namespace: str, name: str) -> Object | None:
        """The object, not to be changed in place, or None."""
        return self._objects.get(resource, {}).get((namespace, name))

    def list(self, resource: str, namespace: str | None = None) -> list[Object]:
        """Objects in key order, of one namespace or (None) of all."""
        return _ordered(self._objects.get(resource, {}), namespace)

    def list_at(self, resource: str, namespace: str | None, revision: int) -> Objects | None:
        """The same as of an earlier version; None when the history does not reach back so far."""
        if revision < self._oldest(resource):
            return None
        held = dict(self._objects.get(resource, {}))
        for change in reversed(self._history.get(resource, ())):
            if change.revision <= revision:
                break
            key = (change.namespace, change.name)
            if change.previous is None:
                held.pop(key, None)
            else:
                held[key] = change.previous
        return _ordered(held, namespace)

    def _oldest(self, resource: str) -> int:
        return max(self._floor.get(resource, 0), self._base_floor)

    def count(self, resource: str) -> int:
        """How many objects a resource has."""
        return len(self._objects.get(resource, {}))

    def resources(self) -> tuple[str, ...]:
        """Resources that have objects."""
        return tuple(resource for resource, held in self._objects.items() if held)

    def __iter__(self) -> Iterator[tuple[str, Key, Object]]:
        for resource, held in self._objects.items():
            for key, found in held.items():
                yield resource, key, found

    # writing

    def put(self, resource: str, namespace: str, name: str, new: Object) -> Object:
        """Create or replace; sets metadata.resourceVersion on a shallow copy and returns that. Preconditions are the caller's."""
        held = self._objects.setdefault(resource, {})
        previous = held.get((namespace, name))
        stored = self._stamped(new)
        held[namespace, name] = stored
        kind = "ADDED" if previous is None else "MODIFIED"
        self._publish(Change(kind, resource, namespace, name, self.revision, stored, previous))
        return stored

    def remove(self, resource: str, namespace: str, name: str) -> Object | None:
        """Delete; returns the last state with the version of the deletion, or None when there was nothing."""
        previous = self._objects.get(resource, {}).pop((namespace, name), None)
        if previous is None:
            return None
        last = self._stamped(previous)
        self._publish(Change("DELETED", resource, namespace, name, self.revision, last, previous))
        return last

    def _stamped(self, new: Object) -> Object:
        self.revision += 1
        return {**new, "metadata": {**new["metadata"], "resourceVersion": str(self.revision)}}

    def _publish(self, change: Change) -> None:
        self._remember(change)
        if self._journal is not None:
            self._journal.append(change)
        for watch in list(self._watches.get(change.resource, ())):
            watch.offer(change)

    def _remember(self, change: Change) -> None:
        history = self._history.setdefault(change.resource, deque())
        if len(history) >= self._history_limit:
            self._floor[change.resource] = history.popleft().revision
        history.append(change)

    # watching

    def watch(self, resource: str, namespace: str | None, since: int) -> Watch:
        """Changes after version `since`; raises 410 when some of them are no longer known.

        A version that is still to come is waited for in silence, as the real server does.
        """
        if since < self._oldest(resource):
            raise status.expired(f"too old resource version: {since} ({self.revision})")
        watch = Watch(self, resource, namespace, self._watch_buffer, since)
        for change in self._history.get(resource, ()):
            watch.offer(change)
        self._watches.setdefault(resource, set()).add(watch)
        return watch

    def is_watched(self, resource: str) -> bool:
        """Whether somebody watches a resource."""
        return bool(self._watches.get(resource))

    def forget(self, watch: Watch) -> None:
        """Stop feeding a watch (called by `Watch.close`)."""
        self._watches.get(watch.resource, set()).discard(watch)

    def close(self) -> None:
        """End every watch."""
        for watches in list(self._watches.values()):
            for watch in list(watches):
                watch.close()

    def compact(self) -> None:
        """Forget all history, as etcd's compaction does: older watches get 410. For tests and after loading."""
        self._history.clear()
        self._floor.clear()
        self._base_floor = self.revision

    # loading: the journal calls these

    def restore(self, objects: Iterator[tuple[str, Key, Object]], revision: int) -> None:
        """Start from a snapshot: history begins after `revision`."""
        for resource, key, found in objects:
            self._objects.setdefault(resource, {})[key] = found
        self.revision = revision
        self._base_floor = revision

    def replay(self, change: Change) -> None:
        """Repeat a recorded change with its own version; `previous` is taken from the present state."""
        held = self._objects.setdefault(change.resource, {})
        key = (change.namespace, change.name)
        previous = held.pop(key, None)
        if change.type != "DELETED":
            held[key] = change.object
        self.revision = change.revision
        again = Change(
            change.type,
            change.resource,
            change.namespace,
            change.name,
            change.revision,
            change.object,
            previous,
        )
        self._remember(again)


def _ordered(held: dict[Key, Object], namespace: str | None) -> Objects:
    """In the order of the real store's keys, where the namespace and the name are one text."""
    return [held[key] for key in sorted(held, key="/".join) if namespace is None or key[0] == namespace]

"""Decides how a local copy of a collection follows the server's: what to ask next, when, and what changed.

Pure: no clock, socket or await. The shell (`store.py`) performs one `List` or `Watch` at a time and tells how it went.

Invariants: the copy is always a state that the server had, possibly with single objects newer or (unreadable ones) older;
the emitted changes, replayed from nothing, give exactly the copy; an object that was replaced under the same name is seen
as deleted and added, never as modified; versions never go back, except as `accept_older_list_after_seconds` says.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from random import Random
from typing import Generic, Protocol, TypeVar

from noctaya.kube.backoff import Backoff
from noctaya.kube.errors import (
    BadRequest,
    Call,
    Gone,
    Invalid,
    KindNotServed,
    KubeError,
    Silent,
    TooManyRequests,
    Unavailable,
    Undecodable,
)
from noctaya.kube.metadata import Metadata
from noctaya.kube.versions import number_of


class HasMetadata(Protocol):
    @property
    def metadata(self) -> Metadata: ...


T = TypeVar("T", bound=HasMetadata)
Key = tuple[str, str]
"""(namespace, name); the namespace of a cluster-wide object is empty."""


@dataclass(frozen=True, slots=True)
class WatchSettings:
    """How patient a store is. The defaults suit a real cluster; tests shrink them."""

    silence_seconds: float = 90.0
    """A stream without a byte for so long is dead. The server's bookmarks come about every minute."""
    stream_seconds: tuple[int, int] = (300, 600)
    """The server is asked to end a stream after a time drawn from here, so that streams spread over API servers."""
    list_seconds: float = 30.0
    """Deadline of each page of a list. One that was swallowed by the network must not be waited for longer than matters."""
    healthy_after_seconds: float = 5.0
    """A stream that lived so long, or delivered an event, ends the back-off."""
    backoff_base_seconds: float = 0.5
    backoff_cap_seconds: float = 30.0
    not_served_retry_seconds: float = 5.0
    """How often to look for a kind whose CRD is missing."""
    accept_older_list_after_seconds: float = 60.0
    """A list older than what was already seen comes from a server that lags, and is refused; after so long it must be a
    restored cluster, and is believed."""


class ChangeKind(Enum):
    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """One step of the copy. Added: `old` is None. Deleted: `new` is None and `old` is the last known state."""

    kind: ChangeKind
    old: T | None
    new: T | None

    @property
    def subject(self) -> T:
        """The object that this is about: its new state, or the last known one of a deleted object."""
        found = self.new if self.new is not None else self.old
        if found is None:
            raise ValueError("a change without an object")
        return found


# -- what the shell tells ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Started:
    """Begin."""


@dataclass(frozen=True, slots=True)
class UnreadableObject:
    """An object whose fields are not of the types we know; its metadata still is."""

    metadata: Metadata
    message: str


@dataclass(frozen=True, slots=True)
class Listed(Generic[T]):
    """The whole collection as of `resource_version`."""

    resource_version: str
    items: list[T]
    unreadable: list[UnreadableObject] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ListFailed:
    error: KubeError


@dataclass(frozen=True, slots=True)
class WatchOpened:
    """The server accepted the watch."""


@dataclass(frozen=True, slots=True)
class Upserted(Generic[T]):
    """ADDED or MODIFIED; which of them the server said does not matter, only what the copy holds."""

    item: T


@dataclass(frozen=True, slots=True)
class Deleted:
    metadata: Metadata


@dataclass(frozen=True, slots=True)
class Bookmarked:
    resource_version: str


@dataclass(frozen=True, slots=True)
class WatchEnded:
    """By the server's own will (no error), or by one: refused, lost, silent, expired, unreadable."""

    error: KubeError | None = None


Event = (
    Started
    | Listed[T]
    | ListFailed
    | WatchOpened
    | Upserted[T]
    | UnreadableObject
    | Deleted
    | Bookmarked
    | WatchEnded
)


# -- what the shell does -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class List:
    """List after a delay; not paged when paging took too long before."""

    after_seconds: float
    paged: bool


@dataclass(frozen=True, slots=True)
class Watch:
    """Watch from a version after a delay, asking the server to end the stream after `stream_seconds`."""

    after_seconds: float
    resource_version: str
    stream_seconds: int


Action = Change[T] | List | Watch

# After these the version that we would resume from is worthless, or what it leads to cannot be read: list again. Silence
# counts too: a cluster that was restored from a backup waits, without a word, for a version that it may never reach.
_LIST_AGAIN = (Gone, Undecodable, BadRequest, Invalid, KindNotServed, Silent)
_QUICK_SECONDS = 0.1


class Reflector(Generic[T]):
    """The copy and the conversation about it. Feed `on` in the order in which things happened."""

    def __init__(self, settings: WatchSettings, random: Random, *, describe: str = "objects") -> None:
        self.items: dict[Key, T] = {}
        self.unreadable: dict[Key, str] = {}
        """Objects whose latest state could not be read; `items` keeps the one before, if there was one."""
        self.problem: KubeError | None = None
        """Why we are not in touch with the server now, or None."""
        self.serves = True
        """False while the API server does not know the kind."""
        self.has_synced = False
        self.rewinds = 0
        """How often a list older than what had been seen was believed in the end."""
        self.last_contact: float | None = None
        """When (`now` of the events) the server was last heard about this collection."""
        self._settings = settings
        self._random = random
        self._describe = describe
        self._backoff = Backoff(settings.backoff_base_seconds, settings.backoff_cap_seconds, random)
        self._resource_version = ""
        self._highest = 0
        self._older_since: float | None = None
        self._paged = True
        self._opened_at: float | None = None
        self._has_delivered = False

    def on(self, event: Event[T], now: float) -> list[Action[T]]:
        """What follows from `event`: changes in order, then at most one List or Watch."""
        match event:
            case Upserted(item):
                self._heard(now, item.metadata.resource_version)
                self._has_delivered = True
                return list(self._upsert(item))
            case Deleted(metadata):
                self._heard(now, metadata.resource_version)
                self._has_delivered = True
                return list(self._delete(_key(metadata)))
            case Bookmarked(resource_version):
                self._heard(now, resource_version)
                return []
            case UnreadableObject():
                self._heard(now, event.metadata.resource_version)
                self._has_delivered = True
                return list(self._note_unreadable(event))
            case WatchOpened():
                self.last_contact = self._opened_at = now
                self._has_delivered = False
                self.problem = None
                return []
            case Listed():
                return self._on_listed(event, now)
            case ListFailed(error):
                if isinstance(error, Gone):
                    # The pages took longer than the server keeps a state: ask for one answer.
                    self._paged = False
                return [List(self._delay_after(error), self._paged)]
            case WatchEnded(error):
                return [self._on_watch_ended(error, now)]
            case Started():
                return [List(0.0, self._paged)]

    def _heard(self, now: float, resource_version: str) -> None:
        self.last_contact = now
        if resource_version:
            self._resource_version = resource_version
            self._highest = max(self._highest, number_of(resource_version))

    def _on_listed(self, event: Listed[T], now: float) -> list[Action[T]]:
        version = number_of(event.resource_version)
        if version and version < self._highest:
            if self._older_since is None:
                self._older_since = now
            if now - self._older_since < self._settings.accept_older_list_after_seconds:
                self.problem = self._older_list(event.resource_version)
                return [List(self._backoff.next(), self._paged)]
            self._highest = version
            self.rewinds += 1
        self._older_since = None
        self._heard(now, event.resource_version)
        self.serves = self.has_synced = self._paged = True
        changes: list[Action[T]] = []
        seen = {_key(item.metadata) for item in event.items} | {
            _key(bad.metadata) for bad in event.unreadable
        }
        for key in [key for key in self.items if key not in seen]:
            changes += self._delete(key)
        self.unreadable = {key: why for key, why in self.unreadable.items() if key in seen}
        for item in event.items:
            changes += self._upsert(item)
        for bad in event.unreadable:
            changes += self._note_unreadable(bad)
        return [*changes, self._watch(0.0)]

    def _on_watch_ended(self, error: KubeError | None, now: float) -> List | Watch:
        opened_at, self._opened_at = self._opened_at, None
        lived = now - opened_at if opened_at is not None else 0.0
        if self._has_delivered or lived >= self._settings.healthy_after_seconds:
            self._backoff.reset()
            delay = self._random.uniform(0, _QUICK_SECONDS)
        else:
            delay = self._backoff.next()
        self._has_delivered = False
        if error is not None:
            delay = max(delay, self._delay_after(error, backoff_seconds=delay))
        return List(delay, self._paged) if isinstance(error, _LIST_AGAIN) else self._watch(delay)

    def _delay_after(self, error: KubeError, backoff_seconds: float | None = None) -> float:
        """How long to wait after an error, which becomes the problem."""
        self.problem = error
        if isinstance(error, KindNotServed):
            self.serves = False
            return self._settings.not_served_retry_seconds * self._random.uniform(0.9, 1.1)
        delay = self._backoff.next() if backoff_seconds is None else backoff_seconds
        if isinstance(error, (TooManyRequests, Unavailable)) and error.retry_after_seconds is not None:
            # Later than asked, never earlier: all who were refused together were told the same number.
            delay = max(delay, error.retry_after_seconds * self._random.uniform(1.0, 1.25))
        return delay

    def _watch(self, after_seconds: float) -> Watch:
        low, high = self._settings.stream_seconds
        return Watch(after_seconds, self._resource_version, self._random.randint(low, high))

    def _upsert(self, item: T) -> Iterable[Change[T]]:
        key = _key(item.metadata)
        self.unreadable.pop(key, None)
        old = self.items.get(key)
        if old is not None and old.metadata.uid != item.metadata.uid:
            yield from self._delete(key)
            old = None
        if old is None:
            self.items[key] = item
            yield Change(ChangeKind.ADDED, None, item)
        elif old.metadata.resource_version != item.metadata.resource_version:
            self.items[key] = item
            yield Change(ChangeKind.MODIFIED, old, item)

    def _delete(self, key: Key) -> Iterable[Change[T]]:
        self.unreadable.pop(key, None)
        old = self.items.pop(key, None)
        if old is not None:
            yield Change(ChangeKind.DELETED, old, None)

    def _note_unreadable(self, bad: UnreadableObject) -> Iterable[Change[T]]:
        """Keep what we knew of the same object: to drop it would look like a deletion to everyone who listens."""
        key = _key(bad.metadata)
        old = self.items.get(key)
        if old is not None and old.metadata.uid != bad.metadata.uid:
            yield from self._delete(key)
        self.unreadable[key] = bad.message

    def _older_list(self, resource_version: str) -> KubeError:
        return Unavailable(
            Call("list", self._describe),
            f"the list is of version {resource_version}, but {self._highest} was already seen: this API server lags "
            "behind, or the cluster was restored from a backup",
        )


def _key(metadata: Metadata) -> Key:
    return (metadata.namespace, metadata.name)

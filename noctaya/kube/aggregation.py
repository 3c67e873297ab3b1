"""Which events become one: the same words about the same object within ten minutes are counted, not repeated.

Pure. A pending entry that nobody has sent yet only grows its count, so a loop that reports the same thing thousands of
times costs one entry and one write. Everything is bounded: the oldest waiting entry is dropped (and counted) when the
queue is full, and the memory of what was sent forgets the least recent.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

from noctaya.kube.metadata import Slim
from noctaya.kube.objects import ObjectReference


class EventKey(Slim, frozen=True):
    """What makes two events the same."""

    about: ObjectReference
    type: str
    reason: str
    message: str


@dataclass(slots=True)
class Entry:
    """One event object as it should stand on the server."""

    key: EventKey
    first_at: float
    last_at: float
    count: int
    fresh: int
    """How many of `count` the server has not heard of yet."""
    name: str | None = None
    """The name it was created under; None while it is not known to exist."""


class Aggregation:
    """The waiting events, in order, and those recently written. All times are wall times, in seconds."""

    def __init__(self, *, capacity: int, window_seconds: float, remembered: int = 4096) -> None:
        self.dropped = 0
        """Occurrences that nobody will ever see: the queue was full, or the server refused them."""
        self._capacity = capacity
        self._window_seconds = window_seconds
        self._remembered = remembered
        self._waiting: OrderedDict[EventKey, Entry] = OrderedDict()
        self._written: OrderedDict[EventKey, Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, key: EventKey, at: float) -> None:
        """One occurrence."""
        entry = self._waiting.get(key)
        if entry is None:
            if len(self._waiting) >= self._capacity:
                _, lost = self._waiting.popitem(last=False)
                self.dropped += lost.fresh
            self._waiting[key] = Entry(key, at, at, 1, 1)
        else:
            entry.count += 1
            entry.fresh += 1
            entry.last_at = at

    def take(self) -> Entry | None:
        """The next one to write, or None. With a name it exists and only its count and last time change."""
        if not self._waiting:
            return None
        # Joined with what was written here and not in `add`: in between, the same event may have been written.
        entry = self._waiting.popitem(last=False)[1]
        known = self._written.get(entry.key)
        if known is not None and entry.first_at - known.last_at < self._window_seconds:
            entry.first_at = known.first_at
            entry.count += known.count
            entry.name = known.name
        return entry

    def wrote(self, entry: Entry) -> None:
        """It is on the server as it stands, under `entry.name`."""
        entry.fresh = 0
        self._written[entry.key] = entry
        self._written.move_to_end(entry.key)
        while len(self._written) > self._remembered:
            self._written.popitem(last=False)

    def refused(self, entry: Entry) -> None:
        """The server did not take it; its new occurrences are lost."""
        self.dropped += entry.fresh

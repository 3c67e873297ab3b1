"""What an ownership core heard, bounded, and how to live it again.

A recording is in two chapters; each opens with a checkpoint of the core's state, and when the younger one is full the older
one is forgotten. So at any time it holds the last `length` events at least, and a core restored from the checkpoint and
told the same answers the same, action by action (`replay`).
"""

from __future__ import annotations

import msgspec

from noctaya.leader.tenure import Standing
from noctaya.workers.shard_events import Event
from noctaya.workers.shard_state import State


class Heard(msgspec.Struct, frozen=True):
    """One event, when, and what membership allowed then."""

    now: float
    standing: Standing
    event: Event


class Chapter(msgspec.Struct):
    """The state that it begins with, and what followed."""

    opening: State
    heard: list[Heard]


class Recording:
    """See the module."""

    def __init__(self, *, length: int = 2000) -> None:
        self._length = length
        self._before: tuple[bytes, list[Heard]] | None = None
        self._current: tuple[bytes, list[Heard]] | None = None

    def hear(self, state: State, event: Event, now: float, standing: Standing) -> None:
        """Keep `event`, which the core of `state` is about to take in."""
        if self._current is None or len(self._current[1]) >= self._length:
            self._before, self._current = self._current, (state.checkpoint(), [])
        self._current[1].append(Heard(now, standing, event))

    def dump(self) -> bytes:
        """The chapters as JSON, the older first."""
        chapters = [
            {"opening": msgspec.Raw(opening), "heard": heard}
            for opening, heard in (self._before or (b"", []), self._current or (b"", []))
            if opening
        ]
        return msgspec.json.encode(chapters)


def chapters(dump: bytes) -> list[Chapter]:
    """What `Recording.dump` wrote."""
    return msgspec.json.decode(dump, type=list[Chapter])

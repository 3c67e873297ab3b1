"""Which service is reconciled next: a priority queue of keys, as a pure core that is told the time.

Invariants: a key is in flight at most once; a key added while it is in flight runs again afterwards; adding a key that
already waits can only raise its priority and bring it forward, never put it off; nothing added is ever lost. Size is
bounded by the number of services, because a key is held once. Ties go to the one that was added first.
"""

from __future__ import annotations

import enum
import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass

BACKOFF_FIRST_SECONDS = 0.5
BACKOFF_LAST_SECONDS = 60.0
USER_ERROR_SECONDS = 300.0


class Priority(enum.IntEnum):
    """Higher goes first."""

    BACKLOG = 0
    """Start-up and the slow repeats: a whole fleet may wait here."""
    CHANGED = 1
    """Something about the service changed."""
    WOKEN = 2
    """Its replicas changed or its pods appear: somebody may be waiting for it."""


class Outcome(enum.Enum):
    """How a run of a key ended."""

    DONE = enum.auto()
    WORLD_ERROR = enum.auto()
    """A timeout, a conflict, a server that was down: again with exponential back-off and jitter."""
    USER_ERROR = enum.auto()
    """A person's mistake: when something changes (then the key is added anyway), else every 5 minutes."""


@dataclass(slots=True)
class _Waiting:
    priority: Priority
    due: float
    order: int


class KeyQueue:
    """The queue; `random_` is a source of jitter in [0, 1)."""

    def __init__(self, random_: Callable[[], float] = random.random) -> None:
        self._random = random_
        self._order = 0
        self._waiting: dict[str, _Waiting] = {}
        # Both heaps hold stale entries too: one counts only while `order` and place agree with `_waiting`.
        self._by_due: list[tuple[float, int, str]] = []
        self._by_priority: list[tuple[int, int, str]] = []
        self._in_flight: set[str] = set()
        self._again: dict[str, tuple[Priority, float]] = {}
        self._failures: dict[str, int] = {}

    def __len__(self) -> int:
        """How many keys wait, whether due or not."""
        return len(self._waiting) + len(self._again)

    def due(self, now: float) -> int:
        """How many keys could run now, were there hands: what was put off for later is no backlog."""
        waiting = sum(entry.due <= now for entry in self._waiting.values())
        return waiting + sum(due <= now for _, due in self._again.values())

    @property
    def in_flight(self) -> frozenset[str]:
        """Keys that were taken and not yet finished."""
        return frozenset(self._in_flight)

    def failures(self, key: str) -> int:
        """World errors in a row."""
        return self._failures.get(key, 0)

    def add(
        self, key: str, now: float, priority: Priority = Priority.CHANGED, delay_seconds: float = 0.0
    ) -> None:
        """Ask for a run of `key` no later than `now + delay_seconds`."""
        due = now + delay_seconds
        if key in self._in_flight:
            before = self._again.get(key)
            self._again[key] = (max(before[0], priority), min(before[1], due)) if before else (priority, due)
        else:
            self._put(key, priority, due)

    def take(self, now: float) -> str | None:
        """The next key to run, now in flight; None when nothing is due."""
        while self._by_due and self._by_due[0][0] <= now:
            _, order, key = heapq.heappop(self._by_due)
            waiting = self._waiting.get(key)
            if waiting is not None and waiting.order == order:
                heapq.heappush(self._by_priority, (-waiting.priority, order, key))
        while self._by_priority:
            _, order, key = heapq.heappop(self._by_priority)
            waiting = self._waiting.get(key)
            if waiting is not None and waiting.order == order:
                del self._waiting[key]
                self._in_flight.add(key)
                return key
        return None

    def finish(
        self, key: str, outcome: Outcome, now: float, again_after_seconds: float | None = None
    ) -> None:
        """`key`, taken before, ended with `outcome`; `again_after_seconds` asks for another run, sooner than the outcome does.

        Raises KeyError for a key that is not in flight.
        """
        self._in_flight.remove(key)
        if outcome is Outcome.WORLD_ERROR:
            failures = self._failures.get(key, 0)
            self._failures[key] = failures + 1
            again_after_seconds = self._backoff(failures)
        else:
            self._failures.pop(key, None)
            if outcome is Outcome.USER_ERROR:
                slowly = USER_ERROR_SECONDS * (0.9 + 0.2 * self._random())
                again_after_seconds = min(slowly, again_after_seconds or slowly)
        asked = self._again.pop(key, None)
        if asked is not None:
            self._put(key, *asked)
        if again_after_seconds is not None:
            self._put(key, Priority.BACKLOG, now + again_after_seconds)

    def forget(self, key: str) -> None:
        """The service is gone: nothing of it waits any more. A run in flight ends as usual, and is the last."""
        self._waiting.pop(key, None)
        self._again.pop(key, None)
        self._failures.pop(key, None)

    def next_due(self) -> float | None:
        """When `take` will have something: a time that may have passed, or None while nothing waits."""
        while self._by_priority:
            _, order, key = self._by_priority[0]
            if self._is_current(order, key):
                return self._waiting[key].due
            heapq.heappop(self._by_priority)
        while self._by_due:
            due, order, key = self._by_due[0]
            if self._is_current(order, key):
                return due
            heapq.heappop(self._by_due)
        return None

    def _put(self, key: str, priority: Priority, due: float) -> None:
        waiting = self._waiting.get(key)
        if waiting is not None:
            if priority <= waiting.priority and due >= waiting.due:
                return
            priority, due = max(priority, waiting.priority), min(due, waiting.due)
        self._order += 1
        self._waiting[key] = _Waiting(priority, due, self._order)
        heapq.heappush(self._by_due, (due, self._order, key))

    def _is_current(self, order: int, key: str) -> bool:
        waiting = self._waiting.get(key)
        return waiting is not None and waiting.order == order

    def _backoff(self, failures: int) -> float:
        whole = min(BACKOFF_LAST_SECONDS, BACKOFF_FIRST_SECONDS * 2.0 ** min(failures, 10))
        return whole * (0.5 + 0.5 * self._random())

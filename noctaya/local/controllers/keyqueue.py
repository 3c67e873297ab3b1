"""Which keys are to be reconciled next: each at most once in line, never twice at a time, with delays.

The shape of controller-runtime's work queue as a pure object; `loop.py` runs it. A key added while it is being worked on is
handed out again afterwards, so no change is lost. Bounded by the number of keys that exist.
"""

import heapq
from collections import deque
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)

FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 10.0


class KeyQueue(Generic[K]):
    """Keys waiting, in work, and due later."""

    def __init__(self) -> None:
        self._line: deque[K] = deque()
        self._dirty: set[K] = set()
        self._working: set[K] = set()
        self._due: dict[K, float] = {}
        self._order: list[tuple[float, int, K]] = []
        self._count = 0
        self._failures: dict[K, int] = {}

    def add(self, key: K) -> None:
        """Reconcile soon."""
        if key in self._dirty:
            return
        self._dirty.add(key)
        if key not in self._working:
            self._line.append(key)

    def add_at(self, key: K, at: float) -> None:
        """Reconcile at `at` or earlier; an earlier appointment wins."""
        if key in self._due and self._due[key] <= at:
            return
        self._due[key] = at
        self._count += 1
        heapq.heappush(self._order, (at, self._count, key))

    def take(self, now: float) -> K | None:
        """The next key, now in work; None when there is nothing to do."""
        while self._order and self._order[0][0] <= now:
            at, _, key = heapq.heappop(self._order)
            if self._due.get(key) == at:
                del self._due[key]
                self.add(key)
        if not self._line:
            return None
        key = self._line.popleft()
        self._dirty.discard(key)
        self._working.add(key)
        return key

    def next_at(self) -> float | None:
        """When the next delayed key is due."""
        while self._order and self._due.get(self._order[0][2]) != self._order[0][0]:
            heapq.heappop(self._order)
        return self._order[0][0] if self._order else None

    def done(self, key: K, now: float, *, failed: bool = False) -> None:
        """The work on this key is over; a failure comes back after a growing pause."""
        self._working.discard(key)
        if failed:
            count = self._failures[key] = self._failures.get(key, 0) + 1
            self.add_at(key, now + min(FIRST_PAUSE_SECONDS * 2 ** (count - 1), LONGEST_PAUSE_SECONDS))
        else:
            self._failures.pop(key, None)
        if key in self._dirty:
            self._line.append(key)

"""Virtual time: what happens next, in order; equal instants in the order in which they were asked for."""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable

Work = Callable[[], None]


class Clockwork:
    """`now` is the time that nobody in the simulation can read."""

    def __init__(self, seed: int) -> None:
        self.now = 0.0
        self.random = random.Random(seed)
        self.steps = 0
        self._heap: list[tuple[float, int, Work]] = []
        self._serial = 0
        self.after_step: Work = lambda: None

    def later(self, delay: float, work: Work) -> None:
        """Do `work` in `delay` seconds."""
        self._serial += 1
        heapq.heappush(self._heap, (self.now + delay, self._serial, work))

    def run(self, until: float) -> None:
        """Let everything happen that is due before `until`."""
        heap, after = self._heap, self.after_step
        while heap and heap[0][0] <= until:
            self.now, _, work = heapq.heappop(heap)
            work()
            self.steps += 1
            after()
        self.now = until

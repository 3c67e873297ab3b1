"""The keys that wait for a reconcile: each at most once, and never in two workers' hands (behaviours L2 and L8).

A key that is added while a worker has it comes back when that worker is done. A failed key comes back after 5 ms, doubling
to 1000 s; a success forgets its failures. The queue is bounded by the number of ScaledObjects.
"""

import asyncio
from collections import deque

from noctaya.local.keda.records import Key


class WorkQueue:
    """Waiting keys, in order of arrival."""

    def __init__(self, retry_first_seconds: float, retry_most_seconds: float) -> None:
        self._retry_first_seconds = retry_first_seconds
        self._retry_most_seconds = retry_most_seconds
        self._waiting: deque[Key] = deque()
        self._held: set[Key] = set()
        self._again: set[Key] = set()
        self._failures: dict[Key, int] = {}
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._wakes = asyncio.Event()

    def add(self, key: Key) -> None:
        """Have `key` reconciled as soon as a worker is free; a pending retry is no longer needed."""
        self._cancel_timer(key)
        if key in self._held:
            self._again.add(key)
        elif key not in self._waiting:
            self._waiting.append(key)
            self._wakes.set()

    async def get(self) -> Key:
        """The next key; the caller must end with `done`."""
        while not self._waiting:
            self._wakes.clear()
            await self._wakes.wait()
        key = self._waiting.popleft()
        self._held.add(key)
        return key

    def done(self, key: Key, *, failed: bool) -> None:
        """The worker is through with `key`."""
        self._held.discard(key)
        if failed:
            failures = self._failures.get(key, 0)
            self._failures[key] = failures + 1
        else:
            self._failures.pop(key, None)
        if key in self._again:
            self._again.discard(key)
            self.add(key)
        elif failed:
            # The exponent is bounded before it is used: 2.0 ** 1024 is no float.
            delay = min(self._retry_first_seconds * 2.0 ** min(failures, 60), self._retry_most_seconds)
            self._timers[key] = asyncio.get_running_loop().call_later(delay, self.add, key)

    def close(self) -> None:
        """Drop every pending retry."""
        for key in list(self._timers):
            self._cancel_timer(key)

    def _cancel_timer(self, key: Key) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

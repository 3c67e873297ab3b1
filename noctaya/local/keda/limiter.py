"""A token bucket that serves first come, first served: KEDA's API client sends 20 writes a second with a burst of 30.

This is what makes a scaler that pushes `true` too often visibly delay scale-to-zero (behaviour Q1). `Bucket` is pure;
`Limiter` sleeps for it on the running loop's clock.
"""

import asyncio


class Bucket:
    """Reserves places in time. Invariant: in any window of w seconds at most `burst + rate * w` places lie."""

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = float(burst)
        self._at: float | None = None

    def reserve(self, now: float) -> float:
        """Seconds until the caller may go; each call takes one place, in the order of the calls."""
        if self._at is not None:
            self._tokens = min(float(self._burst), self._tokens + (now - self._at) * self._rate)
        self._at = now
        self._tokens -= 1.0
        return max(0.0, -self._tokens / self._rate)


class Limiter:
    """Lets callers through at the bucket's pace. A caller that is cancelled while it waits has spent its place."""

    def __init__(self, rate: float, burst: int) -> None:
        self._bucket = Bucket(rate, burst)

    async def turn(self) -> None:
        """Wait for one place."""
        delay = self._bucket.reserve(asyncio.get_running_loop().time())
        if delay > 0:
            await asyncio.sleep(delay)

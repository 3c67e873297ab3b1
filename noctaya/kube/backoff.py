"""Delays between attempts that must not keep step with anybody else's: decorrelated jitter.

Each delay is uniform between the base and three times the one before, capped. Thousands of clients that lose the same
server at the same moment spread over the whole range within two or three attempts.
"""

from __future__ import annotations

from random import Random


class Backoff:
    """Pure: draws from the generator it is given. `reset` only after something that proves the other side well."""

    def __init__(self, base_seconds: float, cap_seconds: float, random: Random) -> None:
        self._base_seconds = base_seconds
        self._cap_seconds = cap_seconds
        self._random = random
        self._last_seconds = 0.0

    def next(self) -> float:
        """The delay before the next attempt, in seconds."""
        high = max(self._base_seconds, self._last_seconds * 3)
        self._last_seconds = min(self._cap_seconds, self._random.uniform(self._base_seconds, high))
        return self._last_seconds

    def reset(self) -> None:
        self._last_seconds = 0.0

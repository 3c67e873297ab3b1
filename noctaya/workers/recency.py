"""When each service was last in use, so that a poll between two requests is not taken for the end of use.

KEDA samples: a model that answers one short request after the other looks idle to a poll that falls between two of them, and
with a short cooldown that one sample would put it to sleep under the next request. So `IsActive` stays true for a hold after
the last use (`HOLD` in the trigger's metadata: the cooldown, at least 1 s, at most one polling interval); only then KEDA's cooldown begins
to count. What `GetMetrics` tells is not touched.

Invariant: this only ever turns an honest no into a yes, and never for longer than `LONGEST_HOLD_SECONDS`.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final

HOLD: Final = "noctayaHoldSeconds"
LONGEST_HOLD_SECONDS: Final = 600.0


def hold_of(metadata: Mapping[str, str]) -> float:
    """Seconds of the hold that a trigger asks for; 0 for a trigger without one, or with nonsense."""
    try:
        seconds = float(metadata.get(HOLD, "0"))
    except ValueError:
        return 0.0
    return min(seconds, LONGEST_HOLD_SECONDS) if math.isfinite(seconds) and seconds > 0 else 0.0


class Recency:
    """The ends of use, oldest first; those older than any hold are dropped, so that nobody can make it grow for good."""

    def __init__(self) -> None:
        self._ended_at: OrderedDict[str, float] = OrderedDict()

    def ended(self, key: str, now: float) -> None:
        """The last request of `key` is over."""
        self._ended_at[key] = now
        self._ended_at.move_to_end(key)
        self._drop_old(now)

    def adopt(self, idle_seconds: Mapping[str, float], now: float) -> None:
        """Another worker saw the last requests of these services end so many seconds ago; the later of two ends counts."""
        for key, idle in idle_seconds.items():
            ended = now - max(idle, 0.0)
            if ended > self._ended_at.get(key, -math.inf):
                self._ended_at[key] = ended
        self._ended_at = OrderedDict(sorted(self._ended_at.items(), key=lambda end: end[1]))
        self._drop_old(now)

    def is_recent(self, key: str, now: float, hold_seconds: float) -> bool:
        """Whether the use of `key` ended less than `hold_seconds` ago."""
        ended = self._ended_at.get(key)
        return ended is not None and now - ended < hold_seconds

    def idle_seconds(self, key: str, now: float) -> float | None:
        """How long ago the use of `key` ended; None when that is not known, or longer ago than any hold."""
        ended = self._ended_at.get(key)
        return None if ended is None or now - ended > LONGEST_HOLD_SECONDS else now - ended

    def _drop_old(self, now: float) -> None:
        while self._ended_at and now - next(iter(self._ended_at.values())) > LONGEST_HOLD_SECONDS:
            self._ended_at.popitem(last=False)

    def __len__(self) -> int:
        return len(self._ended_at)

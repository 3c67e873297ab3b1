"""A cold request's waterfall: when each step happened, in milliseconds after its arrival.

The answer carries it in a header (`x-noctaya-cold-start`), the log in one line, and, for a client that asked, the stream in a
comment right before its first forwarded byte. `x-noctaya-trace: 1` adds `clock`, the arrival on CLOCK_BOOTTIME in seconds, so
that a program on the same machine can put its own moments beside ours.
"""

import time
from collections.abc import Callable

import msgspec

HEADER = "x-noctaya-cold-start"
REQUEST_HEADER = "x-noctaya-trace"

ARRIVAL = "arrival"
DEMAND = "demand"
"""The wake went out to a worker."""
WAKE_ACK = "wake_ack"
"""The shard's owner has it."""
ENDPOINT = "endpoint"
"""The pod has an address."""
PROBE = "probe"
"""The endpoint is good: by our probe or by the API, whichever came first."""
FORWARDED = "forwarded"
FIRST_BYTE = "first_byte"
"""The engine's first byte is here."""


def boottime() -> float:
    """CLOCK_BOOTTIME in seconds, else the monotonic clock."""
    clock = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
    return time.clock_gettime(clock)


class Trace:
    """The moments of one request. Marking one twice keeps the first."""

    __slots__ = ("_clock", "_moments", "is_asked_for", "start", "started_at")

    def __init__(self, clock: Callable[[], float], *, is_asked_for: bool = False) -> None:
        self._clock = clock
        self.start = clock()
        self.is_asked_for = is_asked_for
        self.started_at = boottime() if is_asked_for else 0.0
        self._moments: dict[str, float] = {}

    def mark(self, step: str) -> None:
        """This step ends now."""
        self._moments.setdefault(step, self._clock())

    def seconds(self, step: str) -> float | None:
        """Arrival to `step`; None when it did not happen."""
        moment = self._moments.get(step)
        return None if moment is None else moment - self.start

    @property
    def elapsed(self) -> float:
        """Seconds since the arrival."""
        return self._clock() - self.start

    def offsets(self) -> dict[str, float]:
        """Step → milliseconds after the arrival, in the order in which they happened."""
        steps = sorted(self._moments.items(), key=lambda step: step[1])
        told = {ARRIVAL: 0.0} | {step: round((moment - self.start) * 1000, 1) for step, moment in steps}
        return told | {"clock": self.started_at} if self.is_asked_for else told

    def as_json(self) -> str:
        """For the header and the comment."""
        return msgspec.json.encode(self.offsets()).decode()

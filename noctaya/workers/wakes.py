"""When the last wake of each service passed through this worker, for a person who asks where a cold start's time went.

Times are CLOCK_BOOTTIME seconds, so that a program on the same machine can put its own moments beside them. Bounded: the
services that woke last are kept.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

CAPACITY = 256


@dataclass(slots=True)
class Wake:
    """One 0→1 edge: when this worker learned of the demand, and when it first pushed `true` for it."""

    demand_at: float
    push_at: float | None = None


class WakeLog:
    """The last wake of each of the `CAPACITY` services that woke last."""

    def __init__(self) -> None:
        self._wakes: OrderedDict[str, Wake] = OrderedDict()

    def rose(self, key: str, now: float) -> None:
        """Demand for `key` went from 0 to more."""
        self._wakes[key] = Wake(now)
        self._wakes.move_to_end(key)
        if len(self._wakes) > CAPACITY:
            self._wakes.popitem(last=False)

    def pushed(self, key: str, now: float) -> None:
        """`true` went to a stream of KEDA; only the first after an edge counts."""
        wake = self._wakes.get(key)
        if wake is not None and wake.push_at is None:
            wake.push_at = now

    def view(self) -> dict[str, dict[str, float | None]]:
        """For `/debug/wakes`."""
        return {
            key: {"demandAt": wake.demand_at, "pushAt": wake.push_at} for key, wake in self._wakes.items()
        }

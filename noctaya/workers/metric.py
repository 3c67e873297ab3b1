"""What KEDA is told about one service: a number, or that there is no answer.

Invariants: not knowing is never told as zero or as inactive; while the API server is out of reach (GROW) nothing lower than
the last valid answer is told.

An owner that does not know of a model that is awake says that it is active, with the value that keeps just the replicas that
it has (`held`). An error would be more honest, and is not safe: KEDA 2.20 closes its cache of scalers when an HPA's question ends in
one, and a poll that meets the closed cache counts as inactive *without* error (keda.md 4.5). Once errors have lasted for a
cooldown, that puts a model to sleep under its requests; `tests/acceptance/failures/test_upgrade.py` has seen it. An error is
told of a model without replicas, which cannot lose any. A worker that does not own the shard asks who does, and tells `held`
itself where it gets no answer (`answering.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from noctaya.workers.demand import AtLeast, Demand, Known, seen_of
from noctaya.workers.permission import Permission

METRIC_NAME: Final = "pending"


class InvalidMetadata(ValueError):
    """A trigger's metadata that no ScaledObject of ours has; the message names the key."""


def target_of(metadata: Mapping[str, str]) -> float:
    """The target of the trigger: a pure function of its metadata, so that any worker answers it at any time.

    Raises:
        InvalidMetadata: metricName is another metric, or targetValue is not a number above zero.
    """
    if metadata.get("metricName", "") not in ("", METRIC_NAME):
        raise InvalidMetadata(f"metricName must be {METRIC_NAME!r} or empty, not {metadata['metricName']!r}")
    text = metadata.get("targetValue", "")
    try:
        target = float(text)
    except ValueError:
        target = math.nan
    if not (math.isfinite(target) and target > 0):
        raise InvalidMetadata(f"targetValue must be a number above zero, not {text!r}")
    return target


def held_value(replicas: int, target: float) -> int:
    """The demand at which an HPA with that target (a whole number in our objects) wants just so many; 0 for none."""
    return max(1, math.floor(replicas * target)) if replicas > 0 else 0


@dataclass(frozen=True, slots=True)
class Silence:
    """No answer, and why; becomes UNAVAILABLE."""

    reason: str


class Answers:
    """Answers by demand and permission, and remembers the last valid value of each service for GROW."""

    def __init__(self) -> None:
        self._valid: dict[str, int] = {}

    def value(self, key: str, demand: Demand, permission: Permission, held: int = 0) -> int | Silence:
        """The demand of `key` to tell now. `held` is what keeps the replicas that it has; 0 when it has none."""
        answer = self._certain(key, demand, permission)
        if isinstance(answer, Silence) and held > 0 and permission is not Permission.NONE:
            answer = max(held, seen_of(demand))
            if permission is Permission.ACT:
                self._valid[key] = answer
            return max(answer, self._valid.get(key, 0))
        return answer

    def _certain(self, key: str, demand: Demand, permission: Permission) -> int | Silence:
        if permission is Permission.NONE:
            return Silence("this worker does not own the service's shard; ask another")
        if isinstance(demand, Known) and permission is Permission.ACT:
            self._valid[key] = demand.value
            return demand.value
        if not isinstance(demand, (Known, AtLeast)):
            return Silence("demand is not known yet: not every gateway has reported")
        if demand.value <= 0:
            return Silence("a gateway is silent, so that zero is not certain")
        if permission is Permission.GROW and demand.value < self._valid.get(key, 0):
            return Silence("the API server is out of reach, so that a lower value is not certain")
        if permission is Permission.ACT:
            self._valid[key] = demand.value
        return demand.value

    def is_active(self, key: str, demand: Demand, permission: Permission, held: int = 0) -> bool | Silence:
        """Whether `key` is active; one gateway's word is enough for yes."""
        answer = self.value(key, demand, permission, held)
        if isinstance(answer, Silence):
            return True if seen_of(demand) > 0 and permission is not Permission.NONE else answer
        return answer > 0

    def forget(self, key: str) -> None:
        """The service is gone, or its shard begins anew: the last valid answer was another's."""
        self._valid.pop(key, None)

"""What KEDA is told about one service: a number, or that there is no answer.

Invariants: not knowing is never told as zero or as inactive; while the API server is out of reach (GROW) nothing lower than
the last valid answer is told. An error makes KEDA leave the replicas alone (keda.md 0.8), which is what we want then.
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


@dataclass(frozen=True, slots=True)
class Silence:
    """No answer, and why; becomes UNAVAILABLE."""

    reason: str


class Answers:
    """Answers by demand and permission, and remembers the last valid value of each service for GROW."""

    def __init__(self) -> None:
        self._valid: dict[str, int] = {}

    def value(self, key: str, demand: Demand, permission: Permission) -> int | Silence:
        """The demand of `key` to tell now."""
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

    def is_active(self, key: str, demand: Demand, permission: Permission) -> bool | Silence:
        """Whether `key` is active; one gateway's word is enough for yes."""
        answer = self.value(key, demand, permission)
        if isinstance(answer, Silence):
            return True if seen_of(demand) > 0 and permission is not Permission.NONE else answer
        return answer > 0

    def forget(self, key: str) -> None:
        """The service is gone."""
        self._valid.pop(key, None)

    def begin(self) -> None:
        """A new tenure: the last valid answers were another's."""
        self._valid.clear()

"""The horizontal pod autoscaler's arithmetic for external metrics (keda.md, section 4.3). It works 1..N; zero is KEDA's.

Pure: `Autoscaler` holds one HPA's history (recommendations for stabilisation, scale events for rate policies) and is told
the time. Invariant: what it recommends lies within [minimum, maximum], and is the current count whenever a metric that could
forbid scaling down is unknown. Metric values and targets are thousandths, as quantities travel.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

TOLERANCE = 0.1
DOWNSCALE_STABILIZATION_SECONDS = 300.0
DEFAULT_UP_POLICIES: tuple[Mapping[str, Any], ...] = (
    {"type": "Pods", "value": 4, "periodSeconds": 15},
    {"type": "Percent", "value": 100, "periodSeconds": 15},
)
DEFAULT_DOWN_POLICIES: tuple[Mapping[str, Any], ...] = (
    {"type": "Percent", "value": 100, "periodSeconds": 15},
)


@dataclass(frozen=True, slots=True)
class Metric:
    """One external metric at one moment; `total` (the sum over its values) is None when it could not be read."""

    name: str
    kind: str
    """`AverageValue` (per replica) or `Value`."""
    target: int
    total: int | None
    error: str = ""


@dataclass(frozen=True, slots=True)
class Replicas:
    """The target's counts: wanted, existing and ready."""

    spec: int
    status: int
    ready: int


@dataclass(frozen=True, slots=True)
class Bounds:
    """The HPA's limits and behaviour, as its spec has them."""

    minimum: int
    maximum: int
    behavior: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Recommendation:
    """`replicas` is what the target should have (the current count for "leave it alone"); the rest goes to the status."""

    replicas: int
    scaling_active: bool = True
    reason: str = "ValidMetricFound"
    message: str = "the HPA could read every metric that it needed"
    limited_by: str = ""
    """Reason of ScalingLimited=True, empty when the wish was granted in full."""


@dataclass(slots=True)
class Autoscaler:
    """One HPA's memory."""

    _recommendations: list[tuple[float, int]] = field(default_factory=list)
    _ups: list[tuple[float, int]] = field(default_factory=list)
    _downs: list[tuple[float, int]] = field(default_factory=list)

    def recommend(
        self, bounds: Bounds, replicas: Replicas, metrics: Sequence[Metric], now: float
    ) -> Recommendation:
        """What to do at `now` (monotonic seconds). The caller reports a scale that worked with `scaled`."""
        if not self._recommendations:
            self._recommendations.append((now, replicas.spec))
        if replicas.spec == 0:
            return Recommendation(
                0, False, "ScalingDisabled", "scaling is disabled: the target has zero replicas"
            )
        if replicas.spec > bounds.maximum:
            return Recommendation(bounds.maximum, limited_by="TooManyReplicas")
        if replicas.spec < bounds.minimum:
            return Recommendation(bounds.minimum, limited_by="TooFewReplicas")
        wishes = [wish(metric, replicas) for metric in metrics if metric.total is not None]
        failed = [metric for metric in metrics if metric.total is None]
        wanted = max(wishes, default=replicas.spec)
        if failed and (not wishes or wanted < replicas.spec):
            message = f"the HPA could not read metric {failed[0].name}: {failed[0].error}"
            return Recommendation(replicas.spec, False, "FailedGetExternalMetric", message)
        return self._granted(bounds, replicas.spec, wanted, now)

    def scaled(self, before: int, after: int, now: float) -> None:
        """The target's scale was written; rate policies count it."""
        if after > before:
            self._ups.append((now, after - before))
        elif after < before:
            self._downs.append((now, before - after))

    def _granted(self, bounds: Bounds, current: int, wanted: int, now: float) -> Recommendation:
        up = _rules(bounds.behavior, "scaleUp", 0.0, DEFAULT_UP_POLICIES)
        down = _rules(bounds.behavior, "scaleDown", DOWNSCALE_STABILIZATION_SECONDS, DEFAULT_DOWN_POLICIES)
        stable = self._stabilised(current, wanted, up.window_seconds, down.window_seconds, now)
        if bounds.behavior is None:
            # The older rule, which applies without `behavior`, may go back up to a recommendation of the window.
            stable = max(count for _, count in self._recommendations)
        longest = max(up.longest_period_seconds, down.longest_period_seconds)
        self._ups = [(at, count) for at, count in self._ups if at > now - longest]
        self._downs = [(at, count) for at, count in self._downs if at > now - longest]
        ceiling, floor = bounds.maximum, bounds.minimum
        if bounds.behavior is None:
            ceiling = min(ceiling, max(2 * current, 4))
        elif stable > current:
            ceiling = min(ceiling, max(current, up.limit(current, self._ups, self._downs, now, step=1)))
        elif stable < current:
            floor = max(floor, min(current, down.limit(current, self._ups, self._downs, now, step=-1)))
        if stable > ceiling:
            limited = "TooManyReplicas" if ceiling == bounds.maximum else "ScaleUpLimit"
            return Recommendation(ceiling, limited_by=limited)
        if stable < floor:
            limited = "TooFewReplicas" if floor == bounds.minimum else "ScaleDownLimit"
            return Recommendation(floor, limited_by=limited)
        return Recommendation(stable)

    def _stabilised(self, current: int, wanted: int, up_window: float, down_window: float, now: float) -> int:
        lowest_up = min([wanted, *(count for at, count in self._recommendations if at > now - up_window)])
        highest_down = max(
            [wanted, *(count for at, count in self._recommendations if at > now - down_window)]
        )
        kept = now - max(up_window, down_window)
        self._recommendations = [(at, count) for at, count in self._recommendations if at > kept]
        self._recommendations.append((now, wanted))
        return min(max(current, lowest_up), highest_down)


@dataclass(frozen=True, slots=True)
class _Rules:
    window_seconds: float
    policies: tuple[Mapping[str, Any], ...]
    select: str

    @property
    def longest_period_seconds(self) -> float:
        return max(float(policy["periodSeconds"]) for policy in self.policies)

    def limit(
        self,
        current: int,
        ups: list[tuple[float, int]],
        downs: list[tuple[float, int]],
        now: float,
        *,
        step: int,
    ) -> int:
        """The furthest count that the policies allow in the direction of `step` (+1 or -1)."""
        if self.select == "Disabled":
            return current
        proposals = []
        for policy in self.policies:
            since = now - float(policy["periodSeconds"])
            added = sum(count for at, count in ups if at > since)
            removed = sum(count for at, count in downs if at > since)
            start = current - added + removed
            if policy["type"] == "Pods":
                proposals.append(start + step * int(policy["value"]))
            else:
                exact = start * (100 + step * int(policy["value"]))
                # Upwards a fraction of a replica is rounded up, downwards it is cut off: both are the bigger change.
                proposals.append(-(-exact // 100) if step > 0 else exact // 100)
        takes_highest = (self.select == "Max") == (step > 0)
        return max(proposals) if takes_highest else min(proposals)


def _rules(
    behavior: Mapping[str, Any] | None,
    direction: str,
    window_seconds: float,
    policies: tuple[Mapping[str, Any], ...],
) -> _Rules:
    given: Mapping[str, Any] = (behavior or {}).get(direction) or {}
    window = given.get("stabilizationWindowSeconds")
    return _Rules(
        window_seconds if window is None else float(window),
        tuple(given.get("policies") or policies),
        given.get("selectPolicy") or "Max",
    )


def wish(metric: Metric, replicas: Replicas) -> int:
    """How many replicas one readable metric asks for, before stabilisation and limits."""
    total = metric.total or 0
    if metric.kind == "AverageValue":
        if replicas.status and _is_tolerated(total / (metric.target * replicas.status)):
            return replicas.status
        return -(-total // metric.target)
    if _is_tolerated(total / metric.target):
        return replicas.spec
    return -(-total * replicas.ready // metric.target)


def _is_tolerated(ratio: float) -> bool:
    # Written as Kubernetes 1.33 and later compare; |1 - ratio| <= 0.1 is false for a ratio of exactly 1.1.
    return 1.0 - TOLERANCE <= ratio <= 1.0 + TOLERANCE

"""One trigger asked the way KEDA asks: GetMetricSpec, then GetMetrics and IsActive for each metric (behaviour P2).

A failure is repeated once at once, because KEDA rebuilds its scaler and tries again; a second failure is the trigger's
failure. Nothing here waits or has a deadline: a scaler that never answers blocks its ScaledObject (C4).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from noctaya.local.keda.errors import NoMetricSpec, ScalerFailed
from noctaya.local.keda.ports import MetricSpec, Reference, Scaler, Scalers
from noctaya.local.keda.spec import Scaling, Trigger


@dataclass(frozen=True, slots=True)
class Reading:
    """One metric of one trigger: its name with the `s<i>-` prefix, all values in thousandths, and the scaler's verdict."""

    metric: str
    values: tuple[int, ...]
    is_active: bool


@dataclass(frozen=True, slots=True)
class Poll:
    """What all triggers of a ScaledObject said in one poll (behaviour P3)."""

    readings: tuple[Reading, ...]
    errors: tuple[str, ...]

    @property
    def is_active(self) -> bool:
        """Whether any trigger is active; one that failed is not."""
        return any(reading.is_active for reading in self.readings)


def metric_name(trigger: Trigger, name: str) -> str:
    """The HPA's name of a trigger's metric."""
    return f"s{trigger.index}-{name}"


class Asking:
    """Asks the triggers of one ScaledObject."""

    def __init__(self, scalers: Scalers, scaling: Scaling) -> None:
        self._scalers = scalers
        self._scaling = scaling

    def scaler(self, trigger: Trigger) -> Scaler:
        """The scaler behind a trigger."""
        return self._scalers.at(trigger.address)

    def reference(self, trigger: Trigger) -> Reference:
        """What is sent to say who asks."""
        return Reference(self._scaling.namespace, self._scaling.name, trigger.metadata)

    async def specs_once(self, trigger: Trigger) -> Sequence[MetricSpec]:
        """GetMetricSpec as a reconcile asks it; raises ScalerFailed or NoMetricSpec."""
        specs = await self.scaler(trigger).metric_specs(self.reference(trigger))
        if not specs:
            raise NoMetricSpec(
                f"GetMetricSpec at {trigger.address} answered with an empty list; it must name a metric"
            )
        return specs

    async def specs(self, trigger: Trigger) -> Sequence[MetricSpec]:
        """GetMetricSpec as polls and HPA queries ask it: a failure is repeated once."""
        try:
            return await self.specs_once(trigger)
        except (ScalerFailed, NoMetricSpec):
            return await self.specs_once(trigger)

    async def read(self, trigger: Trigger, spec: MetricSpec) -> Reading:
        """GetMetrics, then IsActive; a failure repeats the pair once."""
        try:
            return await self._pair(trigger, spec)
        except ScalerFailed:
            return await self._pair(trigger, spec)

    async def poll(self) -> Poll:
        """Every trigger, one after the other; a trigger that fails is an error and counts as inactive."""
        readings: list[Reading] = []
        errors: list[str] = []
        for trigger in self._scaling.triggers:
            try:
                readings.extend([await self.read(trigger, spec) for spec in await self.specs(trigger)])
            except (ScalerFailed, NoMetricSpec) as error:
                errors.append(str(error))
        return Poll(tuple(readings), tuple(errors))

    async def _pair(self, trigger: Trigger, spec: MetricSpec) -> Reading:
        scaler, reference = self.scaler(trigger), self.reference(trigger)
        values = await scaler.metrics(reference, spec.name)
        return Reading(metric_name(trigger, spec.name), tuple(values), await scaler.is_active(reference))

"""The metric path of the HPA: from an HPA's metric name to the scaler's value (keda.md, sections 4.1 and 4.2).

Every query asks GetMetricSpec of all triggers first, and an error in any of them fails it. With `useCachedMetrics` the value
of the last poll is used; those values are dropped whenever an error came up.
"""

from collections.abc import Callable

from noctaya.errors import NoctayaError
from noctaya.local.keda.errors import NoMetricSpec, ScalerFailed
from noctaya.local.keda.ports import MetricSpec, Scalers
from noctaya.local.keda.records import Key, Records
from noctaya.local.keda.spec import Trigger, understand
from noctaya.local.keda.triggers import Asking, Poll, metric_name


class NoSuchMetric(NoctayaError):
    """The ScaledObject is gone, has no such metric, or its scaler answered with an empty list."""


class PolledValues:
    """What each ScaledObject's last poll read, as long as no error came in between."""

    def __init__(self) -> None:
        self._values: dict[Key, dict[str, int]] = {}

    def keep(self, key: Key, poll: Poll) -> None:
        """Remember a poll; one with an error leaves nothing to remember."""
        self.forget(key)
        if not poll.errors:
            self._values[key] = {
                reading.metric: sum(reading.values) for reading in poll.readings if reading.values
            }

    def get(self, key: Key, metric: str) -> int | None:
        """The polled total in thousandths, if there is one."""
        return self._values.get(key, {}).get(metric)

    def forget(self, key: Key) -> None:
        """An error came up, or the loop stopped."""
        self._values.pop(key, None)


class MetricQueries:
    """Stands for the external metrics API and KEDA's adapter. `is_up` is the switch of behaviour H6."""

    def __init__(
        self,
        records: Records,
        scalers: Scalers,
        polled: PolledValues,
        is_up: Callable[[], bool] = lambda: True,
    ) -> None:
        self._records = records
        self._scalers = scalers
        self._polled = polled
        self._is_up = is_up

    async def total(self, key: Key, metric: str) -> int:
        """The sum over the metric's values, in thousandths.

        Raises:
            NoctayaError: the metric cannot be read now; the HPA must then change nothing.
        """
        record = self._records.get(key)
        if not self._is_up() or record is None:
            raise NoSuchMetric(f"metric {metric} of {'/'.join(key)} is not served")
        scaling = understand(record)
        asking = Asking(self._scalers, scaling)
        try:
            found: tuple[Trigger, MetricSpec] | None = None
            for trigger in scaling.triggers:
                for spec in await asking.specs(trigger):
                    if metric_name(trigger, spec.name).lower() == metric.lower():
                        found = (trigger, spec)
            if found is None:
                raise NoSuchMetric(f"no trigger of {'/'.join(key)} has a metric {metric}")
            trigger, spec = found
            cached = self._polled.get(key, metric_name(trigger, spec.name))
            if trigger.uses_cached_metrics and cached is not None:
                return cached
            reading = await asking.read(trigger, spec)
        except (ScalerFailed, NoMetricSpec):
            self._polled.forget(key)
            raise
        if not reading.values:
            raise NoSuchMetric(
                f"the scaler answered GetMetrics for {metric} of {'/'.join(key)} with an empty list"
            )
        return sum(reading.values)

"""What a gateway counts. Names are those that users' dashboards know; labels `namespace` and `service` are bounded.

At most `MAX_SERVICES` services with traffic in the last hour have series of their own, the rest is `_other`. Children are kept
per service and dropped together, so that no count goes into an orphan. Gauges are read from the state when scraped.
"""

from collections.abc import Callable, Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from noctaya import __version__

MAX_SERVICES = 200
IDLE_SECONDS = 3600.0
OTHER = "_other"
LABELS = ("namespace", "service")

WAIT_BUCKETS = (0.01, 0.1, 1, 5, 15, 30, 60, 120, 300, 600, 1200, 1800)
PHASE_BUCKETS = (0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 30, 60, 120, 300, 600, 1200, 1800)


class ServiceMetrics:
    """The children of one service."""

    __slots__ = ("_metrics", "_requests", "labels", "used_at", "wait")

    def __init__(self, metrics: "Metrics", labels: tuple[str, str], now: float) -> None:
        self._metrics, self.labels, self.used_at = metrics, labels, now
        self.wait = metrics.activation_wait.labels(*labels)
        self._requests: dict[str, Counter] = {}

    def answered(self, code: str) -> None:
        """A request ended; `code` is its status, or `499` (the client left), or `200_broken` (cut after its head)."""
        child = self._requests.get(code)
        if child is None:
            child = self._requests[code] = self._metrics.requests.labels(*self.labels, code)
        child.inc()

    def rejected(self, reason: str) -> None:
        """We refused a request."""
        self._metrics.rejections.labels(*self.labels, reason).inc()

    def woken(self) -> None:
        """A cold request woke the service."""
        self._metrics.activations.labels(*self.labels).inc()

    def phase(self, phase: str, seconds: float) -> None:
        """How long a part of a cold request took."""
        self._metrics.phases.labels(*self.labels, phase).observe(seconds)

    def remove(self) -> None:
        """Drop every series of the service."""
        wanted = dict(zip(LABELS, self.labels, strict=True))
        metrics = self._metrics
        for family in (
            metrics.requests,
            metrics.rejections,
            metrics.activations,
            metrics.activation_wait,
            metrics.phases,
        ):
            family.remove_by_labels(wanted)


class Metrics:
    """All series of one process, in a registry of its own."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.registry = CollectorRegistry()
        r = self.registry
        self.requests = Counter(
            "noctaya_gateway_requests_total",
            "Requests answered, by status; 499: the client left; 200_broken: cut after its head.",
            (*LABELS, "code"),
            registry=r,
        )
        self.rejections = Counter(
            "noctaya_gateway_rejections_total",
            "Requests refused, by reason.",
            (*LABELS, "reason"),
            registry=r,
        )
        self.activation_wait = Histogram(
            "noctaya_gateway_activation_wait_seconds",
            "Time that a held request waited until its endpoint was good.",
            LABELS,
            buckets=WAIT_BUCKETS,
            registry=r,
        )
        self.activations = Counter(
            "noctaya_gateway_activation_events_total", "Wakes sent for a cold service.", LABELS, registry=r
        )
        self.phases = Histogram(
            "noctaya_gateway_cold_start_seconds",
            "Parts of a cold request: wake (arrival to the owner's ack), ready (arrival to a good endpoint), "
            "answer (good endpoint to the first byte), total.",
            (*LABELS, "phase"),
            buckets=PHASE_BUCKETS,
            registry=r,
        )
        self.reports = Counter(
            "noctaya_gateway_demand_reports_total",
            "Demand reports written to workers.",
            ("result",),
            registry=r,
        )
        self.shard_updates = Counter(
            "noctaya_gateway_shard_updates_total", "Shard updates from workers.", ("result",), registry=r
        )
        self._services: dict[str, ServiceMetrics] = {}
        self._other = ServiceMetrics(self, (OTHER, OTHER), clock())

    def of(self, key: str) -> ServiceMetrics:
        """The children of a service (`namespace/name`); those of `_other` when too many are active, or without a service."""
        if not key:
            return self._other
        found = self._services.get(key)
        now = self._clock()
        if found is None:
            if len(self._services) >= MAX_SERVICES and not self._drop_idle(now):
                return self._other
            namespace, _, name = key.partition("/")
            found = self._services[key] = ServiceMetrics(self, (namespace, name), now)
        found.used_at = now
        return found

    def has_own(self, key: str) -> bool:
        """True when the service has series of its own."""
        return key in self._services

    def gauges(self, read: Callable[[], Iterable[Metric]]) -> None:
        """Add gauges that are read from the state at each scrape."""
        self.registry.register(_Reader(read))

    def _drop_idle(self, now: float) -> bool:
        idle = [key for key, child in self._services.items() if now - child.used_at > IDLE_SECONDS]
        for key in idle:
            self._services.pop(key).remove()
        return bool(idle)


class _Reader(Collector):
    def __init__(self, read: Callable[[], Iterable[Metric]]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        yield from self._read()


def per_service(
    name: str, documentation: str, values: Iterable[tuple[str, float]], has_own: Callable[[str], bool]
) -> GaugeMetricFamily:
    """A gauge by service; services without series of their own add up in `_other`."""
    gauge = GaugeMetricFamily(name, documentation, labels=LABELS)
    other = 0.0
    for key, value in values:
        if has_own(key):
            namespace, _, service = key.partition("/")
            gauge.add_metric([namespace, service], value)
        else:
            other += value
    gauge.add_metric([OTHER, OTHER], other)
    return gauge


def build_info() -> GaugeMetricFamily:
    """Which software this is."""
    gauge = GaugeMetricFamily("noctaya_build_info", "Always 1; the version is a label.", labels=("version",))
    gauge.add_metric([__version__], 1)
    return gauge

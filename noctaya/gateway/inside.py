"""A look inside for the admin port: readiness, the queue as JSON, gauges."""

from collections.abc import Callable, Iterator
from typing import Any

from prometheus_client.core import GaugeMetricFamily, Metric

from noctaya.gateway.demand import DemandLedger
from noctaya.gateway.links import Links
from noctaya.gateway.metrics import Metrics, build_info, per_service
from noctaya.gateway.settings import LinkSettings
from noctaya.gateway.state import GatewayState


class Inside:
    """Reads the state of one gateway; changes nothing."""

    def __init__(
        self,
        settings: LinkSettings,
        state: GatewayState,
        demand: DemandLedger,
        links: Links,
        clock: Callable[[], float],
        *,
        had_routes: bool,
        certificate_problem: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._certificate_problem = certificate_problem
        self._settings, self._state, self._demand, self._links, self._clock = (
            settings,
            state,
            demand,
            links,
            clock,
        )
        self._had_routes = had_routes
        self.is_draining = False

    def readiness(self) -> tuple[bool, list[str]]:
        """Ready with routes, from a worker or from the last run, and not draining. A lost worker is a problem, not a reason."""
        problems = []
        if not self._links.linked():
            problems.append("no worker is linked; the last good routes are served")
        if (certificate := self._certificate_problem()) is not None:
            problems.append(f"the control link's certificate is not usable: {certificate}")
        if self.is_draining:
            problems.append("draining")
        has_routes = self._has_routes()
        if not has_routes:
            problems.append("no routes yet")
        return has_routes and not self.is_draining, problems

    def _has_routes(self) -> bool:
        welcome, since = self._state.last_welcome, self._links.first_welcome_at
        if self._had_routes:
            return True
        if welcome is None or since is None:
            return False
        told = len(self._state.routes.known())
        is_whole = bool(welcome.shard_count) and told >= welcome.shard_count
        # A worker that does not act yet welcomes us and tells nothing: without a single shard every model would be unknown.
        return is_whole or (told > 0 and self._clock() - since >= self._settings.settle_seconds)

    def queue(self) -> dict[str, Any]:
        """Demand, places and endpoints of every service that has any of them."""
        waiting = self._state.waiting()
        services = {}
        for key in sorted({*self._demand.wanted(), *waiting}):
            demand = self._demand.demand(key)
            services[key] = {
                "pending": demand.pending,
                "waiting": waiting.get(key, 0),
                "lease_seconds": round(demand.lease_seconds, 3),
                "places": self._state.admission.places_taken(key),
                "endpoints": [
                    {
                        "pod": backend.endpoint.pod,
                        "address": backend.endpoint.authority,
                        "ready": backend.endpoint.ready,
                        "terminating": backend.endpoint.terminating,
                        "in_flight": backend.in_flight,
                        "failures": backend.failures,
                    }
                    for backend in self._state.balance.backends(key)
                ],
            }
        return {
            "fleet": self._state.routes.fleet,
            "routes": len(self._state.routes),
            "workers": self._links.linked(),
            "body_bytes": self._state.admission.size,
            "services": services,
        }

    def gauges(self, metrics: Metrics) -> Iterator[Metric]:
        """What is read from the state when somebody scrapes."""
        wanted = self._demand.wanted()
        yield per_service(
            "noctaya_gateway_pending",
            "Requests inside: waiting and in flight.",
            [(key, self._demand.demand(key).pending) for key in wanted],
            metrics.has_own,
        )
        yield per_service(
            "noctaya_gateway_demand",
            "Effective demand: requests inside, else 1 while an activation lease runs.",
            [(key, self._demand.effective(key)) for key in wanted],
            metrics.has_own,
        )
        yield GaugeMetricFamily(
            "noctaya_gateway_routes", "Services that this gateway can route to.", len(self._state.routes)
        )
        yield GaugeMetricFamily(
            "noctaya_gateway_links", "Workers whose link is up.", len(self._links.linked())
        )
        yield GaugeMetricFamily(
            "noctaya_gateway_body_bytes", "Request bodies in memory.", self._state.admission.size
        )
        yield build_info()

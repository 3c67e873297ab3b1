"""What a gateway process knows and who waits in it: routes, keys' gate, endpoints, places, waiters.

Everything here is in memory and belongs to the loop's thread; no method waits. It is filled by the control link (or, before a
worker answered, from the snapshot of the last run) and asked by whichever door a request came through.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterator

from noctaya.gateway import trace as steps
from noctaya.gateway.admission import Admission
from noctaya.gateway.balance import Balance
from noctaya.gateway.keys import Gate
from noctaya.gateway.routing import Applied, Refused, RouteTable
from noctaya.gateway.settings import GatewaySettings
from noctaya.gateway.trace import Trace
from noctaya.wire import control


class Waiter:
    """One held request: wakes up when something about its service has changed."""

    __slots__ = ("_news", "trace")

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._news: asyncio.Future[None] | None = None

    def notify(self) -> None:
        """Something changed: look again."""
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    async def wait(self, seconds: float) -> None:
        """Return at the next news, or after `seconds`. One timer and one future, no task."""
        self._news = asyncio.get_running_loop().create_future()
        try:
            await asyncio.wait((self._news,), timeout=max(0.0, seconds))
        finally:
            self._news.cancel()
            self._news = None


class GatewayState:
    """The state of one gateway process."""

    def __init__(self, settings: GatewaySettings, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.routes = RouteTable()
        self.gate = Gate()
        self.balance = Balance(settings.hold.recently_good_seconds, settings.hold.eject_seconds)
        self.admission = Admission(settings.admission.max_bytes, settings.admission.max_bytes_per_service)
        self.last_welcome: control.Welcome | None = None
        self._waiters: dict[str, set[Waiter]] = {}
        self.on_endpoints_changed: Callable[[str], None] = _ignore
        self.on_service_gone: Callable[[str], None] = _ignore
        self.on_changed: Callable[[], None] = lambda: None

    # The control link

    def welcome(self, welcome: "control.Welcome") -> None:
        """A worker told the fleet's secret and policy: the latest one holds, but never one of a fleet that was replaced."""
        if self.routes.is_former(welcome.fleet):
            return
        self.last_welcome = welcome
        self.gate = Gate(welcome.key_digest_secret, frozenset(welcome.policy.open_namespaces))
        self.on_changed()

    def take(self, update: "control.ShardUpdate", *, is_fresh: bool = True) -> Applied | Refused:
        """Apply one shard's update to routes and endpoints; whoever waits for a changed service looks again."""
        result = self.routes.apply(update)
        if isinstance(result, Refused):
            return result
        now = self._clock()
        for key in result.changed:
            service = self.routes.get(key)
            self.balance.update(key, service.endpoints if service else (), now, is_fresh=is_fresh)
            if service is None:
                self.on_service_gone(key)
            self.on_endpoints_changed(key)
            self.notify(key)
        if result.changed:
            self.on_changed()
        return result

    # Waiters

    @contextlib.contextmanager
    def waiter(self, key: str, trace: Trace) -> Iterator[Waiter]:
        """Wait for a service for as long as the body runs."""
        waiter = Waiter(trace)
        waiters = self._waiters.setdefault(key, set())
        waiters.add(waiter)
        try:
            yield waiter
        finally:
            waiters.discard(waiter)
            if not waiters:
                self._waiters.pop(key, None)

    def notify(self, key: str) -> None:
        """Whoever waits for this service looks again."""
        has_endpoint = bool(self.balance.backends(key))
        for waiter in self._waiters.get(key, ()):
            if has_endpoint:
                waiter.trace.mark(steps.ENDPOINT)
            waiter.notify()

    def mark_demand_sent(self, key: str) -> None:
        """A wake for this service is on its way to a worker."""
        for waiter in self._waiters.get(key, ()):
            waiter.trace.mark(steps.DEMAND)

    def mark_wake_confirmed(self, key: str) -> None:
        """The owner has the wake."""
        for waiter in self._waiters.get(key, ()):
            waiter.trace.mark(steps.WAKE_ACK)

    def waiting(self) -> dict[str, int]:
        """How many requests wait for each service."""
        return {key: len(waiters) for key, waiters in self._waiters.items()}


def _ignore(key: str) -> None:
    del key

"""Which endpoint gets the next request: least in flight of two random choices, among those that may be used. Pure.

Invariants: a terminating endpoint gets nothing new; an endpoint that failed gets nothing until it was ejected long enough or
a probe was good; in-flight counts survive updates of the list and are never negative.
An endpoint is *proven* when the API says Ready (told within `recently_good` seconds) or it answered (a probe, a request)
within that time. A proven one is used without a probe; a Ready one that was quiet for longer is probed first, which costs a
millisecond and finds a dead node before a client does.
"""

import random
from collections.abc import Collection
from dataclasses import dataclass, field

from noctaya.gateway.service import Endpoint

MAX_EJECT_SECONDS = 30.0


@dataclass(slots=True, eq=False)
class Backend:
    """One endpoint and what we have seen of it."""

    key: str
    endpoint: Endpoint
    in_flight: int = 0
    good_at: float | None = None
    """When it last proved itself; None: never, or it failed since."""
    failures: int = 0
    ejected_until: float = 0.0
    is_listed: bool = True

    def is_proven(self, now: float, recently_good_seconds: float) -> bool:
        """True when it may get a request right now."""
        return (
            self.is_listed
            and not self.endpoint.terminating
            and now >= self.ejected_until
            and self.good_at is not None
            and now - self.good_at <= recently_good_seconds
        )


@dataclass(slots=True)
class Balance:
    """The endpoints of every service."""

    recently_good_seconds: float
    eject_seconds: float
    dice: random.Random = field(default_factory=random.Random)
    _services: dict[str, dict[str, Backend]] = field(default_factory=dict)

    def update(self, key: str, endpoints: Collection[Endpoint], now: float, *, is_fresh: bool = True) -> bool:
        """The endpoints of a service as its owner lists them now; none: it sleeps. True when one may have become usable.

        `is_fresh=False`: they come from a file, and being Ready once proves nothing.
        """
        held = self._services.get(key, {})
        listed: dict[str, Backend] = {}
        news = False
        for endpoint in endpoints:
            backend = held.pop(endpoint.id, None)
            if backend is None:
                backend = Backend(key, endpoint, good_at=now if endpoint.ready and is_fresh else None)
                news = True
            else:
                if endpoint.ready and not backend.endpoint.ready:
                    backend.good_at, backend.failures, backend.ejected_until = now, 0, 0.0
                    news = True
                elif backend.endpoint.ready and not endpoint.ready:
                    backend.good_at = None
                backend.endpoint = endpoint
            listed[endpoint.id] = backend
        for backend in held.values():
            backend.is_listed = False
        if listed:
            self._services[key] = listed
        else:
            self._services.pop(key, None)
        return news

    def pick(self, key: str, now: float, without: Collection[str] = ()) -> Backend | None:
        """A proven endpoint, not one of `without` (ids); None when there is none."""
        usable = [
            backend
            for backend in self._services.get(key, {}).values()
            if backend.is_proven(now, self.recently_good_seconds) and backend.endpoint.id not in without
        ]
        if not usable:
            return None
        if len(usable) == 1:
            return usable[0]
        one, other = self.dice.sample(usable, 2)
        return other if other.in_flight < one.in_flight else one

    def to_probe(self, key: str, now: float) -> list[Backend]:
        """Endpoints that a probe could make usable: not terminating and not proven."""
        return [
            backend
            for backend in self._services.get(key, {}).values()
            if not backend.endpoint.terminating and not backend.is_proven(now, self.recently_good_seconds)
        ]

    def has_ready(self, key: str) -> bool:
        """True when the API calls at least one endpoint Ready."""
        return self.ready_count(key) > 0

    def ready_count(self, key: str) -> int:
        """How many endpoints are Ready and stay."""
        backends = self._services.get(key, {}).values()
        return sum(1 for backend in backends if backend.endpoint.ready and not backend.endpoint.terminating)

    def started(self, backend: Backend) -> None:
        """A request goes to this endpoint."""
        backend.in_flight += 1

    def ended(self, backend: Backend) -> None:
        """That request is over."""
        backend.in_flight -= 1

    def proved(self, backend: Backend, now: float) -> None:
        """It answered: a probe, or the head of a response."""
        backend.good_at, backend.failures, backend.ejected_until = now, 0, 0.0

    def failed(self, backend: Backend, now: float) -> None:
        """It refused a connection or broke off before it answered."""
        backend.good_at = None
        backend.failures += 1
        pause = min(self.eject_seconds * 2 ** (backend.failures - 1), MAX_EJECT_SECONDS)
        backend.ejected_until = now + pause

    def backends(self, key: str) -> list[Backend]:
        """Every endpoint of a service, for a look inside."""
        return list(self._services.get(key, {}).values())

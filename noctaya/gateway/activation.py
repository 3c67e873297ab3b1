"""Demand: what this gateway asks of every service, and for how long. Pure; virtual time.

Invariants: demand is positive while a request is inside; a hold's lease ends exactly `linger` after the last waiter left
unserved, or at once when nobody waits any more because all were served; a rejected request's lease runs to its activation
timeout; counts are never negative. Actions are edges: the shell sends them, this object only decides.
"""

import math
from dataclasses import dataclass, field
from enum import Enum


class Edge(Enum):
    """What changed for the world."""

    WAKE = "wake"
    """Somebody needs a model that is not there: tell the owner of its shard at once."""
    REPORT = "report"
    """Demand began or ended: a report is due."""


@dataclass(frozen=True, slots=True)
class Action:
    """One edge of one service."""

    edge: Edge
    key: str


@dataclass(frozen=True, slots=True)
class Demand:
    """What a report says of one service."""

    key: str
    pending: int
    lease_seconds: float


@dataclass(slots=True)
class _State:
    pending: int = 0
    waiting: int = 0
    lease_until: float = -math.inf
    peak: int = 0
    """Highest `pending` at an arrival since the last report, 0 without one: a request that came and went between two reports
    still counts."""
    woken: bool = False
    """A wake was sent and nobody has been served since."""

    def is_wanted(self, now: float) -> bool:
        return self.pending > 0 or self.lease_until > now


@dataclass(slots=True)
class Activation:
    """The demand of every service at one gateway process."""

    linger_seconds: float
    _services: dict[str, _State] = field(default_factory=dict)

    # Events

    def arrived(self, key: str, now: float) -> list[Action]:
        """A request was admitted."""
        state = self._services.setdefault(key, _State())
        begins = not state.is_wanted(now)
        state.pending += 1
        state.peak = max(state.peak, state.pending)
        return [Action(Edge.REPORT, key)] if begins else []

    def began_waiting(self, key: str, now: float) -> list[Action]:
        """An admitted request found no endpoint and waits: the first one wakes the model."""
        del now
        state = self._services[key]
        state.waiting += 1
        if state.waiting > 1 or state.woken:
            return []
        state.woken = True
        return [Action(Edge.WAKE, key)]

    def served(self, key: str, now: float) -> list[Action]:
        """A waiter got its endpoint; it stays pending until it is finished."""
        del now
        state = self._services[key]
        state.waiting -= 1
        state.woken = False
        return []

    def left(self, key: str, now: float) -> list[Action]:
        """A waiter gave up, or was given up, unserved; the last one's lease lingers."""
        state = self._services[key]
        state.waiting -= 1
        if not state.waiting:
            state.lease_until = max(state.lease_until, now + self.linger_seconds)
        return []

    def finished(self, key: str, now: float) -> list[Action]:
        """An admitted request is over, whatever became of it."""
        state = self._services[key]
        state.pending -= 1
        return self._end_if_unwanted(key, state, now)

    def rejected(self, key: str, activation_seconds: float, now: float) -> list[Action]:
        """`reject` mode answered 503 to a cold request: the model wakes meanwhile."""
        state = self._services.setdefault(key, _State())
        begins = state.lease_until <= now
        state.lease_until = max(state.lease_until, now + activation_seconds)
        if begins and not state.woken:
            state.woken = True
            return [Action(Edge.WAKE, key)]
        return []

    def tick(self, now: float) -> list[Action]:
        """Leases whose time has come end here."""
        actions: list[Action] = []
        for key, state in list(self._services.items()):
            if not state.pending and state.lease_until > -math.inf:
                actions += self._end_if_unwanted(key, state, now)
        return actions

    def forget(self, key: str, now: float) -> list[Action]:
        """The service is gone: its lease ends now; requests inside end on their own."""
        state = self._services.get(key)
        if state is None:
            return []
        state.lease_until = -math.inf
        return self._end_if_unwanted(key, state, now)

    def _end_if_unwanted(self, key: str, state: _State, now: float) -> list[Action]:
        if state.is_wanted(now):
            return []
        state.lease_until = -math.inf
        state.woken = False
        if not state.peak:
            del self._services[key]
        return [Action(Edge.REPORT, key)]

    # Questions

    def deadline(self) -> float | None:
        """When `tick` has something to do next: the earliest end of a lease that alone keeps demand up."""
        ends = [
            state.lease_until
            for state in self._services.values()
            if not state.pending and state.lease_until > -math.inf
        ]
        return min(ends, default=None)

    def report(self, now: float) -> list[Demand]:
        """Every service with demand now, or with a request since `mark_reported`."""
        return [
            Demand(key, max(state.pending, state.peak), max(0.0, state.lease_until - now))
            for key, state in self._services.items()
            if state.is_wanted(now) or state.peak
        ]

    def mark_reported(self, now: float) -> bool:
        """A report went to every worker: peaks start anew. True when another report is due, since a peak was all there was."""
        again = False
        for key, state in list(self._services.items()):
            again |= state.peak > state.pending
            state.peak = 0
            if not state.is_wanted(now):
                del self._services[key]
        return again

    def demand(self, key: str, now: float) -> Demand:
        """What is asked of one service now."""
        state = self._services.get(key, _State())
        return Demand(key, state.pending, max(0.0, state.lease_until - now))

    def effective(self, key: str, now: float) -> int:
        """Demand as one number: requests inside, else 1 while a lease runs, else 0."""
        state = self._services.get(key, _State())
        return state.pending or int(state.lease_until > now)

    def waiting(self, key: str) -> int:
        """How many requests wait for an endpoint."""
        state = self._services.get(key)
        return state.waiting if state else 0

    def wanted(self, now: float) -> list[str]:
        """Every service with demand."""
        return [key for key, state in self._services.items() if state.is_wanted(now)]

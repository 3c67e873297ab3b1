"""What becomes of a request: the faults in force, and the plan that they make for it.

Pure. Each client has a generator of its own, drawn from in the same order for every request whatever the faults are, so that
one seed gives one history however clients are interleaved. A fault holds until it is lifted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from random import Random
from typing import Literal
from urllib.parse import parse_qs

Kind = Literal["latency", "late", "black_hole", "lose_response", "reset", "status", "stale", "version"]
_DRAWN: tuple[Kind, ...] = ("latency", "late", "lose_response", "reset", "status")
"""Kinds that chance decides about, in the order of their draws."""


@dataclass(frozen=True, slots=True)
class Request:
    """As much of a request as faults look at."""

    method: str
    target: str
    """Path and query."""

    @property
    def path(self) -> str:
        return self.target.partition("?")[0]

    @property
    def query(self) -> dict[str, str]:
        return {key: values[-1] for key, values in parse_qs(self.target.partition("?")[2]).items()}

    @property
    def is_watch(self) -> bool:
        is_likely = self.method == "GET" and "watch=" in self.target  # parsing a query takes its time
        return is_likely and self.query.get("watch", "") in ("1", "true")


@dataclass(frozen=True, slots=True)
class Where:
    """Which requests a fault is for; by default all."""

    path: str = ""
    """A regular expression that is searched for in the path."""
    methods: frozenset[str] = frozenset()
    watches: bool | None = None
    """Only watches, or none of them."""

    def means(self, request: Request) -> bool:
        if self.methods and request.method not in self.methods:
            return False
        if self.watches is not None and request.is_watch is not self.watches:
            return False
        return not self.path or re.search(self.path, request.path) is not None


EVERYWHERE = Where()
READS = Where(methods=frozenset({"GET", "HEAD"}))
WRITES = Where(methods=frozenset({"POST", "PUT", "PATCH", "DELETE"}))


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault in force. Which fields count depends on the kind."""

    kind: Kind
    where: Where = EVERYWHERE
    probability: float = 1.0
    seconds: float = 0.0
    jitter: float = 0.0
    code: int = 0
    version: str = ""
    """stale: the resourceVersion of the past. version: the minor version that the server claims."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do with one request; nothing of it set: pass it on at once."""

    delay_seconds: float = 0.0
    """Before it is passed on, as long as the client waits."""
    late_seconds: float = 0.0
    """Before it is passed on, whether the client still waits or not."""
    is_swallowed: bool = False
    is_reset: bool = False
    loses_response: bool = False
    status: int = 0
    past: str = ""
    """Read as of this resourceVersion."""
    minor: str = ""
    """Claim this minor version."""


@dataclass(slots=True)
class Faults:
    """The faults of one client: its own, and those that it shares with all others."""

    seed: str
    shared: list[Fault] = field(default_factory=list)
    own: list[Fault] = field(default_factory=list)
    _random: Random = field(init=False)

    def __post_init__(self) -> None:
        self._random = Random(self.seed)

    @property
    def in_force(self) -> tuple[Fault, ...]:
        """Of two of a kind that mean the same request the last one counts."""
        return (*self.shared, *self.own)

    def plan(self, request: Request) -> Plan:
        """What becomes of a request."""
        draws = {kind: (self._random.random(), self._random.random()) for kind in _DRAWN}
        chosen: dict[Kind, Fault] = {}
        for fault in self.in_force:
            happens = fault.kind not in draws or draws[fault.kind][0] < fault.probability
            if happens and fault.where.means(request):
                chosen[fault.kind] = fault
        return Plan(
            delay_seconds=_seconds(chosen.get("latency"), draws["latency"][1]),
            late_seconds=_seconds(chosen.get("late"), draws["late"][1]),
            is_swallowed="black_hole" in chosen,
            is_reset="reset" in chosen,
            loses_response="lose_response" in chosen,
            status=chosen["status"].code if "status" in chosen else 0,
            past=chosen["stale"].version if "stale" in chosen else "",
            minor=chosen["version"].version if "version" in chosen else "",
        )

    def swallows(self, request: Request) -> bool:
        """Whether a request that is under way has fallen into a black hole meanwhile."""
        return any(fault.kind == "black_hole" and fault.where.means(request) for fault in self.in_force)

    def stands_still(self, request: Request) -> bool:
        """Whether a watch of a server that lags behind hears nothing just now."""
        return request.is_watch and any(fault.kind == "stale" for fault in self.in_force)


def _seconds(fault: Fault | None, draw: float) -> float:
    return 0.0 if fault is None else max(fault.seconds + fault.jitter * (2 * draw - 1), 0.0)

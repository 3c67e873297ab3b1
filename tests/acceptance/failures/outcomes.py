"""What became of every request, and the two claims of this folder. Pure: records in, offenders out.

*No admitted request is lost*: whoever got a connection gets a whole answer (200; a stream to its `[DONE]`).
*No zero is wrong*: a model's replicas do not go to none while a request of it is held or streaming. A request that began
less than `DECISION_SECONDS` before the zero does not count: KEDA had asked before it came (it is woken again, which the
first claim covers). Times are `time.monotonic()` seconds.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from enum import Enum

DECISION_SECONDS = 2.0
"""From KEDA's question whether a model is active to its write of replicas, on a machine that is busy with other things."""


class Ending(Enum):
    """How a request ended for its client."""

    OPEN = "open"
    ANSWERED = "answered"
    """200, and whole."""
    REFUSED = "refused"
    """Another status."""
    BROKEN = "broken"
    """Accepted, and then no whole answer: reset, cut, an error event, or no end in time."""
    UNREACHED = "unreached"
    """No connection was made: nobody has admitted it."""


@dataclass(slots=True)
class Request:
    """One request; filled in as it goes on."""

    model: str
    via: str
    """Where it was sent: a name of the test's own."""
    is_stream: bool
    began: float
    first_byte: float | None = None
    """First byte of the model's own answer; heartbeats do not count."""
    ended: float | None = None
    ending: Ending = Ending.OPEN
    status: int | None = None
    detail: str = ""
    tokens: int = 0

    def is_open_at(self, moment: float) -> bool:
        """Inside at that moment: held or streaming."""
        return self.began <= moment and (self.ended is None or self.ended > moment)

    def waited(self) -> float:
        """Seconds to the first byte of its answer."""
        assert self.first_byte is not None, f"never answered: {self}"
        return self.first_byte - self.began


@dataclass(frozen=True, slots=True)
class Zero:
    """A model's replicas went from some to none within [`earliest`, `latest`]: servers tell whole seconds."""

    model: str
    earliest: float
    latest: float


Excuse = Callable[[Request], bool]


def nobody(request: Request) -> bool:
    """No request is excused."""
    del request
    return False


def lost(requests: Iterable[Request], excused: Excuse = nobody) -> list[Request]:
    """Admitted requests that have ended without a whole answer."""
    fine = (Ending.ANSWERED, Ending.UNREACHED, Ending.OPEN)
    return [request for request in requests if request.ending not in fine and not excused(request)]


def unreached(requests: Iterable[Request], excused: Excuse = nobody) -> list[Request]:
    """Requests that nobody took."""
    return [request for request in requests if request.ending is Ending.UNREACHED and not excused(request)]


def wrong_zeros(requests: Iterable[Request], zeros: Iterable[Zero]) -> list[tuple[Zero, Request]]:
    """Each zero with a request that was inside during all of the time in which the zero may have been decided and made."""
    known = list(requests)
    return [
        (zero, request)
        for zero in zeros
        for request in known
        if request.model == zero.model
        and request.ending is not Ending.UNREACHED
        and request.is_open_at(zero.earliest - DECISION_SECONDS)
        and request.is_open_at(zero.latest)
    ]


@dataclass(slots=True)
class Account:
    """Everything that was recorded, for claims and for people."""

    requests: list[Request] = field(default_factory=list)
    zeros: list[Zero] = field(default_factory=list)
    marks: list[tuple[float, str]] = field(default_factory=list)
    """Moments of the test's own."""

    def told(self, since: float) -> str:
        """In order of time: moments, zeros, and the requests that were not simply answered; seconds count from `since`."""
        lines = [
            (
                r.began,
                f"{r.model} via {r.via}: {r.ending.value} {r.status or ''} {r.detail}; {_span(r, since)}",
            )
            for r in self.requests
            if r.ending is not Ending.ANSWERED
        ]
        lines += [(z.earliest, f"{z.model}: replicas to none") for z in self.zeros]
        lines += self.marks
        answered = sum(r.ending is Ending.ANSWERED for r in self.requests)
        slowest = max((r.waited() for r in self.requests if r.first_byte is not None), default=0.0)
        head = f"{answered} of {len(self.requests)} requests answered, the slowest first byte after {slowest:.1f} s"
        return "\n".join([head, *(f"  {at - since:+7.1f} s  {what}" for at, what in sorted(lines))])


def _span(request: Request, since: float) -> str:
    return f"first byte {_after(request.first_byte, since)}, ended {_after(request.ended, since)}"


def _after(moment: float | None, since: float) -> str:
    return "never" if moment is None else f"{moment - since:+.1f} s"

"""What this process did for which shard, line by line in a file, so that a fleet's history can be judged afterwards.

Off without `NOCTAYA_AUDIT__FILE`; then nothing is built and nothing is kept. A line is one JSON object and one `write` to a
file opened for appending, so that a process that is killed leaves whole lines and several files can be merged by `at`: seconds
of the clock by which leases are judged (`kube.clock`), which all processes of a machine share. What is noted is noted directly
after the question whether it may be done, before it is done.

An audit never stands in the way: a file that cannot be written is complained of once, and the worker goes on without.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from typing import Any

import msgspec

from noctaya.kube.clock import boottime
from noctaya.leader.planner_events import FenceMember, WriteMap
from noctaya.telemetry import context
from noctaya.wire import control
from noctaya.workers.demand import AtLeast, Demand, Known, seen_of
from noctaya.workers.permission import Permission
from noctaya.workers.questions import Active, Answer, Question, Wanted

log = logging.getLogger(__name__)


class Line(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="effect"):
    """`at`: seconds since boot; `by`: the incarnation, empty while there is none."""

    at: float
    by: str = ""


class Stood(Line, tag="stood", frozen=True):
    """What the incarnation's membership allows has changed. It begins with its first `act`; it is over once another stands."""

    standing: str


class Started(Line, tag="start", frozen=True):
    """It owns the shard under this epoch."""

    shard: int
    epoch: int


class Stopped(Line, tag="stop", frozen=True):
    """It owns the shard no more. No effect: it may be noted long after the fact."""

    shard: int
    epoch: int


class Wrote(Line, tag="write", frozen=True):
    """A write to the API server was permitted."""

    shard: int
    epoch: int
    what: str


class Sent(Line, tag="config", frozen=True):
    """A shard's config was put on the link of a gateway process."""

    shard: int
    epoch: int
    version: int
    to: str
    permission: str


class Told(Line, tag="answer", frozen=True):
    """KEDA, or a peer whom KEDA had asked, was told something about a service."""

    shard: int
    epoch: int
    service: str
    about: str
    """`active` or `demand`."""
    permission: str
    value: int | None = None
    """None: no answer. Of `active`, 1 is yes and 0 is no."""
    demand: str = ""
    """`known`, `at_least` or `unknown`; empty where it was not looked at."""
    seen: int = 0
    """The demand, or what there is at least."""


class Fenced(Line, tag="fence", frozen=True):
    """As the leader of this epoch, it takes a member's Lease from it."""

    epoch: int
    pod: str
    incarnation: str
    is_proven: bool
    """Its end was proved; else it is believed by its silence."""


class Mapped(Line, tag="map", frozen=True):
    """As the leader of this epoch, it writes this generation of the ShardMap."""

    epoch: int
    generation: int
    reason: str


AnyLine = Stood | Started | Stopped | Wrote | Sent | Told | Fenced | Mapped

_UNLOOKED = ("", 0)
_NOBODYS = ("", 0)


class Audit:
    """See the module. `who()` is the present incarnation."""

    def __init__(
        self, file: str = "", who: Callable[[], str] = lambda: "", clock: Callable[[], float] = boottime
    ) -> None:
        self._who = who
        self._clock = clock
        self._owned: dict[int, tuple[str, int]] = {}
        """Who began each shard, and under which epoch: its end may be noted by the incarnation after."""
        self._encode = msgspec.json.Encoder().encode
        self._file: int | None = None
        if file:
            try:
                self._file = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
            except OSError as error:
                self._complain(error)

    # -- shards ------------------------------------------------------------------------------------------------------

    def stood(self, standing: str) -> None:
        """See `Stood`."""
        if self._file is not None:
            self._note(Stood(at=self._clock(), by=self._who(), standing=standing))

    def started(self, shard: int, epoch: int) -> None:
        """See `Started`."""
        if self._file is not None:
            by = self._who()
            self._owned[shard] = (by, epoch)
            self._note(Started(at=self._clock(), by=by, shard=shard, epoch=epoch))

    def stopped(self, shard: int) -> None:
        """See `Stopped`."""
        if self._file is not None and (owned := self._owned.pop(shard, None)) is not None:
            self._note(Stopped(at=self._clock(), by=owned[0], shard=shard, epoch=owned[1]))

    # -- effects -----------------------------------------------------------------------------------------------------

    def wrote(self, shard: int, epoch: int, what: str) -> None:
        """See `Wrote`."""
        if self._file is not None:
            self._note(Wrote(at=self._clock(), by=self._who(), shard=shard, epoch=epoch, what=what))

    def sent(self, update: control.ShardUpdate, to: str, permission: Permission) -> None:
        """See `Sent`."""
        if self._file is not None:
            self._note(
                Sent(
                    at=self._clock(), by=self._who(), shard=update.shard, epoch=update.epoch,
                    version=update.version, to=to, permission=permission.value,
                )
            )  # fmt: skip

    def told(self, question: Question, answer: Answer, permission: Permission, demand: Demand | None) -> None:
        """See `Told`; `demand` is None where the answer does not rest on any."""
        if self._file is None:
            return
        match answer:
            case Active(is_active):
                value: int | None = int(is_active)
            case Wanted(wanted):
                value = wanted
            case _:
                value = None
        kind, seen = (_kind(demand), seen_of(demand)) if demand is not None else _UNLOOKED
        epoch = self._owned.get(question.shard, _NOBODYS)[1]
        self._note(
            Told(
                at=self._clock(), by=self._who(), shard=question.shard, epoch=epoch, service=question.key,
                about=question.about.name.lower(), permission=permission.value, value=value, demand=kind, seen=seen,
            )
        )  # fmt: skip

    def led(self, request: object, epoch: int | None) -> None:
        """A request of the leader that writes something (`leader_requests.py`)."""
        if self._file is None:
            return
        match request:
            case FenceMember(pod=pod, incarnation=incarnation, is_proven=is_proven):
                self._note(
                    Fenced(
                        at=self._clock(), by=self._who(), epoch=epoch or 0, pod=pod, incarnation=incarnation,
                        is_proven=is_proven,
                    )
                )  # fmt: skip
            case WriteMap(map=map_):
                self._note(
                    Mapped(
                        at=self._clock(), by=self._who(), epoch=epoch or 0, generation=map_.generation,
                        reason=map_.reason,
                    )
                )  # fmt: skip

    # -- the file ----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Nothing more will be noted."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _note(self, line: AnyLine) -> None:
        if self._file is None:
            return
        try:
            os.write(self._file, self._encode(line) + b"\n")
        except OSError as error:
            self.close()
            self._complain(error)

    def _complain(self, error: OSError) -> None:
        log.error("the audit cannot be written, going on without", extra=context(error=error))


def read_lines(content: bytes) -> list[AnyLine]:
    """The lines of an audit's file; a last one without its end, that a kill may leave, is none.

    Raises:
        msgspec.ValidationError, msgspec.DecodeError: something is no line of an audit.
    """
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(AnyLine)
    return [decoder.decode(line) for line in content.split(b"\n")[:-1]]


def _kind(demand: Demand) -> str:
    match demand:
        case Known():
            return "known"
        case AtLeast():
            return "at_least"
        case _:
            return "unknown"


OFF = Audit()
"""Notes nothing."""

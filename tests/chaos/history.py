"""What the harness saw and did, as lines beside the audits of the workers: the truth, the API server's objects, KEDA's ears.

Times are of the same clock as an audit's (`noctaya.kube.clock`), which every process of this machine shares.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec

from noctaya.kube.clock import boottime

FILE = "history.jsonl"


class Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="event"):
    """`at`: seconds since boot."""

    at: float


class Recorded(Event, tag="record", frozen=True):
    """A shard's Lease was written; `is_gone`: deleted."""

    shard: int
    holder: str
    epoch: int
    is_gone: bool = False


class MemberWritten(Event, tag="member", frozen=True):
    """A worker's Lease was written, by itself or by who fenced it."""

    pod: str
    holder: str
    state: str
    is_gone: bool = False


class LeaderWritten(Event, tag="leader", frozen=True):
    """The leader's Lease was written."""

    holder: str
    epoch: int
    is_gone: bool = False


class MapWritten(Event, tag="map", frozen=True):
    """The ShardMap was written; `by_hand`: by the harness."""

    fleet: str
    data: dict[str, str]
    by_hand: bool = False
    is_gone: bool = False


class Truth(Event, tag="truth", frozen=True):
    """From now on so many requests for a service are inside one gateway."""

    gateway: str
    service: str
    pending: int


class Applied(Event, tag="applied", frozen=True):
    """A gateway process took a shard's config and holds this now."""

    gateway: str
    boot: str
    fleet: str
    shard: int
    epoch: int
    version: int


class Heard(Event, tag="heard", frozen=True):
    """KEDA asked a worker at `asked_at`. `value` None: no answer, and `code` says why."""

    asked_at: float
    worker: str
    service: str
    about: str
    value: int | None = None
    code: str = ""


class Slept(Event, tag="slept", frozen=True):
    """KEDA put a model to sleep: it had heard no for a whole cooldown."""

    service: str


class Process(Event, tag="process", frozen=True):
    """Something was done to a worker's process: start, ready, kill, stop, continue, terminate, exit."""

    pod: str
    number: int
    what: str
    code: int = 0


class FaultBegan(Event, tag="fault", frozen=True):
    """A fault is in force from now on; `slows_reports`: what gateways say may reach workers late, or not at all."""

    name: str
    slows_reports: bool = False


class FaultEnded(Event, tag="fault_over", frozen=True):
    """It is lifted."""

    name: str


class Bounds(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a story promises besides the invariants. Seconds; None or False: nothing."""

    no_handover: bool = False
    """No shard's record changes its holder, and none its epoch."""
    no_fence: bool = False
    """No worker is fenced."""
    takeover: float | None = None
    """From a kill until each shard of the killed is owned anew, at most."""
    gap: float | None = None
    """From the end of one owner to the begin of the next, 99 % of the shards."""
    exit: float | None = None
    """From SIGTERM until the process has ended."""
    comes_back: float | None = None
    """From SIGCONT until the worker is a member as another incarnation."""
    falls: int | None = None
    """How often a worker may cease to be allowed to act, in an incarnation."""
    moves: int | None = None
    """Shards whose owner in the map changes."""
    moves_a_round: int | None = None
    """The same, in one generation."""
    answers_within: float | None = None
    """Every question of KEDA to a running worker has an answer, or a refusal, in that time."""
    lease_writes: float | None = None
    """Per second and worker, and for the leader's Lease."""

    def untimed(self) -> Bounds:
        """What does not depend on how quick the machine is: all that a shrunk tenure can promise."""
        return msgspec.structs.replace(
            self,
            takeover=None,
            gap=None,
            exit=None,
            comes_back=None,
            falls=None,
            answers_within=None,
            lease_writes=None,
        )


class StoryBegan(Event, tag="story", frozen=True):
    """The fleet is whole, and what follows belongs to this story."""

    name: str
    bounds: Bounds


class StoryEnded(Event, tag="story_over", frozen=True):
    """`last_fault_at`: when its last fault was lifted or done. `is_settled`: the harness found the fleet whole again."""

    name: str
    last_fault_at: float
    is_settled: bool
    alive: tuple[str, ...] = ()
    """The pods whose processes run."""


AnyEvent = (
    Recorded
    | MemberWritten
    | LeaderWritten
    | MapWritten
    | Truth
    | Applied
    | Heard
    | Slept
    | Process
    | FaultBegan
    | FaultEnded
    | StoryBegan
    | StoryEnded
)


class Notebook:
    """Writes events to the folder's file; `now` is the clock of all of them."""

    def __init__(self, folder: Path) -> None:
        self._file = (folder / FILE).open("ab", buffering=0)
        self._encode = msgspec.json.Encoder().encode
        self.counts: dict[str, int] = {}

    def __enter__(self) -> Notebook:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    @property
    def now(self) -> float:
        return boottime()

    def write(self, event: AnyEvent) -> None:
        """Keep it."""
        self._file.write(self._encode(event) + b"\n")


def read_events(content: bytes) -> list[AnyEvent]:
    """What a file of a `Notebook` holds."""
    decoder: msgspec.json.Decoder[Any] = msgspec.json.Decoder(AnyEvent)
    return [decoder.decode(line) for line in content.split(b"\n")[:-1]]

"""What a worker knows about each shard: the record as last seen, and where it stands with it itself. Plain data, no decisions.

All of it can be written down (`checkpoint`) and read back, so that what a core did can be replayed from the middle of its life.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

import msgspec

from noctaya.errors import UserError
from noctaya.leader.member_record import MemberState
from noctaya.workers.shard_proof import Proof

NEVER: Final = -1e9
"""Long before any clock; written down, unlike an infinity."""


class Phase(Enum):
    """Where one worker stands with one shard."""

    NONE = "none"
    WARM = "warm"
    """It should be ours, and we wait until it may be taken."""
    ACQUIRING = "acquiring"
    """A write that names us is under way."""
    ACTIVE = "active"
    """Ours: the only phase with a permission."""
    STOPPING = "stopping"
    """Ours still, and nothing new is done for it; what runs is ended."""
    TRANSFERRING = "transferring"
    """Stopped; its state and then the record go to the heir."""
    UNSURE = "unsure"
    """A write of ours may have happened or may happen yet, or somebody knows a higher epoch: only a new write decides."""


class ShardTiming(msgspec.Struct, frozen=True):
    """Seconds, and counts of shards."""

    fence_after: float = 8.5
    """As in `tenure.Timing`: how long an incarnation must be absent before it is over."""
    absent_after: float = 17.5
    """How long a shard that has been owned must lack a record before somebody but its owner makes one. Above
    `membership.VIEW_DEADLINE` (12.0), within which its owner notices or does not act, by the tolerated ratio of clock rates
    (1.42, and some more for the wait's own granularity)."""
    prepare_within: float = 1.0
    stop_within: float = 2.0
    state_within: float = 0.5
    unsure_retry: float = 0.5
    refused_retry: float = 1.0
    """For a version newer than the refused one, should the watch not show it before."""
    leaderless_after: float = 3.0
    """A draining worker whose shards nobody moves for so long chooses heirs by itself."""
    drain_budget: float = 45.0
    alone_after: float = 0.25
    """A draining worker that sees nobody to whom anything could go gives up after so long."""
    resign_after: float = 2.0
    ask_epoch_every: float = 4.0
    acquire_at_once: int = 16
    give_at_once: int = 16

    def __post_init__(self) -> None:
        if not self.fence_after < self.absent_after:
            raise UserError(
                f"absent_after ({self.absent_after} s) must be above fence_after ({self.fence_after} s): two workers could act"
            )


class Shard(msgspec.Struct):
    """One shard at one worker."""

    number: int
    phase: Phase = Phase.NONE
    epoch: int = 0
    """Under which this worker acts, or last acted."""
    left: int = 0
    """The highest epoch that this incarnation has given up or may have: it acts again only under a higher one."""
    floor: int = 0
    """The highest epoch that anybody has claimed to know."""
    holder: str = ""
    """Of the record."""
    recorded: int = 0
    """Epoch of the record."""
    version: str = ""
    """Of the record; empty: there is none."""
    seen_version: str = ""
    """The newest version that was seen, of the record or of its deletion."""
    absent_since: float = 0.0
    heir: str = ""
    """To whom it is being given."""
    is_preparing: bool = False
    since: float = 0.0
    """Of the present step."""
    request: int = 0
    """The write under way; 0 for none."""
    next_at: float = 0.0
    """No write before then."""
    wanted_since: float = 0.0
    asked_at: float = NEVER
    resigned_holder: str = ""
    resigned_epoch: int = 0


class Aim(msgspec.Struct, frozen=True):
    """A write under way."""

    shard: int
    holder: str
    epoch: int


class State(msgspec.Struct):
    """Everything that `ShardOwnership` remembers."""

    pod: str
    shards: list[Shard]
    proof: Proof
    incarnation: str = ""
    state: MemberState = MemberState.JOINING
    fleet: str = ""
    generation: int = -1
    desired: tuple[str, ...] = ()
    planned_at: float = 0.0
    listed_at: float | None = None
    drains_since: float | None = None
    is_drained: bool = False
    serial: int = 0
    aims: dict[int, Aim] = msgspec.field(default_factory=dict)
    restless: set[int] = msgspec.field(default_factory=set)
    """Shards that are not where they should be."""

    def checkpoint(self) -> bytes:
        """All of it, written down."""
        return msgspec.json.encode(self)


def restore(checkpoint: bytes) -> State:
    """The state that `checkpoint` was made of."""
    return msgspec.json.decode(checkpoint, type=State)

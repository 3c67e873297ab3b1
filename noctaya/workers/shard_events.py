"""What the ownership core is told and what it asks for: the language between `shard_ownership` and its shell.

Every `CasShard` is answered by exactly one of `CasAccepted`, `CasRefused`, `CasUnanswered`; the other actions may be answered
or not, the core goes on by its own clock. Peers are named by incarnation, so that a message for one that is over reaches
nobody. All of it is plain data: a story of it can be written down and read back.
"""

from __future__ import annotations

import msgspec

from noctaya.leader.member_record import MemberState

# --- events: what the API server shows. One watch shows member and shard Leases, in the order in which they changed ----------


class MemberSeen(msgspec.Struct, frozen=True, tag=True):
    """A member Lease; `incarnation` is empty when it was fenced or left. `state` None: its annotations cannot be read."""

    pod: str
    incarnation: str
    state: MemberState | None


class MemberGone(msgspec.Struct, frozen=True, tag=True):
    """The member Lease of `pod` was deleted, or a complete list lacks it."""

    pod: str


class RecordSeen(msgspec.Struct, frozen=True, tag=True):
    """A shard Lease: who holds it (empty: nobody), under which epoch, at which version."""

    shard: int
    holder: str
    epoch: int
    version: str


class RecordGone(msgspec.Struct, frozen=True, tag=True):
    """The shard Lease was deleted, or a complete list lacks it. `version` of the deletion or of the list."""

    shard: int
    version: str


class Listed(msgspec.Struct, frozen=True, tag=True):
    """A complete list has been told: from now on, what has not been seen is not there."""


class PlanSeen(msgspec.Struct, frozen=True, tag=True):
    """A ShardMap to obey (`shard_map.supersedes` has been asked): the pod per shard, empty before the first assignment."""

    fleet: str
    generation: int
    desired: tuple[str, ...]


class HigherEpochSeen(msgspec.Struct, frozen=True, tag=True):
    """A status or a gateway carries `epoch` for `shard`."""

    shard: int
    epoch: int


# --- events: about ourselves -----------------------------------------------------------------------------------------------


class Began(msgspec.Struct, frozen=True, tag=True):
    """This process goes on as another incarnation; whatever the one before owned is over."""

    incarnation: str


class StateSeen(msgspec.Struct, frozen=True, tag=True):
    """Our own state in the fleet."""

    state: MemberState


class Stopped(msgspec.Struct, frozen=True, tag=True):
    """Everything that acted for `shard` when `StopShard` was asked has ended, requests under way included."""

    shard: int


class CasAccepted(msgspec.Struct, frozen=True, tag=True):
    """The write was accepted and left the record at `version`."""

    request: int
    version: str


class CasRefused(msgspec.Struct, frozen=True, tag=True):
    """The write met another version, a record where it meant to create one, or none where it meant to replace one."""

    request: int


class CasUnanswered(msgspec.Struct, frozen=True, tag=True):
    """The write had no answer in time. It may have happened, or may happen yet."""

    request: int


class Tick(msgspec.Struct, frozen=True, tag=True):
    """Time has passed; every 0.25 s or so."""


# --- events: what peers say ------------------------------------------------------------------------------------------------


class PrepareAsked(msgspec.Struct, frozen=True, tag=True):
    """`peer` is about to hand `shard` over to us."""

    peer: str
    shard: int


class Prepared(msgspec.Struct, frozen=True, tag=True):
    """`peer` is ready for `shard`."""

    peer: str
    shard: int


class StateTaken(msgspec.Struct, frozen=True, tag=True):
    """`peer` has what we know about `shard`, or could not be told."""

    peer: str
    shard: int


class Told(msgspec.Struct, frozen=True, tag=True):
    """The owner before us says that its write, which names `holder` under `epoch`, was accepted."""

    shard: int
    holder: str
    epoch: int
    version: str


class ResignAsked(msgspec.Struct, frozen=True, tag=True):
    """`peer` should own `shard`, and asks us, who are recorded as `holder` under `epoch`, to say that we have stopped."""

    peer: str
    shard: int
    holder: str
    epoch: int


class Resigned(msgspec.Struct, frozen=True, tag=True):
    """`holder` says that it does not act under `epoch` any more, and never will again."""

    shard: int
    holder: str
    epoch: int


class EpochAsked(msgspec.Struct, frozen=True, tag=True):
    """`peer` is about to make the lost record of `shard` anew: under which epochs was it owned?"""

    peer: str
    shard: int


Event = (
    MemberSeen
    | MemberGone
    | RecordSeen
    | RecordGone
    | Listed
    | PlanSeen
    | HigherEpochSeen
    | Began
    | StateSeen
    | Stopped
    | CasAccepted
    | CasRefused
    | CasUnanswered
    | Tick
    | PrepareAsked
    | Prepared
    | StateTaken
    | Told
    | ResignAsked
    | Resigned
    | EpochAsked
)


# --- actions ---------------------------------------------------------------------------------------------------------------


class CasShard(msgspec.Struct, frozen=True, tag=True):
    """Write the record: `holder` under `epoch`, if it still is at `version`; create it where `version` is empty."""

    request: int
    shard: int
    holder: str
    epoch: int
    version: str


class StartShard(msgspec.Struct, frozen=True, tag=True):
    """We own `shard` under `epoch`: look at everything in it."""

    shard: int
    epoch: int


class StopShard(msgspec.Struct, frozen=True, tag=True):
    """Permission for `shard` is gone already; end what acts for it (2 s, then cancel) and answer `Stopped`."""

    shard: int


class Prepare(msgspec.Struct, frozen=True, tag=True):
    """Ask `peer` whether it is ready for `shard`."""

    peer: str
    shard: int


class AnswerPrepared(msgspec.Struct, frozen=True, tag=True):
    """Tell `peer` that we are ready for `shard`."""

    peer: str
    shard: int


class SendState(msgspec.Struct, frozen=True, tag=True):
    """Send `peer` what we know about `shard` (demand, activation leases); answer `StateTaken`."""

    peer: str
    shard: int


class Announce(msgspec.Struct, frozen=True, tag=True):
    """`holder` owns `shard` under `epoch`, by a write of ours: tell it, gateways and whoever relays."""

    shard: int
    holder: str
    epoch: int
    version: str


class AskResign(msgspec.Struct, frozen=True, tag=True):
    """Ask `holder` whether it has stopped acting for `shard`."""

    shard: int
    holder: str
    epoch: int


class AnswerResigned(msgspec.Struct, frozen=True, tag=True):
    """Tell `peer` that we, `holder`, do not act for `shard` under `epoch` any more."""

    peer: str
    shard: int
    holder: str
    epoch: int


class AskEpoch(msgspec.Struct, frozen=True, tag=True):
    """Ask every peer for the highest epoch that it knows of `shard`; an answer is `HigherEpochSeen`."""

    shard: int


class AnswerEpoch(msgspec.Struct, frozen=True, tag=True):
    """Tell `peer` the highest epoch that we know of `shard`."""

    peer: str
    shard: int
    epoch: int


class Drained(msgspec.Struct, frozen=True, tag=True):
    """We own nothing, no write of ours is under way, and nothing is coming: the member Lease can be released."""


Action = (
    CasShard
    | StartShard
    | StopShard
    | Prepare
    | AnswerPrepared
    | SendState
    | Announce
    | AskResign
    | AnswerResigned
    | AskEpoch
    | AnswerEpoch
    | Drained
)

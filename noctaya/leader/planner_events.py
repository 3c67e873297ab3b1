"""What the planner is told and what it asks for: the language between the leader's core and its shell.

The shell's part is dull. It turns what the API server shows into events (every worker does, not only the leader: that is how
a new leader's observation has run already), carries out the actions of a leader, and answers every action that has a
`request` with exactly one of `Accepted`, `Refused`, `Unreachable`. Directly before it sends a write it asks the tenure
whether it still may act, and drops the action (`Unreachable`) when not.
"""

from __future__ import annotations

from dataclasses import dataclass

from noctaya.leader.errors import ShardMapInvalid
from noctaya.leader.member_record import MemberRecord
from noctaya.leader.shard_map import ShardMap


@dataclass(frozen=True, slots=True)
class MemberView:
    """A member Lease as the API server showed it."""

    pod: str
    incarnation: str
    """Who holds it; empty when it was fenced or left."""
    resource_version: str
    record: MemberRecord | None
    """None when the annotations cannot be read: the record before them stays in force."""
    created: str = ""
    """The Lease's creationTimestamp; tells who is younger, and nothing else."""
    is_cordon_asked: bool = False
    is_drain_asked: bool = False


@dataclass(frozen=True, slots=True)
class ShardView:
    """A shard Lease as the API server showed it."""

    shard: int
    holder: str
    """The incarnation that owns it; empty for nobody."""
    epoch: int


# --- events ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class BecameLeader:
    """Our tenure of the leader Lease acts, under `epoch`. Again after a lapse, even with the same epoch."""

    epoch: int


@dataclass(frozen=True, slots=True)
class LostLeadership:
    """Our tenure does not act any more. Nothing is asked for until the next BecameLeader."""


@dataclass(frozen=True, slots=True)
class LeasesListed:
    """A complete list of the fleet's Leases: the first one, or one after the watch broke. What it lacks is gone."""

    resource_version: str
    members: tuple[MemberView, ...]
    shards: tuple[ShardView, ...] = ()


@dataclass(frozen=True, slots=True)
class MemberSeen:
    """The watch showed a member Lease, new or changed (a renewal is a change)."""

    member: MemberView


@dataclass(frozen=True, slots=True)
class MemberGone:
    """The watch showed that the member Lease of `pod` was deleted. That is no proof that anybody ended."""

    pod: str
    resource_version: str = ""


@dataclass(frozen=True, slots=True)
class ShardSeen:
    """The watch showed a shard Lease; a deleted one is shown with nobody as its holder and epoch 0."""

    shard: ShardView


@dataclass(frozen=True, slots=True)
class WatchAlive:
    """The watch of the Leases gave a bookmark, or the API server accepted a write of ours (a renewal, say)."""


@dataclass(frozen=True, slots=True)
class MapSeen:
    """The ShardMap as a read or the watch showed it."""

    fleet: str
    """Its uid; a new one is a new fleet."""
    resource_version: str
    map: ShardMap | ShardMapInvalid
    is_freeze_asked: bool = False
    request: int | None = None
    """The `ReadMap` that this answers; None from the watch."""


@dataclass(frozen=True, slots=True)
class MapGone:
    """There is no ShardMap (any more)."""

    request: int | None = None
    """The `ReadMap` that this answers; None from the watch."""


@dataclass(frozen=True, slots=True)
class PodSeen:
    """A worker's pod: whether its deletion was asked for. A pod that is not there any more is not terminating."""

    pod: str
    is_terminating: bool


@dataclass(frozen=True, slots=True)
class ContainerEnded:
    """The kubelet says that this container of `pod` has ended: `containerStatuses[].state.terminated`, or `lastState`.

    It proves the end of the incarnation whose record names this container id, and of no other. That a pod was deleted, or a
    node NotReady, proves nothing and is no event.
    """

    pod: str
    container: str


@dataclass(frozen=True, slots=True)
class RolloutSeen:
    """Whether the workers' Deployment is being rolled out, and to which `MemberRecord.version` (empty: not known).

    Without this event a rollout is taken from what the members say: more than one version, and the youngest is the newest.
    """

    is_running: bool
    newest: str = ""


@dataclass(frozen=True, slots=True)
class ProbeAnswered:
    """A `Probe` of `pod` had its result: alive when that very incarnation answered by gRPC, else (refused, timeout) not."""

    pod: str
    incarnation: str
    is_alive: bool


@dataclass(frozen=True, slots=True)
class Accepted:
    """The write `request` was accepted and left its object with this version (and uid, for a map that was made anew)."""

    request: int
    resource_version: str
    fleet: str = ""


@dataclass(frozen=True, slots=True)
class Refused:
    """The write `request` met another resourceVersion, or an object where there should be none, or none at all."""

    request: int


@dataclass(frozen=True, slots=True)
class Unreachable:
    """The request had no answer in time, or an error that decides nothing: a write may have happened or may happen yet."""

    request: int


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed; every 0.25 s or so."""


Event = (
    BecameLeader
    | LostLeadership
    | LeasesListed
    | MemberSeen
    | MemberGone
    | ShardSeen
    | WatchAlive
    | MapSeen
    | MapGone
    | PodSeen
    | ContainerEnded
    | RolloutSeen
    | ProbeAnswered
    | Accepted
    | Refused
    | Unreachable
    | Tick
)


# --- actions ---------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FenceMember:
    """Compare-and-swap the member Lease of `pod`: nobody holds it, its record is `record`. The rest of it stays."""

    request: int
    pod: str
    incarnation: str
    resource_version: str
    record: MemberRecord
    is_proven: bool = False
    """Its end was proved; else it is believed by its silence."""


@dataclass(frozen=True, slots=True)
class WriteMap:
    """Replace the ShardMap's data (labels and annotations stay); create it where `resource_version` is None."""

    request: int
    map: ShardMap
    resource_version: str | None


@dataclass(frozen=True, slots=True)
class ReadMap:
    """Get the ShardMap. A success is MapSeen or MapGone with this `request`; a failure Unreachable."""

    request: int


@dataclass(frozen=True, slots=True)
class Probe:
    """Ask `incarnation` by gRPC, within a second, whether it lives; answered by ProbeAnswered."""

    pod: str
    incarnation: str
    address: str


@dataclass(frozen=True, slots=True)
class StepDown:
    """The map was claimed under `epoch`, above ours: tell the tenure (`HigherEpochSeen`). A new BecameLeader may follow."""

    epoch: int


Action = FenceMember | WriteMap | ReadMap | Probe | StepDown

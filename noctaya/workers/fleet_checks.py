"""What is inconsistent in the fleet, each as one sentence with what to do next (`noctaya verify`). Read only.

Only what lasts is a finding. A handover takes a moment and a round of moves some seconds, so what is merely on its way is
reported once `SETTLE_SECONDS` have passed since this worker last saw a new map. A worker that is not current says so first:
what it shows of others may be old.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from noctaya.api.names import SHARD_COUNT
from noctaya.leader.lease_names import member_lease, pod_of_incarnation, shard_lease
from noctaya.leader.member_record import MemberState
from noctaya.leader.roster import Member
from noctaya.leader.tenure import HIGHEST_CLAIM, Standing
from noctaya.workers.fleet_views import Cores, View, told_by
from noctaya.workers.shard_state import Phase

SETTLE_SECONDS: Final = 10.0
"""As `rounds.RoundLimits.flight_seconds`: a handover that takes longer is not on its way but stuck."""
SILENT_SECONDS: Final = 12.0
"""Above `ObservationTiming.fence_after` by what a leader may take to act."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One inconsistency."""

    subject: str
    problem: str
    todo: str
    shards: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.subject}: {self.problem}; {self.todo}"


def verify_view(cores: Cores, now: float) -> View:
    """Every finding; none: as far as this worker sees, the fleet is as it should be."""
    return {
        "told_by": told_by(cores, now),
        "findings": [
            {
                "subject": found.subject,
                "problem": found.problem,
                "todo": found.todo,
                "shards": list(found.shards),
            }
            for found in verify(cores, now)
        ],
    }


def verify(cores: Cores, now: float) -> list[Finding]:
    """What is inconsistent, the most general first."""
    return [
        *_view_findings(cores, now),
        *_map_findings(cores),
        *_member_findings(cores, now),
        *_shard_findings(cores, now),
    ]


def _view_findings(cores: Cores, now: float) -> Iterator[Finding]:
    pod = cores.planner.pod
    if not cores.planner.fleet.is_listed:
        yield Finding(
            f"worker/{pod}",
            "it has not listed the fleet's Leases yet, so that all below may be incomplete",
            "see its /readyz, or ask another worker",
        )
    elif not cores.planner.fleet.observation.is_healthy(now):
        yield Finding(
            f"worker/{pod}",
            "its watch of the Leases is silent, so that all below may be old",
            "look whether the API server answers, or ask another worker",
        )
    if cores.membership.state is MemberState.READY and cores.membership.standing(now) is not Standing.ACT:
        yield Finding(
            f"worker/{pod}",
            f"it cannot renew its Lease {member_lease(pod)}, and changes nothing for its shards meanwhile",
            "look whether the API server answers, and at the worker's /readyz for a right that it lacks",
        )


def _map_findings(cores: Cores) -> Iterator[Finding]:
    maps = cores.planner.maps
    if maps.problem is not None:
        yield Finding(
            "map",
            str(maps.problem),
            "a map for other shards or another hash is for the version that made it; any other one the leader writes anew: see who leads",
        )
    elif maps.is_known and maps.version is None:
        yield Finding(
            "map",
            "there is no ShardMap",
            "the leader makes it anew; see whether somebody leads (noctaya status)",
        )
    elif maps.map is not None and not maps.map.desired:
        yield Finding(
            "map",
            "no shard is assigned to anybody",
            "see whether somebody leads and a worker is Ready (noctaya workers)",
        )
    owned_by = cores.ownership.state.fleet
    if maps.fleet and owned_by and maps.fleet != owned_by:
        yield Finding(
            "map",
            f"this worker owns shards for fleet {owned_by}, and the map is of fleet {maps.fleet}",
            f"restart {cores.planner.pod} if this stays",
        )
    tenure = cores.leader
    if tenure is not None and not tenure.holder and cores.planner.epoch is None:
        yield Finding(
            "leader", "nobody leads", "see whether a worker is Ready and may write the Lease noctaya-leader"
        )
    elif tenure is not None and maps.map is not None and maps.map.leader_epoch > tenure.shown_epoch > 0:
        yield Finding(
            "leader",
            f"the map was written under leader epoch {maps.map.leader_epoch}, and the leader's Lease is at {tenure.shown_epoch}",
            "the Lease noctaya-leader was lost or changed by hand; a leader that sees it claims a higher epoch by itself",
        )


def _member_findings(cores: Cores, now: float) -> Iterator[Finding]:
    members = cores.planner.fleet.roster.members
    addresses = defaultdict[str, list[str]](list)
    for pod, member in sorted(members.items()):
        if member.is_held and member.record.address:
            addresses[member.record.address].append(pod)
        yield from _one_member(cores, member, now)
    for address, pods in addresses.items():
        if len(pods) > 1:
            yield Finding(
                f"worker/{pods[0]}",
                f"{' and '.join(pods)} all say that they are reached at {address}",
                "one of them is gone or has another pod's settings: compare with kubectl get pods -o wide",
            )


def _one_member(cores: Cores, member: Member, now: float) -> Iterator[Finding]:
    pod, record, maps = member.view.pod, member.record, cores.planner.maps
    subject, lease = f"worker/{pod}", member_lease(pod)
    if member.view.record is None:
        yield Finding(
            subject,
            f"the annotations of its Lease {lease} cannot be read; what they said before stays in force",
            "somebody changed them by hand; the worker's next renewal writes them anew",
        )
    silent = cores.planner.fleet.observation.unchanged_for(pod, now)
    if member.is_held and pod != cores.planner.pod and silent > SILENT_SECONDS:
        yield Finding(
            subject,
            f"its Lease {lease} has not changed for {silent:.0f} s, and nobody has fenced it",
            "see whether somebody leads; the leader asks a silent worker itself when many are silent together",
        )
    generation = maps.map.generation if maps.map is not None else 0
    if member.is_ready and _has_settled(cores, now) and 0 < record.saw_map < generation:
        yield Finding(
            subject,
            f"it obeys map generation {record.saw_map}, and {generation} is stored",
            "look at its log and /readyz: its watch of the ShardMap is behind or refused",
        )


def _shard_findings(cores: Cores, now: float) -> Iterator[Finding]:
    found: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
    for shard in range(SHARD_COUNT):
        for problem, todo in _one_shard(cores, shard, now):
            found[problem, todo].append(shard)
    for (problem, todo), shards in found.items():
        subject = f"shard/{shards[0]}" if len(shards) == 1 else f"shards {ranges(shards)}"
        yield Finding(subject, problem, todo, tuple(shards))


def _one_shard(cores: Cores, shard: int, now: float) -> Iterator[tuple[str, str]]:
    fleet, map_ = cores.planner.fleet, cores.planner.map
    record = fleet.shard(shard)
    desired = map_.owner(shard) if map_ is not None else None
    if record.epoch > HIGHEST_CLAIM:
        yield (
            f"its record has epoch {record.epoch}, above all claims that are believed",
            f"somebody wrote it by hand (the first is {shard_lease(shard)}); leave it: it works, and epochs only rise",
        )
    if not _has_settled(cores, now):
        return
    yield from _here(cores, shard)
    if record.holder and shard not in fleet.actual():
        yield (
            f"it is held by {record.holder}, which is over",
            "the worker that should have it takes it within seconds; see noctaya why, and that worker's /readyz, if it does not",
        )
    elif not record.holder and desired is not None:
        what = "it has no record" if not record.epoch else "nobody holds it"
        yield f"{what}, and should be with {desired}", f"see noctaya story worker/{desired} and its /readyz"
    yield from _its_owner(cores, record.holder, desired)


def _here(cores: Cores, shard: int) -> Iterator[tuple[str, str]]:
    """Where this worker's own belief and the record differ."""
    if shard >= len(cores.ownership.state.shards):
        return
    here, record = cores.ownership.state.shards[shard], cores.planner.fleet.shard(shard)
    if here.phase is Phase.ACTIVE and record.epoch and record.epoch != here.epoch and not here.request:
        yield (
            f"this worker acts under epoch {here.epoch}, and the record is at {record.epoch}",
            "one of its two watches is behind; if this stays, restart the worker and keep noctaya dump of it",
        )
    if here.phase is not Phase.ACTIVE and here.floor > max(here.recorded, here.epoch):
        yield (
            f"a status or a gateway knows epoch {here.floor}, and the record is at {here.recorded}",
            "the record was lost; whoever takes the shard writes a higher epoch. If nobody does, see noctaya why",
        )


def _its_owner(cores: Cores, holder: str, desired: str | None) -> Iterator[tuple[str, str]]:
    if desired is None:
        return
    member = cores.planner.fleet.roster.members.get(desired)
    if member is None or not member.is_held:
        state = f"which is {member.record.state.value}" if member is not None else "which has no Lease"
        yield (
            f"it should be with {desired}, {state}",
            "the leader gives it to another within seconds; see whether somebody leads",
        )
    elif holder and pod_of_incarnation(holder) != desired and holder in _incarnations(cores):
        yield (
            f"it is still with {pod_of_incarnation(holder)} and should be with {desired}",
            f"see noctaya story worker/{desired}, and whether {desired} is reached at {member.record.address or 'its address'}",
        )


def _incarnations(cores: Cores) -> set[str]:
    return {member.view.incarnation for member in cores.planner.fleet.roster.held()}


def _has_settled(cores: Cores, now: float) -> bool:
    """Whether what the newest map asked for should be done by now."""
    return now - cores.ownership.state.planned_at >= SETTLE_SECONDS


def ranges(numbers: Iterable[int]) -> str:
    """`0-3, 7, 9-10`."""
    found: list[list[int]] = []
    for number in sorted(numbers):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in found)

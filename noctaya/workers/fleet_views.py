"""The fleet as one worker's cores see it, as plain data for people: `/debug/fleet`, `/debug/shards`, `/debug/story` and what plans
say. Read only: nothing here decides, and nothing here is kept.

Every worker observes the whole fleet, so any of them can be asked. Two things only the leader knows: the story of its decisions,
and which moves it holds back. Times are seconds before `now`, because a worker's clock means nothing elsewhere; what is not
known is None, never 0.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any, Final

from noctaya.api.names import SHARD_COUNT
from noctaya.leader.assignment import Role
from noctaya.leader.lease_names import pod_of_incarnation
from noctaya.leader.membership import Membership
from noctaya.leader.planner import Planner
from noctaya.leader.roster import Member
from noctaya.leader.shard_map import ShardMap
from noctaya.leader.story import Entry
from noctaya.leader.tenure import Tenure
from noctaya.workers.shard_ownership import ShardOwnership
from noctaya.workers.shard_state import Shard

RECENT_MOVES: Final = 100
MAX_ENTRIES: Final = 4000
"""Of a story that is asked for as a whole: more than both stories keep."""

View = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cores:
    """What a worker decides with."""

    planner: Planner
    ownership: ShardOwnership
    membership: Membership
    leader: Tenure | None = None
    """Our candidature for the leadership, which sees who holds it."""


def fleet_view(cores: Cores, now: float) -> View:
    """Who is in the fleet, who leads, which map is in force, and what moves."""
    planner = cores.planner
    moves = moving(cores)
    owned = len(planner.fleet.actual())
    members = members_view(cores, now)
    open_ = [member["shards_owned"] for member in members if member["role"] == Role.OPEN.value]
    return {
        "fleet": planner.maps.fleet,
        "told_by": told_by(cores, now),
        "leader": leader_view(cores),
        "map": map_view(cores),
        "shards": {
            "total": SHARD_COUNT,
            "owned": owned,
            "unowned": SHARD_COUNT - owned,
            "moving": len(moves),
        },
        "imbalance": max(open_) - min(open_) if open_ else None,
        "members": members,
        "moves": moves,
        "recent_moves": recent_moves(cores, now),
    }


def told_by(cores: Cores, now: float) -> View:
    """Which worker says all this, what it may do itself, and whether what it sees is current."""
    membership, observation = cores.membership, cores.planner.fleet.observation
    deadline = membership.deadline_in(now)
    return {
        "pod": cores.planner.pod,
        "incarnation": str(membership.identity),
        "state": membership.state.value,
        "standing": membership.standing(now).value,
        "acts_for_seconds": None if deadline is None else round(deadline, 3),
        "has_listed": cores.planner.fleet.is_listed,
        "is_current": observation.is_healthy(now),
    }


def leader_view(cores: Cores) -> View:
    """Who leads, as far as this worker has seen. `epoch` is the one that the map was claimed under, when nothing newer is known."""
    planner, tenure = cores.planner, cores.leader
    claimed = planner.map.leader_epoch if planner.map is not None else None
    if planner.epoch is not None:
        holder, epoch = str(cores.leader.identity) if cores.leader else planner.pod, planner.epoch
        return _leader(holder, epoch, is_here=True)
    if tenure is not None and tenure.holder:
        return _leader(tenure.holder, tenure.shown_epoch, is_here=False)
    return _leader(None, claimed, is_here=False)


def _leader(holder: str | None, epoch: int | None, *, is_here: bool) -> View:
    pod = pod_of_incarnation(holder) if holder else None
    return {"pod": pod, "holder": holder, "epoch": epoch, "is_here": is_here}


def map_view(cores: Cores) -> View:
    """The map in force, and what is wrong with the one that is stored, if it is another."""
    maps = cores.planner.maps
    found = maps.map or ShardMap()
    return {
        "generation": found.generation if maps.map is not None else None,
        "leader_epoch": found.leader_epoch if maps.map is not None else None,
        "is_assigned": bool(found.desired),
        "reason": found.reason,
        "is_frozen": found.frozen,
        "is_freeze_asked": maps.is_freeze_asked,
        "is_stored": maps.version is not None,
        "problem": str(maps.problem) if maps.problem is not None else None,
    }


def members_view(cores: Cores, now: float) -> list[View]:
    """Every member whose Lease is there, by name."""
    planner = cores.planner
    picture = planner.picture(now)
    roles = picture.roles()
    owned = Counter(planner.fleet.actual().values())
    desired = Counter(planner.map.desired if planner.map is not None else ())
    return [
        {
            **_member(member),
            "role": roles[pod].value if pod in roles else None,
            "is_doubted": pod in picture.doubted,
            "shards_owned": owned[pod],
            "shards_desired": desired[pod],
            "silent_seconds": round(planner.fleet.observation.unchanged_for(pod, now), 3),
            "is_here": pod == planner.pod,
        }
        for pod, member in sorted(planner.fleet.roster.members.items())
    ]


def _member(member: Member) -> View:
    view, record = member.view, member.record
    return {
        "pod": view.pod,
        "incarnation": view.incarnation or None,
        "state": record.state.value,
        "reason": record.reason,
        "address": record.address,
        "version": record.version,
        "zone": record.zone,
        "capacity": record.capacity,
        "load": record.load,
        "saw_map": record.saw_map,
        "is_readable": view.record is not None,
        "is_cordoned": view.is_cordon_asked,
        "is_draining": view.is_drain_asked,
        "created": view.created,
    }


def shards_view(cores: Cores, now: float) -> View:
    """Every shard: who holds it, who should, and where this worker stands with it."""
    return {
        "told_by": told_by(cores, now),
        "shards": [_shard(cores, shard, now) for shard in cores.ownership.state.shards],
    }


def _shard(cores: Cores, here: Shard, now: float) -> View:
    planner = cores.planner
    record = planner.fleet.shard(here.number)
    desired = planner.map.owner(here.number) if planner.map is not None else None
    return {
        "shard": here.number,
        "pod": pod_of_incarnation(record.holder) or None,
        "holder": record.holder or None,
        "epoch": record.epoch,
        "desired": desired,
        "is_held": planner.fleet.actual().get(here.number) is not None,
        "is_settled": desired is not None and planner.fleet.actual().get(here.number) == desired,
        "here": {
            "phase": here.phase.value,
            "permission": cores.ownership.permission(here.number, now).value,
            "epoch": here.epoch,
            "heir": here.heir or None,
            "since_seconds": round(now - here.since, 3) if here.since > 0 else None,
        },
    }


def moving(cores: Cores) -> list[View]:
    """Shards that are not where they should be."""
    planner = cores.planner
    actual = planner.fleet.actual()
    desired = planner.map.desired if planner.map is not None else ()
    return [
        {
            "shard": shard,
            "from": actual.get(shard),
            "to": owner,
            "phase_here": cores.ownership.state.shards[shard].phase.value
            if shard < len(cores.ownership.state.shards)
            else None,
        }
        for shard, owner in enumerate(desired)
        if actual.get(shard) != owner
    ]


def recent_moves(cores: Cores, now: float) -> list[View]:
    """The latest moves of the leader's story, oldest first; nothing on a worker that has not led lately."""
    entries = [entry for entry in cores.planner.story.entries() if entry.subject.startswith("shard/")]
    return [_entry(entry, now) for entry in entries[-RECENT_MOVES:]]


def story_view(cores: Cores, now: float, subject: str | None = None) -> View:
    """What this worker's cores tell about `subject` (`shard/17`, `worker/<pod>`, `map`, `leader`), or about everything."""
    told: list[tuple[str, Iterable[Entry]]] = [
        ("leading", cores.planner.story.entries(subject)),
        ("owning", cores.ownership.story.entries(subject)),
    ]
    entries = [{**_entry(entry, now), "by": by} for by, found in told for entry in found]
    entries.sort(key=lambda entry: -entry["seconds_ago"])
    return {"told_by": told_by(cores, now), "subject": subject, "entries": entries[-MAX_ENTRIES:]}


def _entry(entry: Entry, now: float) -> View:
    return {"seconds_ago": round(now - entry.now, 3), "subject": entry.subject, "text": entry.text}


def why_view(cores: Cores, shard: int, now: float) -> View:
    """Why `shard` is where it is, and where it goes."""
    explained = cores.planner.why(shard, now)
    return {
        **asdict(explained),
        "preferences": [{**asdict(each), "role": each.role.value} for each in explained.preferences],
        "epoch": cores.planner.fleet.shard(shard).epoch,
        "holder": cores.planner.fleet.shard(shard).holder or None,
    }


def plan_view(cores: Cores, workers: int, now: float) -> View:
    """What `workers` open workers would own."""
    forecast = cores.planner.plan(workers, now)
    return {"workers": workers, "counts": dict(forecast.counts), "moves": forecast.moves}


def rebalance_view(cores: Cores, now: float) -> View:
    """The plan as if nothing held levelling off, and what does hold it off."""
    planner = cores.planner
    plan = planner.rebalance(now)
    desired = planner.map.desired if planner.map is not None else ()
    before = dict(enumerate(desired))
    moves = [
        {"shard": shard, "from": before.get(shard), "to": plan.owners[shard]}
        for shard in plan.moves_from(before)
        if plan.owners[shard] is not None
    ]
    return {"counts": plan.counts(), "moves": moves, "held_off_by": _held_off_by(cores, moves, now)}


def _held_off_by(cores: Cores, moves: list[View], now: float) -> list[str]:
    planner = cores.planner
    reasons = []
    if planner.maps.is_freeze_asked:
        reasons.append("the map is frozen (noctaya unfreeze)")
    reasons += [
        f"nothing is certain about {pod}: it is silent, or has just begun anew"
        for pod in sorted(planner.picture(now).doubted)
    ]
    waiting = [move for move in moves if planner.why(move["shard"], now).planned == move["from"]]
    if waiting and not reasons:
        reasons.append("a worker joined, a rollout ran or a worker was lost a moment ago: levelling waits")
    return reasons

"""What a run's lines measure: how long shards had no owner, how many moved, how often Leases were written. Pure."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from noctaya.leader.errors import ShardMapInvalid
from noctaya.leader.lease_names import pod_of_incarnation
from noctaya.leader.shard_map import ShardMap, read_map
from noctaya.workers.audit import AnyLine, Sent, Started, Stopped, Told, Wrote
from tests.chaos.history import AnyEvent, LeaderWritten, MapWritten, MemberWritten, Process


@dataclass(frozen=True, slots=True)
class Takeover:
    """What a kill cost: seconds from it until each shard of the killed was owned anew."""

    at: float
    pod: str
    is_in_place: bool
    seconds: tuple[float, ...]
    unowned: int = 0
    """Shards that nobody has taken since."""


@dataclass(frozen=True, slots=True)
class Gap:
    """One shard from one owner to the next."""

    at: float
    shard: int
    seconds: float
    giver: str
    """The pod that had it."""
    is_graceful: bool
    """The giver had stopped by itself; else the gap begins with its last effect."""


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that so large a share of all does not exceed; NaN of none."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[max(math.ceil(share * len(ordered)) - 1, 0)]


def takeovers(lines: Iterable[AnyLine], events: Iterable[AnyEvent]) -> list[Takeover]:
    """One for every kill of a process that owned something."""
    tenures = list(_tenures(lines).values())
    found = []
    for event in events:
        if not (isinstance(event, Process) and event.what == "kill"):
            continue
        seconds, in_place, unowned = [], 0, 0
        for tenure in tenures:
            held = [one for one in tenure if one.at <= event.at]
            if not held or pod_of_incarnation(held[-1].by) != event.pod or held[-1].ended_at <= event.at:
                continue
            heir = next((one for one in tenure if one.at > event.at), None)
            if heir is None:
                unowned += 1
                continue
            seconds.append(heir.at - event.at)
            in_place += pod_of_incarnation(heir.by) == event.pod
        if seconds or unowned:
            is_in_place = in_place > len(seconds) // 2
            found.append(Takeover(event.at, event.pod, is_in_place, tuple(seconds), unowned))
    return found


def gaps(lines: Iterable[AnyLine]) -> list[Gap]:
    """Every change of a shard's owner."""
    found = []
    for shard, tenure in _tenures(lines).items():
        for former, heir in pairwise(tenure):
            is_graceful = former.ended_at <= heir.at
            end = former.ended_at if is_graceful else min(former.last_effect_at, heir.at)
            giver = pod_of_incarnation(former.by)
            found.append(Gap(heir.at, shard, max(heir.at - end, 0.0), giver, is_graceful))
    return sorted(found, key=lambda gap: gap.at)


def moves(events: Iterable[AnyEvent], *, begin: float = 0.0, end: float = math.inf) -> list[int]:
    """For each generation of the map in that time, how many shards got another owner."""
    found, before = [], None
    for event in events:
        if not isinstance(event, MapWritten) or event.is_gone or event.at > end:
            continue
        try:
            map_: ShardMap = read_map(event.data)
        except ShardMapInvalid:
            continue
        if before is not None and before.desired and map_.desired and event.at >= begin:
            found.append(sum(one != other for one, other in zip(before.desired, map_.desired, strict=True)))
        before = map_
    return found


def lease_writes(events: Iterable[AnyEvent], begin: float, end: float) -> dict[str, float]:
    """Writes per second of each worker's Lease, and of the leader's (`""`)."""
    counts: Counter[str] = Counter()
    for event in events:
        if isinstance(event, MemberWritten) and begin <= event.at < end:
            counts[event.pod] += 1
        elif isinstance(event, LeaderWritten) and begin <= event.at < end:
            counts[""] += 1
    return {name: count / (end - begin) for name, count in counts.items()}


@dataclass(slots=True)
class _Tenure:
    by: str
    epoch: int
    at: float
    ended_at: float = math.inf
    last_effect_at: float = 0.0


def _tenures(lines: Iterable[AnyLine]) -> dict[int, list[_Tenure]]:
    """Who owned each shard, in order of begin."""
    found: dict[int, list[_Tenure]] = defaultdict(list)
    known: dict[tuple[int, str, int], _Tenure] = {}
    for line in lines:
        match line:
            case Started(shard=shard, epoch=epoch):
                tenure = _Tenure(line.by, epoch, line.at, last_effect_at=line.at)
                known[shard, line.by, epoch] = tenure
                found[shard].append(tenure)
            case Stopped(shard=shard, epoch=epoch):
                if (tenure_ := known.get((shard, line.by, epoch))) is not None:
                    tenure_.ended_at = line.at
            case (
                Wrote(shard=shard, epoch=epoch)
                | Sent(shard=shard, epoch=epoch)
                | Told(shard=shard, epoch=epoch)
            ):
                if (tenure_ := known.get((shard, line.by, epoch))) is not None:
                    tenure_.last_effect_at = line.at
    return found

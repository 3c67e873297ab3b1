"""Judges a run by its lines alone: the invariants of the shard protocol (I1 to I8) and what each story promised.

Pure. Lines of all processes are one sequence by time; the harness's lines tell what was true. An effect counts for I1 when it was
done with the permission to act: what GROW allows (config sent before, yes, values that do not fall) is safe from anyone and is
judged by I5 alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from noctaya.api.names import SHARD_COUNT
from noctaya.leader.errors import ShardMapInvalid
from noctaya.leader.shard_map import ShardMap, read_map
from noctaya.workers.audit import AnyLine, Fenced, Mapped, Sent, Started, Stopped, Told, Wrote
from tests.chaos.history import (
    AnyEvent,
    Applied,
    Heard,
    LeaderWritten,
    MapWritten,
    MemberWritten,
    Recorded,
    Slept,
    StoryEnded,
)
from tests.chaos.truth import Truths

ACT: Final = "act"
LIVENESS_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Violation:
    """A rule that does not hold, when, and what was seen."""

    rule: str
    at: float
    what: str

    def __str__(self) -> str:
        return f"{self.rule} at {self.at:.3f}: {self.what}"


def check(
    lines: Iterable[AnyLine], events: Iterable[AnyEvent], *, stale_after: float = 10.0
) -> list[Violation]:
    """Everything that is wrong with a run, in order of time. `stale_after`: how long a report counts, as the workers were set."""
    lines = sorted(lines, key=lambda line: line.at)
    events = sorted(events, key=lambda event: event.at)
    truths = Truths(events, stale_after)
    found = [
        *exclusion(lines),
        *transitions(events),
        *maps(events),
        *gateways(events),
        *answers(lines),
        *zeros(lines, events, truths),
        *leaders(lines, events),
        *liveness(lines, events),
    ]
    return sorted(found, key=lambda violation: violation.at)


# -- I1 ----------------------------------------------------------------------------------------------------------------------


def exclusion(lines: list[AnyLine]) -> Iterator[Violation]:
    """I1: in the order of effects a shard's epoch never falls, and one epoch is one incarnation's."""
    highest: dict[int, tuple[int, str, float]] = {}
    holder: dict[tuple[int, int], str] = {}
    for line in lines:
        if not isinstance(line, Started | Wrote | Sent | Told) or not _is_act(line):
            continue
        shard, epoch = line.shard, line.epoch
        top, by, since = highest.get(shard, (0, "", 0.0))
        if epoch < top:
            yield Violation(
                "I1", line.at,
                f"{_name(line)} by {line.by} for shard {shard} under epoch {epoch}; {by} acted under {top} since {since:.3f}",
            )  # fmt: skip
        elif epoch > top:
            highest[shard] = (epoch, line.by, line.at)
        if epoch == 0 or not line.by:
            yield Violation(
                "I1", line.at, f"{_name(line)} for shard {shard} by {line.by or 'nobody'} under epoch {epoch}"
            )
        elif (owner := holder.setdefault((shard, epoch), line.by)) != line.by:
            yield Violation(
                "I1", line.at, f"{_name(line)} by {line.by} for shard {shard} under epoch {epoch}, which is {owner}'s"
            )  # fmt: skip


def _is_act(line: Started | Wrote | Sent | Told) -> bool:
    if isinstance(line, Told) and line.value is None:
        return False  # no answer is no effect
    return not isinstance(line, Sent | Told) or line.permission == ACT


def _name(line: AnyLine) -> str:
    return str(type(line).__struct_config__.tag)


# -- I2, I3 ------------------------------------------------------------------------------------------------------------------


def transitions(events: list[AnyEvent]) -> Iterator[Violation]:
    """I2: a shard's epoch rises with every change of its record's holder, the leader's with every leader."""
    records: dict[int, Recorded] = {}
    leader: LeaderWritten | None = None
    for event in events:
        if isinstance(event, Recorded):
            before = records.get(event.shard)
            if event.is_gone:
                records.pop(event.shard, None)
                continue
            records[event.shard] = event
            if before is not None and before.holder != event.holder and event.epoch <= before.epoch:
                yield Violation(
                    "I2", event.at,
                    f"shard {event.shard} went from {before.holder} ({before.epoch}) to {event.holder} ({event.epoch})",
                )  # fmt: skip
        elif isinstance(event, LeaderWritten):
            changed = leader is not None and event.holder and event.holder != leader.holder
            if leader is not None and not event.is_gone:
                if event.epoch < leader.epoch or (changed and leader.holder and event.epoch == leader.epoch):
                    yield Violation(
                        "I2", event.at, f"the leader went from {leader.epoch} to {event.epoch} ({event.holder})"
                    )  # fmt: skip
            leader = None if event.is_gone else event


def maps(events: list[AnyEvent]) -> Iterator[Violation]:
    """I2 and I3 of every map that a leader wrote: it supersedes the last one of its fleet, and gives every shard one owner."""
    force: dict[str, ShardMap] = {}
    for event in events:
        if not isinstance(event, MapWritten) or event.is_gone:
            continue
        try:
            found = read_map(event.data)
        except ShardMapInvalid as error:
            if not event.by_hand and "desired" in event.data:
                yield Violation("I3", event.at, f"a leader wrote a map that cannot be obeyed: {error}")
            continue
        if event.by_hand:
            continue
        before = force.get(event.fleet)
        is_untouched = before is not None and found == before  # only its annotations were written
        if before is not None and not is_untouched and not found.supersedes(before):
            yield Violation(
                "I2", event.at,
                f"generation {found.generation} of leader epoch {found.leader_epoch} follows {before.generation} of "
                f"{before.leader_epoch}",
            )  # fmt: skip
        if found.desired and (len(found.desired) != SHARD_COUNT or not all(found.desired)):
            yield Violation("I3", event.at, f"generation {found.generation} leaves shards to nobody")
        force[event.fleet] = found


# -- I4 ----------------------------------------------------------------------------------------------------------------------


def gateways(events: list[AnyEvent]) -> Iterator[Violation]:
    """I4: what a gateway process holds of a shard never goes back, and a fleet that was replaced never returns."""
    held: dict[tuple[str, int], tuple[int, int]] = {}
    fleets: dict[str, list[str]] = {}
    for event in events:
        if not isinstance(event, Applied):
            continue
        seen = fleets.setdefault(event.boot, [])
        if event.fleet not in seen:
            seen.append(event.fleet)
            for key in [key for key in held if key[0] == event.boot]:
                del held[key]
        elif event.fleet != seen[-1]:
            yield Violation("I4", event.at, f"{event.boot} went back to fleet {event.fleet}")
        key, now = (event.boot, event.shard), (event.epoch, event.version)
        if now < (before := held.get(key, (0, 0))):
            yield Violation("I4", event.at, f"{event.boot}, shard {event.shard}: from {before} back to {now}")
        held[key] = max(before, now)


# -- I5 ----------------------------------------------------------------------------------------------------------------------


def answers(lines: list[AnyLine]) -> Iterator[Violation]:
    """I5 by what workers knew: no, zero or less is told only by an owner that may act and knows."""
    valid: dict[tuple[str, str], tuple[int, int]] = {}
    """(incarnation, service) → (epoch, the lowest that its last valid answer can have been)."""
    for line in lines:
        if not isinstance(line, Told):
            continue
        key = (line.by, line.service)
        epoch, floor = valid.get(key, (0, 0))
        floor = floor if epoch == line.epoch else 0
        if line.value is not None:
            is_certain = line.permission == ACT and line.demand == "known"
            if line.value <= 0 and not is_certain:
                yield _untrue(line, "a zero")
            elif not is_certain and line.about == "demand" and line.value < line.seen:
                yield _untrue(line, f"less than the {line.seen} that it knew of")
            elif line.permission == "grow" and line.about == "demand" and line.value < floor:
                yield _untrue(line, f"less than {floor}, its last valid answer,")
        if line.permission == ACT:
            valid[key] = (line.epoch, line.seen)


def _untrue(line: Told, what: str) -> Violation:
    return Violation(
        "I5", line.at,
        f"{line.by or 'somebody'} told {what} about {line.service} ({line.about} {line.value}); permission {line.permission}, "
        f"demand {line.demand or 'not looked at'}",
    )  # fmt: skip


def zeros(lines: list[AnyLine], events: list[AnyEvent], truths: Truths) -> Iterator[Violation]:
    """I5 by the truth: no worker says no, KEDA hears none and puts nothing to sleep, while somebody has been waiting."""
    for line in lines:
        if isinstance(line, Told) and line.value is not None and line.value <= 0:
            if (waiting := truths.wrong_for(line.service, line.at)) is not None:
                yield Violation(
                    "I5", line.at, f"{line.by} told {line.about} {line.value} of {line.service}, wanted for {waiting:.1f} s"
                )  # fmt: skip
    for event in events:
        if isinstance(event, Heard) and event.value is not None and event.value <= 0:
            if (waiting := truths.wrong_for(event.service, event.asked_at, event.at)) is not None:
                yield Violation(
                    "I5", event.at,
                    f"KEDA heard {event.about} {event.value} of {event.service} from {event.worker}, wanted for {waiting:.1f} s",
                )  # fmt: skip
        elif isinstance(event, Slept) and (waiting := truths.wrong_for(event.service, event.at)) is not None:
            yield Violation("I5", event.at, f"KEDA put {event.service} to sleep, wanted for {waiting:.1f} s")


# -- the leader --------------------------------------------------------------------------------------------------------------


def leaders(lines: list[AnyLine], events: list[AnyEvent]) -> Iterator[Violation]:
    """F13: leader epochs never fall along the writes of maps, and a leader fences nobody before it has claimed the map."""
    steps: list[tuple[float, AnyLine | AnyEvent]] = [(line.at, line) for line in lines]
    steps += [(event.at, event) for event in events if isinstance(event, MapWritten | LeaderWritten)]
    claimed = top = 0
    for at, step in sorted(steps, key=lambda one: one[0]):
        match step:
            case MapWritten(is_gone=True) | LeaderWritten(is_gone=True):
                claimed = top = 0  # the fleet is founded anew
            case Mapped(epoch=epoch, by=by):
                if epoch < top:
                    yield Violation("F13", at, f"{by} writes a map as leader {epoch}; {top} wrote one before")
                claimed = top = max(top, epoch)
            case Fenced(epoch=epoch, by=by, pod=pod):
                if claimed < epoch:
                    yield Violation(
                        "F13", at, f"{by} fences {pod} as leader {epoch}, the map was claimed by {claimed}"
                    )


# -- I6 ----------------------------------------------------------------------------------------------------------------------


def liveness(lines: list[AnyLine], events: list[AnyEvent]) -> Iterator[Violation]:
    """I6: when a story is over, and 30 s after its last fault at the latest, every shard is owned by a ready worker, evenly."""
    records: dict[int, Recorded] = {}
    members: dict[str, MemberWritten] = {}
    owned: dict[tuple[int, str], int] = {}
    line_at = iter(lines)
    pending = next(line_at, None)
    for event in events:
        while pending is not None and pending.at <= event.at:
            if isinstance(pending, Started):
                owned[pending.shard, pending.by] = pending.epoch
            elif isinstance(pending, Stopped):
                owned.pop((pending.shard, pending.by), None)
            pending = next(line_at, None)
        if isinstance(event, Recorded):
            records[event.shard] = event
        elif isinstance(event, MemberWritten):
            members[event.pod] = event
        elif isinstance(event, StoryEnded):
            if not event.is_settled:
                yield Violation(
                    "I6", event.at, f"{event.name}: not whole {LIVENESS_SECONDS:.0f} s after its last fault"
                )
            if event.is_settled and (what := _disorder(event, records, members, owned)):
                yield Violation("I6", event.at, f"{event.name}: {what}")


def _disorder(
    end: StoryEnded,
    records: dict[int, Recorded],
    members: dict[str, MemberWritten],
    owned: dict[tuple[int, str], int],
) -> str:
    counts = dict.fromkeys(end.alive, 0)
    for shard in range(SHARD_COUNT):
        record = records.get(shard)
        if record is None or record.is_gone or not record.holder:
            return f"nobody holds shard {shard}"
        pod = record.holder.partition("_")[0]
        member = members.get(pod)
        if pod not in counts or member is None or member.holder != record.holder or member.state != "Ready":
            return f"shard {shard} is held by {record.holder}, which is not ready"
        if owned.get((shard, record.holder)) != record.epoch:
            return f"shard {shard} is recorded for {record.holder} under {record.epoch} and not acted for"
        counts[pod] += 1
    if max(counts.values()) - min(counts.values()) > 1:
        return f"shares differ: {counts}"
    return ""

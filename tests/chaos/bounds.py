"""Whether each story kept what it promises (`history.Bounds`). Pure."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from noctaya.leader.lease_names import pod_of_incarnation
from noctaya.workers.audit import AnyLine, Fenced, Stood
from tests.chaos import figures
from tests.chaos.checker import Violation
from tests.chaos.figures import percentile
from tests.chaos.history import (
    AnyEvent,
    Bounds,
    Heard,
    Process,
    Recorded,
    StoryBegan,
    StoryEnded,
)


@dataclass(frozen=True, slots=True)
class Span:
    """One story's time."""

    name: str
    bounds: Bounds
    begin: float
    end: float

    def has(self, at: float) -> bool:
        return self.begin <= at < self.end


def spans(events: list[AnyEvent]) -> list[Span]:
    """Every story that came to its end."""
    found, began = [], None
    for event in events:
        if isinstance(event, StoryBegan):
            began = event
        elif isinstance(event, StoryEnded) and began is not None:
            found.append(Span(began.name, began.bounds, began.at, event.at))
            began = None
    return found


def broken(lines: list[AnyLine], events: list[AnyEvent]) -> list[Violation]:
    """Every promise that was not kept."""
    found: list[Violation] = []
    for span in spans(events):
        inside = [event for event in events if span.has(event.at)]
        acted = [line for line in lines if span.has(line.at)]
        for at, what in (
            *_standstill(span, acted, inside),
            *_times(span, lines, inside),
            *_counts(span, acted, events, inside),
        ):
            found.append(Violation("bound", at, f"{span.name}: {what}"))
    return found


def _standstill(span: Span, acted: list[AnyLine], inside: list[AnyEvent]) -> Iterator[tuple[float, str]]:
    if span.bounds.no_handover:
        for event in inside:
            if isinstance(event, Recorded):
                yield (
                    event.at,
                    f"the record of shard {event.shard} was written for {event.holder} ({event.epoch})",
                )
    if span.bounds.no_fence:
        for line in acted:
            if isinstance(line, Fenced):
                yield line.at, f"{line.incarnation} was fenced"


def _times(span: Span, lines: list[AnyLine], inside: list[AnyEvent]) -> Iterator[tuple[float, str]]:
    bounds = span.bounds
    if bounds.takeover is not None:
        for takeover in figures.takeovers(lines, inside):
            slowest = max(takeover.seconds, default=0.0)
            if takeover.unowned or slowest > bounds.takeover:
                yield (
                    takeover.at,
                    f"takeover from {takeover.pod} took {slowest:.1f} s, {takeover.unowned} never",
                )
    if bounds.gap is not None:
        graceful = [gap.seconds for gap in figures.gaps(lines) if span.has(gap.at) and gap.is_graceful]
        if graceful and percentile(graceful, 0.99) > bounds.gap:
            yield span.end, f"p99 of {len(graceful)} gaps is {percentile(graceful, 0.99):.2f} s"
    if bounds.exit is not None:
        for at, seconds in _from_to(inside, "terminate", "exit"):
            if seconds > bounds.exit:
                yield at, f"the exit took {seconds:.1f} s"
    if bounds.comes_back is not None:
        for event in inside:
            if isinstance(event, Process) and event.what == "continue":
                seconds = _back_after(event, lines)
                if seconds > bounds.comes_back:
                    yield event.at, f"{event.pod} was back after {seconds:.1f} s"
    if bounds.answers_within is not None:
        slow = [
            event for event in inside
            if isinstance(event, Heard) and event.at - event.asked_at > bounds.answers_within
        ]  # fmt: skip
        if slow:
            worst = max(slow, key=lambda event: event.at - event.asked_at)
            yield (
                worst.at,
                f"{len(slow)} answers were late, one of {worst.worker} after {worst.at - worst.asked_at:.1f} s",
            )


def _counts(
    span: Span, acted: list[AnyLine], events: list[AnyEvent], inside: list[AnyEvent]
) -> Iterator[tuple[float, str]]:
    bounds = span.bounds
    if bounds.moves is not None or bounds.moves_a_round is not None:
        moved = figures.moves(events, begin=span.begin, end=span.end)
        if bounds.moves is not None and sum(moved) > bounds.moves:
            yield span.end, f"{sum(moved)} shards were moved, {bounds.moves} are allowed"
        if bounds.moves_a_round is not None and max(moved, default=0) > bounds.moves_a_round:
            yield span.end, f"{max(moved)} shards were moved at once"
    if bounds.falls is not None:
        falls = Counter(line.by for line in acted if isinstance(line, Stood) and line.standing == "grow")
        for by, count in falls.items():
            if count > bounds.falls:
                yield span.end, f"{by} fell from its permission to act {count} times"
    if bounds.lease_writes is not None:
        for name, rate in figures.lease_writes(inside, span.begin, span.end).items():
            if rate > bounds.lease_writes:
                yield span.end, f"the Lease of {name or 'the leader'} is written {rate:.2f} times a second"


def _from_to(inside: list[AnyEvent], begin: str, end: str) -> Iterator[tuple[float, float]]:
    began: dict[str, float] = {}
    for event in inside:
        if isinstance(event, Process) and event.what == begin:
            began[event.pod] = event.at
        elif isinstance(event, Process) and event.what == end and event.pod in began:
            yield event.at, event.at - began.pop(event.pod)


def _back_after(event: Process, lines: list[AnyLine]) -> float:
    """From SIGCONT until the pod's worker acts as an incarnation that has not acted before."""
    before = {line.by for line in lines if line.at <= event.at}
    for line in lines:
        is_its = line.at > event.at and pod_of_incarnation(line.by) == event.pod and line.by not in before
        if is_its and isinstance(line, Stood) and line.standing == "act":
            return line.at - event.at
    return math.inf

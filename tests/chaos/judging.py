"""A run's folder, read and judged: what was violated, and the table of what happened."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from noctaya.workers.audit import AnyLine, Stood, Told, read_lines
from tests.chaos import bounds, figures
from tests.chaos.checker import Violation, check
from tests.chaos.figures import percentile
from tests.chaos.history import FILE, AnyEvent, Heard, Process, read_events


@dataclass(frozen=True)
class Evidence:
    """All lines of a run, in order of time."""

    lines: list[AnyLine]
    events: list[AnyEvent]

    def violations(self, *, stale_after: float) -> list[Violation]:
        """Everything that is wrong."""
        found = check(self.lines, self.events, stale_after=stale_after)
        return sorted([*found, *bounds.broken(self.lines, self.events)], key=lambda one: one.at)


def read(folder: Path) -> Evidence:
    """What `folder` holds."""
    lines = [line for file in sorted(folder.glob("*.audit.jsonl")) for line in read_lines(file.read_bytes())]
    events = read_events((folder / FILE).read_bytes())
    return Evidence(sorted(lines, key=lambda line: line.at), sorted(events, key=lambda event: event.at))


def report(evidence: Evidence, violations: list[Violation]) -> Iterator[str]:
    """The table, and what is wrong below it."""
    takeovers = figures.takeovers(evidence.lines, evidence.events)
    gaps = figures.gaps(evidence.lines)
    yield "| story | seconds | takeover max, s | gaps p99 (n), s | shards moved | changes of standing | KEDA: no answer | violations |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for span in bounds.spans(evidence.events):
        taken = [second for one in takeovers if span.has(one.at) for second in one.seconds]
        graceful = [gap.seconds for gap in gaps if span.has(gap.at) and gap.is_graceful]
        heard = [event for event in evidence.events if isinstance(event, Heard) and span.has(event.at)]
        silent = sum(event.value is None for event in heard)
        moved = sum(figures.moves(evidence.events, begin=span.begin, end=span.end))
        stood = sum(isinstance(line, Stood) and span.has(line.at) for line in evidence.lines)
        wrong = sum(span.begin <= violation.at <= span.end for violation in violations)
        yield " | ".join(
            (
                f"| {span.name}", f"{span.end - span.begin:.0f}", f"{max(taken):.2f}" if taken else "",
                f"{percentile(graceful, 0.99):.3f} ({len(graceful)})" if graceful else "", str(moved), str(stood),
                f"{silent} of {len(heard)}", f"{wrong} |",
            )
        )  # fmt: skip
    yield ""
    yield from _totals(evidence)
    rules = Counter(violation.rule for violation in violations)
    yield f"violations: {dict(rules) or 'none'}"
    yield from (f"  {violation}" for violation in violations[:50])


def _totals(evidence: Evidence) -> Iterator[str]:
    effects = Counter(str(type(line).__struct_config__.tag) for line in evidence.lines)
    told = [line for line in evidence.lines if isinstance(line, Told)]
    done = Counter(event.what for event in evidence.events if isinstance(event, Process))
    heard = sum(isinstance(event, Heard) for event in evidence.events)
    yield f"effects: {sum(effects.values())} ({', '.join(f'{count} {name}' for name, count in effects.most_common())})"
    yield f"answers by owners and by who holds a value: {sum(line.value is not None for line in told)} of {len(told)}"
    yield f"questions of KEDA: {heard}; done to workers: {', '.join(f'{count} {what}' for what, count in done.most_common())}"

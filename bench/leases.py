"""What moving shards costs, with real worker processes on the embedded API server: takeovers, gaps, moves, Lease writes.

    python -m bench.leases [--kills 30] [--workers 3] [--restarts 10] [--herd 10] [--json] [--folder DIR]

Everything is read from the workers' audits and from what the API server stored (`tests/chaos`); KEDA's stand-in asks every worker
all the time, and gateways have demand, so that wrong zeros would show. A gap is the time from the end of a shard's owner (or its
last effect, where it was killed) to the begin of the next one.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import math
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import uvloop

from noctaya.api.names import SHARD_COUNT
from tests.chaos import bounds, figures, worker_deeds
from tests.chaos.bounds import Span
from tests.chaos.figures import percentile
from tests.chaos.history import Process
from tests.chaos.judging import Evidence, read
from tests.chaos.playing import play
from tests.chaos.stage import Stage, Story
from tests.chaos.worker_process import DEFAULT

STEADY_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table. `goal` is words; `unit` of `value`."""

    name: str
    value: float
    unit: str
    goal: str = ""


async def _leave(stage: Stage) -> None:
    await stage.fleet.leave(stage.fleet.any_worker())
    stage.fleet.struck()


async def _join(stage: Stage) -> None:
    await stage.fleet.join()
    stage.fleet.struck()


async def _kill(stage: Stage) -> None:
    fleet = stage.fleet
    pod = fleet.any_worker()
    lost = fleet.record.members[pod.name][0]
    await fleet.kill(pod)
    await fleet.until(
        lambda: lost not in {holder for holder, _ in fleet.record.records.values()}, 60.0, "taken over"
    )  # fmt: skip
    await fleet.bury(pod)
    fleet.struck()


async def _steady(stage: Stage) -> None:
    await asyncio.sleep(STEADY_SECONDS)


LEAVE = Story("leave", "SIGTERM a worker", _leave, 6)
JOIN = Story("join", "one worker more", _join, 15)
KILL = Story("kill", "SIGKILL a worker, nobody tells", _kill, 12)
IN_PLACE = Story("in-place", "SIGKILL, and the same pod starts again", worker_deeds.restart_in_place, 8)
STEADY = Story("steady", f"nothing for {STEADY_SECONDS:.0f} s", _steady, STEADY_SECONDS)
ROLL = Story("roll", "rolling update of all workers", worker_deeds.roll, 80)


def script(workers: int, kills: int, restarts: int, herd: int) -> list[Story]:
    """What is played, on a fleet that begins with `herd` workers."""
    down = [LEAVE] * (herd - workers)
    return [*down, STEADY, *[LEAVE, JOIN] * 3, *[KILL, JOIN] * kills, *[IN_PLACE] * restarts, ROLL]


def measured(evidence: Evidence, start_seconds: float) -> list[Figure]:
    """The table."""
    return [*_crashes(evidence), *_graceful(evidence, start_seconds), *_moves(evidence), *_writes(evidence)]


def _spans(evidence: Evidence, name: str) -> list[Span]:
    return [span for span in bounds.spans(evidence.events) if span.name == name]


def _crashes(evidence: Evidence) -> Iterator[Figure]:
    takeovers = figures.takeovers(evidence.lines, evidence.events)
    for name, is_in_place, goal in (("crash takeover", False, "p95 < 10"), ("restart in place", True, "< 3")):
        found = [one for one in takeovers if one.is_in_place is is_in_place]
        slowest = [max(one.seconds, default=math.inf) if not one.unowned else math.inf for one in found]
        whole = f"{name}, kill → its last shard is acted for, {len(found)} kills"
        for label, share in (("p50", 0.5), ("p95", 0.95), ("max", 1.0)):
            yield Figure(f"{whole}: {label}", percentile(slowest, share), "s", goal)
        each = [seconds for one in found for seconds in one.seconds]
        yield Figure(f"{name}, each of {len(each)} shards: p50", percentile(each, 0.5), "s")
    yield Figure("a worker's process: its start → its first claim, the median of all", _start(evidence), "s")


def _start(evidence: Evidence) -> float:
    """From the start of a process to the first line of its audit, at the median."""
    found = []
    for event in evidence.events:
        if isinstance(event, Process) and event.what == "start":
            mine = (
                line.at
                for line in evidence.lines
                if line.at > event.at and line.by.startswith(f"{event.pod}_")
            )
            found.append(next(mine, math.inf) - event.at)
    return percentile(found, 0.5)


def _graceful(evidence: Evidence, start_seconds: float) -> Iterator[Figure]:
    gaps = [gap for gap in figures.gaps(evidence.lines) if gap.is_graceful]
    drains = _spans(evidence, "leave")
    drained = [gap.seconds for gap in gaps if any(span.has(gap.at) for span in drains)]
    for label, share in (("p50", 0.5), ("p99", 0.99), ("max", 1.0)):
        yield Figure(
            f"gap of a drained shard, {len(drained)} shards in {len(drains)} drains: {label}",
            percentile(drained, share), "s", "p99 < 1",
        )  # fmt: skip
    everywhere = [gap.seconds for gap in gaps]
    yield Figure(
        f"gap of any shard that was handed over, {len(everywhere)}: p99",
        percentile(everywhere, 0.99),
        "s",
        "p99 < 1",
    )
    largest = max(drains, key=lambda span: sum(span.has(gap.at) for gap in gaps), default=None)
    if largest is not None:
        shards = sum(largest.has(gap.at) for gap in gaps)
        yield Figure(
            f"SIGTERM → exit of a worker that owns {shards} shards", _exit(evidence, largest), "s", "< 45"
        )
    yield Figure("all workers started at once → whole and even", start_seconds, "s")


def _exit(evidence: Evidence, span: Span) -> float:
    began = {
        e.pod: e.at
        for e in evidence.events
        if isinstance(e, Process) and e.what == "terminate" and span.has(e.at)
    }
    ended = {
        e.pod: e.at for e in evidence.events if isinstance(e, Process) and e.what == "exit" and span.has(e.at)
    }
    return max((ended[pod] - at for pod, at in began.items() if pod in ended), default=math.inf)


def _moves(evidence: Evidence) -> Iterator[Figure]:
    for name, goal in (
        ("join", "floor(128/W)"),
        ("leave", "its own"),
        ("kill", "its own"),
        ("roll", str(SHARD_COUNT)),
    ):
        moved = [
            sum(figures.moves(evidence.events, begin=span.begin, end=span.end)) for span in _spans(evidence, name)
        ]  # fmt: skip
        if moved:
            yield Figure(
                f"shards moved by a {name}, {len(moved)} times: mean", sum(moved) / len(moved), "", goal
            )
            yield Figure(f"shards moved by a {name}: max", max(moved), "", goal)


def _writes(evidence: Evidence) -> Iterator[Figure]:
    for span in _spans(evidence, "steady"):
        rates = figures.lease_writes(evidence.events, span.begin, span.end)
        leader = rates.pop("", 0.0)
        yield Figure("Lease writes of one worker, nothing moving: max", max(rates.values()), "1/s", "≤ 0.4")
        yield Figure("Lease writes of the leader's Lease, nothing moving", leader, "1/s", "≤ 0.4")


def table(found: list[Figure]) -> Iterator[str]:
    """As Markdown."""
    yield "| what | figure | goal |"
    yield "| --- | --- | --- |"
    for figure in found:
        value = (
            f"{figure.value:.0f}"
            if not figure.unit and figure.value == int(figure.value)
            else f"{figure.value:.3g}"
        )
        yield f"| {figure.name} | {value} {figure.unit}".rstrip() + f" | {figure.goal} |"


async def _run(arguments: argparse.Namespace, folder: Path) -> None:
    chosen = script(arguments.workers, arguments.kills, arguments.restarts, arguments.herd)
    await play(
        chosen, folder, workers=arguments.herd, seed=arguments.seed, tenure=DEFAULT,
        say=lambda text: print(text, file=sys.stderr, flush=True),  # noqa: T201
    )  # fmt: skip


def main() -> int:
    """Measure and print; 1 when an invariant was violated meanwhile."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--workers", type=int, default=3, help="while workers are killed and drained")
    parser.add_argument(
        "--restarts", type=int, default=10, help="kills that are followed by a restart in place"
    )
    parser.add_argument("--herd", type=int, default=10, help="workers started at once, at the begin")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--folder", type=Path, help="where lines are kept, or those of a former run with --judge"
    )
    parser.add_argument("--judge", action="store_true", help="measure nothing, read --folder")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    if arguments.herd < arguments.workers:
        parser.error("--herd begins the fleet of --workers: it cannot be smaller")
    with contextlib.ExitStack() as stack:
        folder = arguments.folder or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="leases-")))
        if not arguments.judge:
            folder.mkdir(parents=True, exist_ok=True)
            logging.basicConfig(filename=folder / "harness.log", level=logging.INFO)
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(_run(arguments, folder))
        evidence = read(folder)
    first = min(event.at for event in evidence.events if isinstance(event, Process))
    found = measured(evidence, min(span.begin for span in bounds.spans(evidence.events)) - first)
    violations = evidence.violations(stale_after=DEFAULT.stale_after)
    wrong = [violation for violation in violations if violation.rule == "I5"]
    found.append(Figure("wrong zeros told or heard", len(wrong), "", "0"))
    found.append(Figure("violations of invariants", len(violations), "", "0"))
    told = [{"what": one.name, "value": one.value, "unit": one.unit, "goal": one.goal} for one in found]
    print(json.dumps(told, indent=2) if arguments.json else "\n".join(table(found)))  # noqa: T201
    for violation in violations:
        print(violation, file=sys.stderr)  # noqa: T201
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())

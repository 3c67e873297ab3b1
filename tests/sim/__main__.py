"""`python -m tests.sim --seeds 20000 --jobs 2`: many schedules, their figures, and whatever did not hold.

A violation is shrunk to as few faults as will do and printed with its seed; `--seed X --trace` shows one schedule in full.
`--mutants` switches every safety rule off in turn and says which seeds catch it. The exit status is 1 when an invariant did
not hold, or a mutant was not caught.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence

from tests.sim.checker import Figures
from tests.sim.gate import counts_of_careless
from tests.sim.running import PARTS, run_seed, shrink
from tests.sim.sweeping import BATCH, catches, sweep
from tests.sim.tracing import trace


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.sim", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--seeds", type=int, default=1000, help="how many schedules (default: 1000)")
    parser.add_argument("--first", type=int, default=0, help="the first seed (default: 0)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--seed", type=int, help="this one schedule alone")
    parser.add_argument("--trace", action="store_true", help="with --seed: print what happened")
    parser.add_argument("--shard", type=int, help="with --trace: only what concerns this shard")
    parser.add_argument("--mutants", action="store_true", help="the mutation gate, over so many seeds")
    chosen = parser.parse_args(arguments)
    if chosen.seed is not None:
        return _one(chosen.seed, is_traced=chosen.trace, shard=chosen.shard)
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    return _gate(seeds, chosen.jobs) if chosen.mutants else _many(seeds, chosen.jobs)


def _one(seed: int, *, is_traced: bool, shard: int | None) -> int:
    outcome = run_seed(seed)
    if outcome.violation is not None:
        outcome = shrink(outcome)
    for fault in outcome.schedule.faults:
        _say(str(fault))
    if is_traced:
        for line in trace(outcome.world, shard):
            _say(line)
    _say(f"seed {seed}: {outcome.violation or 'every invariant held'}")
    return 1 if outcome.violation else 0


def _many(seeds: range, jobs: int) -> int:
    start, figures, faults, bad, done = time.monotonic(), Figures(), Counter[str](), list[int](), 0
    for count, part, kinds, failed in sweep(seeds, jobs):
        done += count
        figures.add(part)
        faults.update(kinds)
        for seed in failed:
            bad.append(seed)
            _report(seed)
        if done % (BATCH * 8) < BATCH:
            pace = 60 * done / (time.monotonic() - start)
            _say(f"{done} of {len(seeds)} schedules, {len(bad)} with a violation, {pace:.0f} a minute")
    _summary(seeds, figures, faults, bad, time.monotonic() - start)
    return 1 if bad else 0


def _report(seed: int) -> None:
    outcome = shrink(run_seed(seed))
    _say(f"seed {seed}: {outcome.violation}; it takes no more than")
    for fault in outcome.schedule.faults:
        _say(f"    {fault}")


def _summary(seeds: range, figures: Figures, faults: Counter[str], bad: list[int], seconds: float) -> None:
    rows = {
        "schedules": f"{len(seeds)} (seeds {seeds.start} to {seeds.stop - 1}, {PARTS} shards), {60 * len(seeds) / seconds:.0f} a minute",
        "violations": f"{len(bad)} {bad[:20] if bad else ''}",
        "faults injected": f"{faults.total()}: "
        + ", ".join(f"{kind} {count}" for kind, count in faults.most_common()),
        "effects guarded": f"{figures.effects} (and {figures.stale_refused} late ones refused by their epoch)",
        "answers to KEDA": ", ".join(
            f"{answer} {count}" for answer, count in sorted(figures.answers.items())
        ),
        "crash takeover": _percentiles(figures.takeovers),
        "graceful gap": _percentiles(figures.gaps),
        "moves": str(figures.moves),
        "fences": str(figures.fences),
        "steps": str(figures.steps),
    }
    width = max(map(len, rows))
    for name, value in rows.items():
        _say(f"{name:<{width}}  {value}")


def _percentiles(values: list[float]) -> str:
    if not values:
        return "none"
    ordered = sorted(values)
    shown = {"p50": 0.5, "p95": 0.95, "max": 1.0}
    found = ", ".join(
        f"{name} {ordered[int(share * (len(ordered) - 1))]:.2f} s" for name, share in shown.items()
    )
    return f"{found} of {len(ordered)}"


def _gate(seeds: range, jobs: int) -> int:
    missed = 0
    for found in catches(seeds, jobs):
        missed += not found.is_caught
        _say(str(found))
    sound, careless = counts_of_careless(seeds[: min(len(seeds), 100)])
    _say(f"{'observation clocks not restarted':<32}  {careless} fences instead of {sound}")
    missed += careless <= sound
    _say(f"{missed} mutants were not caught" if missed else "every mutant was caught")
    return 1 if missed else 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())

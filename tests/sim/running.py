"""One schedule from its first second to its last, and what came of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tests.sim.checker import Figures, Violation
from tests.sim.few_shards import few_shards
from tests.sim.rules import Rules
from tests.sim.schedule import Schedule, schedule_of
from tests.sim.world import World

PARTS = 8


@dataclass
class Outcome:
    """Of one schedule."""

    schedule: Schedule
    violation: Violation | None
    figures: Figures
    world: World


def run(schedule: Schedule, rules: Rules | None = None) -> Outcome:
    """Let `schedule` happen. Every invariant is held after every step, and I6 at the end."""
    with few_shards(schedule.parts):
        world = World(schedule.seed, schedule.parts, rules or Rules())
        violation = None
        try:
            schedule.begin(world)
            world.clockwork.run(schedule.until)
            world.checker.now = schedule.until
            world.settle()
        except Violation as found:
            violation = found
        figures = world.checker.figures
        figures.steps, figures.lease_writes = world.clockwork.steps, world.api.lease_writes
        return Outcome(schedule, violation, figures, world)


def run_seed(seed: int, rules: Rules | None = None, *, parts: int = PARTS) -> Outcome:
    """The schedule of `seed`."""
    return run(schedule_of(seed, parts=parts), rules)


def shrink(outcome: Outcome, rules: Rules | None = None) -> Outcome:
    """The same violation of the same rule with as few faults as will do."""
    best = outcome
    assert outcome.violation is not None
    rule = outcome.violation.rule
    index = 0
    while index < len(best.schedule.faults):
        faults = best.schedule.faults
        shorter = run(replace(best.schedule, faults=faults[:index] + faults[index + 1 :]), rules)
        if shorter.violation is not None and shorter.violation.rule == rule:
            best = shorter
        else:
            index += 1
    return best


def violations(seeds: Iterable[int], rules: Rules | None = None) -> list[Outcome]:
    """The outcomes among `seeds` in which something does not hold."""
    return [outcome for seed in seeds if (outcome := run_seed(seed, rules)).violation is not None]

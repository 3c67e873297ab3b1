"""The mutation gate: with a safety rule switched off, the simulator finds harm. `python -m tests.sim --mutants` is the full one."""

from __future__ import annotations

import pytest

from tests.sim import directed
from tests.sim.gate import STORY_SEEDS, in_story
from tests.sim.mutants import CARELESS, MUTANTS, Mutant
from tests.sim.rules import Rules
from tests.sim.running import PARTS, run, run_seed, shrink

TRIED = 60
"""Random schedules at most; most mutants need a few."""


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_rule_that_is_switched_off_is_missed(mutant: Mutant) -> None:
    if mutant.story is not None:
        assert in_story(mutant)
    else:
        assert any(run_seed(seed, mutant.rules).violation for seed in range(TRIED))


def test_clocks_that_run_on_through_an_outage_fence_the_living() -> None:
    """Safe, for the fence is a compare-and-swap; but a fleet should come through an outage as it was (F7)."""
    for rules, expected in ((Rules(), False), (CARELESS.rules, True)):
        outcomes = [directed.play(rules, directed.api_outage, seed=seed) for seed in STORY_SEEDS]
        assert [outcome.violation for outcome in outcomes] == [None] * len(outcomes)
        assert any(outcome.world.checker.figures.fences for outcome in outcomes) is expected


def test_a_violation_is_shrunk_to_the_faults_that_it_takes() -> None:
    rules = next(mutant.rules for mutant in MUTANTS if mutant.name == "acquire without proof")
    outcome = next(found for seed in range(TRIED) if (found := run_seed(seed, rules)).violation is not None)
    shrunk = shrink(outcome, rules)
    assert len(shrunk.schedule.faults) <= len(outcome.schedule.faults)
    again = run(shrunk.schedule, rules)
    assert shrunk.violation is not None
    assert str(again.violation) == str(shrunk.violation)
    assert shrunk.schedule.parts == PARTS

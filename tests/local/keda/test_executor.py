"""Table 4.4 of keda.md, row by row, and what holds in every row."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noctaya.local.keda import conditions
from noctaya.local.keda.executor import Decision, Situation, decide

NOW = 10_000.0
AWAKE = Situation(active=False, error=False, current=3, last_active_at=NOW - 301)


def test_paused_does_nothing() -> None:
    assert decide(replace(AWAKE, is_paused=True, active=True, current=0), NOW) == Decision("paused")


@pytest.mark.parametrize(
    ("minimum", "idle", "current", "wanted"),
    [(0, None, 0, 1), (3, None, 0, 3), (3, 1, 1, 3), (3, 0, 2, 3)],
)
def test_e1_a1_active_at_zero_or_below_the_minimum_with_idle_scales_up(
    minimum: int, idle: int | None, current: int, wanted: int
) -> None:
    decision = decide(Situation(active=True, error=False, current=current, minimum=minimum, idle=idle), NOW)
    assert (decision.row, decision.replicas) == ("A1", wanted)
    assert decision.on_success.marks_active
    assert not decision.on_failure.marks_active
    assert decision.on_failure.event is not None
    assert decision.on_failure.event.type == "Warning"


def test_e1_a1_comes_before_the_partial_error_and_does_not_claim_to_be_ready() -> None:
    decision = decide(Situation(active=True, error=True, current=0), NOW)
    assert (decision.row, decision.replicas) == ("A1", 1)
    assert conditions.READY not in {change.type for change in decision.on_success.conditions}


def test_e2_a2_a_partial_error_leaves_replicas_and_last_active_time() -> None:
    decision = decide(Situation(active=True, error=True, current=2), NOW)
    assert (decision.row, decision.replicas, decision.on_success.marks_active) == ("A2", None, False)
    assert conditions.READY_PARTIAL in decision.on_success.conditions


@pytest.mark.parametrize("current", [1, 2, 9])
def test_e3_a3_active_above_zero_only_marks_active_even_below_the_minimum(current: int) -> None:
    decision = decide(Situation(active=True, error=False, current=current, minimum=5), NOW)
    assert (decision.row, decision.replicas, decision.on_success.marks_active) == ("A3", None, True)


def test_e5_i2_an_error_without_activity_leaves_replicas_alone() -> None:
    decision = decide(replace(AWAKE, error=True), NOW)
    assert (decision.row, decision.replicas) == ("I2", None)
    assert conditions.READY_TRIGGER_ERROR in decision.on_success.conditions


def test_e6_i3_goes_to_zero_in_one_step_when_the_cooldown_is_strictly_over() -> None:
    assert decide(AWAKE, NOW).replicas == 0
    waits = decide(replace(AWAKE, last_active_at=NOW - 300), NOW)
    assert (waits.row, waits.replicas) == ("I3", None)
    assert conditions.ACTIVE_COOLDOWN in waits.on_success.conditions


def test_e6_i3_goes_to_idle_when_that_is_set() -> None:
    decision = decide(replace(AWAKE, current=5, minimum=4, idle=2), NOW)
    assert (decision.row, decision.replicas) == ("I3", 2)


def test_e6_i3_the_initial_cooldown_counts_from_creation_while_nothing_was_ever_active() -> None:
    young = replace(AWAKE, last_active_at=None, created_at=NOW - 10, initial_cooldown_seconds=10)
    assert decide(young, NOW).replicas is None
    assert decide(young, NOW + 1).replicas == 0
    assert decide(replace(young, initial_cooldown_seconds=0), NOW).replicas == 0


def test_e7_i4_below_the_minimum_without_idle_the_minimum_comes_at_once() -> None:
    decision = decide(Situation(active=False, error=False, current=1, minimum=2), NOW)
    assert (decision.row, decision.replicas) == ("I4", 2)


@pytest.mark.parametrize(("current", "minimum", "idle"), [(0, 0, None), (2, 2, None), (0, 2, 0)])
def test_e8_i5_everything_else_is_left_alone(current: int, minimum: int, idle: int | None) -> None:
    decision = decide(replace(AWAKE, current=current, minimum=minimum, idle=idle), NOW)
    assert (decision.row, decision.replicas) == ("I5", None)


def test_e13_the_finer_annotations_block_one_direction_and_force_activity() -> None:
    assert decide(replace(AWAKE, blocks_scale_in=True), NOW).replicas is None
    blocked = decide(replace(AWAKE, active=True, current=0, blocks_scale_out=True), NOW)
    assert (blocked.row, blocked.replicas, blocked.on_success.marks_active) == ("A1", None, False)
    assert decide(replace(AWAKE, current=0, forces_activation=True), NOW).replicas == 1


situations = st.builds(
    Situation,
    active=st.booleans(),
    error=st.booleans(),
    current=st.integers(0, 8),
    minimum=st.integers(0, 4),
    idle=st.none() | st.integers(0, 3),
    created_at=st.floats(0, 2 * NOW),
    last_active_at=st.none() | st.floats(0, 2 * NOW),
    cooldown_seconds=st.floats(0, 1000),
    initial_cooldown_seconds=st.floats(0, 1000),
    active_status=st.sampled_from(["True", "False", "Unknown"]),
    is_paused=st.booleans(),
    blocks_scale_in=st.booleans(),
    blocks_scale_out=st.booleans(),
    forces_activation=st.booleans(),
)


@given(situations)
def test_replicas_go_down_only_without_activity_and_without_an_error(situation: Situation) -> None:
    decision = decide(situation, NOW)
    goes_down = decision.replicas is not None and decision.replicas < situation.current
    innocent = not (situation.active or situation.error or situation.forces_activation or situation.is_paused)
    assert innocent or not goes_down
    assert not (situation.blocks_scale_in and goes_down)


@given(situations)
def test_every_row_but_paused_settles_the_active_condition(situation: Situation) -> None:
    decision = decide(situation, NOW)
    if decision.row == "paused":
        assert decision.on_success.conditions == ()
        return
    is_active = situation.active or situation.forces_activation
    for outcome in (
        (decision.on_success, decision.on_failure)
        if decision.replicas is not None
        else (decision.on_success,)
    ):
        after = {change.type: change.status for change in outcome.conditions}.get(
            "Active", situation.active_status
        )
        assert after == ("True" if is_active else "False")

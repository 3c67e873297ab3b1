"""What KEDA is told: never a zero that is not certain, never less than before while the API server is out of reach."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noctaya.workers.demand import AtLeast, Demand, Known, Unknown
from noctaya.workers.metric import Answers, InvalidMetadata, Silence, held_value, target_of
from noctaya.workers.permission import Permission

KEY = "ai/qwen"
demands: st.SearchStrategy[Demand] = st.one_of(
    st.integers(0, 5).map(Known), st.integers(0, 5).map(AtLeast), st.integers(0, 5).map(Unknown)
)


@pytest.mark.parametrize(
    ("demand", "permission", "expected"),
    [
        (Known(0), Permission.ACT, 0),
        (Known(3), Permission.ACT, 3),
        (AtLeast(3), Permission.ACT, 3),
        (AtLeast(0), Permission.ACT, None),
        (Unknown(3), Permission.ACT, None),
        (Known(3), Permission.GROW, 3),
        (Known(0), Permission.GROW, None),
        (Known(3), Permission.NONE, None),
    ],
)
def test_a_value_is_told_only_when_it_is_certain_enough(
    demand: Demand, permission: Permission, expected: int | None
) -> None:
    answer = Answers().value(KEY, demand, permission)
    assert isinstance(answer, Silence) if expected is None else answer == expected


def test_out_of_reach_of_the_api_server_a_value_does_not_fall() -> None:
    answers = Answers()
    assert answers.value(KEY, Known(5), Permission.ACT) == 5
    assert isinstance(answers.value(KEY, Known(4), Permission.GROW), Silence)
    assert answers.value(KEY, Known(6), Permission.GROW) == 6
    assert answers.value(KEY, Known(5), Permission.GROW) == 5
    answers.forget(KEY)
    assert answers.value(KEY, Known(4), Permission.GROW) == 4


def test_one_gateways_word_is_enough_for_active_but_not_for_how_much() -> None:
    answers = Answers()
    assert answers.is_active(KEY, Unknown(2), Permission.ACT) is True
    assert isinstance(answers.value(KEY, Unknown(2), Permission.ACT), Silence)
    assert isinstance(answers.is_active(KEY, Unknown(0), Permission.ACT), Silence)
    assert isinstance(answers.is_active(KEY, Known(2), Permission.NONE), Silence)


@pytest.mark.parametrize("demand", [Unknown(), AtLeast(0)])
@pytest.mark.parametrize("permission", [Permission.ACT, Permission.GROW])
def test_an_owner_that_does_not_know_holds_the_replicas_that_are_there(
    demand: Demand, permission: Permission
) -> None:
    """Errors for longer than a cooldown let KEDA 2.20 put a busy model to sleep (keda.md 4.5)."""
    answers, held = Answers(), held_value(2, 10)
    assert answers.value(KEY, demand, permission, held) == 20
    assert answers.is_active(KEY, demand, permission, held) is True
    assert isinstance(answers.value(KEY, demand, permission, held_value(0, 10)), Silence)
    assert isinstance(answers.is_active(KEY, demand, permission, held_value(0, 10)), Silence)


def test_what_is_known_is_told_whatever_replicas_there_are() -> None:
    answers = Answers()
    assert answers.value(KEY, Known(0), Permission.ACT, held_value(3, 10)) == 0
    assert answers.is_active(KEY, Known(0), Permission.ACT, held_value(3, 10)) is False
    assert answers.value(KEY, Unknown(35), Permission.ACT, held_value(3, 10)) == 35


def test_a_worker_that_owns_nothing_holds_nothing() -> None:
    assert isinstance(Answers().value(KEY, Unknown(), Permission.NONE, held_value(3, 10)), Silence)


@given(st.integers(1, 50), st.integers(1, 100))
def test_the_value_that_holds_makes_an_hpa_want_the_same_number(replicas: int, target: int) -> None:
    assert held_value(replicas, float(target)) / target == replicas


@given(st.lists(st.tuples(demands, st.sampled_from(Permission), st.integers(0, 5))))
def test_inactive_is_told_only_for_a_known_zero_by_an_owner(
    story: list[tuple[Demand, Permission, int]],
) -> None:
    answers, valid = Answers(), 0
    for demand, permission, held in story:
        active = answers.is_active(KEY, demand, permission, held)
        value = answers.value(KEY, demand, permission, held)
        if active is False or value == 0:
            assert (demand, permission) == (Known(0), Permission.ACT)
        if permission is Permission.GROW and not isinstance(value, Silence):
            assert value >= valid
        if permission is Permission.ACT and not isinstance(value, Silence):
            valid = value


@pytest.mark.parametrize("value", ["", "0", "-1", "nan", "inf", "ten"])
def test_a_target_that_is_no_number_above_zero_is_refused(value: str) -> None:
    with pytest.raises(InvalidMetadata, match="targetValue"):
        target_of({"targetValue": value})


def test_another_metric_is_refused_and_ours_may_be_left_out() -> None:
    with pytest.raises(InvalidMetadata, match="metricName"):
        target_of({"metricName": "cpu", "targetValue": "1"})
    assert target_of({"targetValue": "2.5"}) == 2.5
    assert target_of({"metricName": "pending", "targetValue": "10", "scalerAddress": "x"}) == 10.0

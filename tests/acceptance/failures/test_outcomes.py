"""The claims themselves can fail: each is shown a record that breaks it."""

import pytest

from tests.acceptance.failures.outcomes import (
    DECISION_SECONDS,
    Ending,
    Request,
    Zero,
    lost,
    unreached,
    wrong_zeros,
)


def request(
    began: float, ended: float | None, ending: Ending = Ending.ANSWERED, model: str = "ns/a"
) -> Request:
    return Request(model=model, via="fleet", is_stream=True, began=began, ended=ended, ending=ending)


@pytest.mark.parametrize("ending", [Ending.REFUSED, Ending.BROKEN])
def test_a_request_that_was_taken_and_not_answered_is_lost(ending: Ending) -> None:
    bad = request(0, 1, ending)
    assert lost([request(0, 1), bad]) == [bad]
    assert lost([bad], excused=lambda candidate: candidate is bad) == []


@pytest.mark.parametrize("ending", [Ending.ANSWERED, Ending.UNREACHED, Ending.OPEN])
def test_what_was_answered_or_never_taken_or_goes_on_is_not_lost(ending: Ending) -> None:
    assert lost([request(0, 1, ending)]) == []


def test_a_request_without_a_connection_is_unreached() -> None:
    bad = request(0, 1, Ending.UNREACHED)
    assert unreached([request(0, 1), bad]) == [bad]


def test_a_zero_under_a_request_is_wrong() -> None:
    zero, inside = Zero("ns/a", 10, 11), request(1, 20)
    assert wrong_zeros([inside, request(1, 20, model="ns/b")], [zero]) == [(zero, inside)]
    assert wrong_zeros([request(1, None, Ending.OPEN)], [zero])


def test_a_zero_beside_a_request_is_right() -> None:
    zero = Zero("ns/a", 10, 11)
    before, after = request(1, 10.5), request(11, 20)
    in_the_very_moment = request(10 - DECISION_SECONDS / 2, 20)
    assert wrong_zeros([before, after, in_the_very_moment], [zero]) == []


def test_a_request_that_nobody_took_makes_no_zero_wrong() -> None:
    assert wrong_zeros([request(1, 20, Ending.UNREACHED)], [Zero("ns/a", 10, 11)]) == []

"""A poll between two requests is not the end of use."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noctaya.workers.recency import HOLD, LONGEST_HOLD_SECONDS, Recency, hold_of


def test_a_service_is_in_recent_use_until_its_hold_is_over() -> None:
    recency = Recency()
    assert not recency.is_recent("ai/qwen", 10.0, 5.0)
    recency.ended("ai/qwen", 10.0)
    assert recency.is_recent("ai/qwen", 14.9, 5.0)
    assert not recency.is_recent("ai/qwen", 15.0, 5.0)


def test_without_a_hold_nothing_is_recent() -> None:
    recency = Recency()
    recency.ended("ai/qwen", 10.0)
    assert not recency.is_recent("ai/qwen", 10.0, hold_of({}))


@pytest.mark.parametrize("text", ["", "soon", "nan", "inf", "-1"])
def test_a_nonsensical_hold_is_none(text: str) -> None:
    assert hold_of({HOLD: text}) == 0.0


def test_a_hold_is_bounded() -> None:
    assert hold_of({HOLD: "1e9"}) == LONGEST_HOLD_SECONDS


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.floats(0, 200)), max_size=60))
def test_ends_of_use_older_than_any_hold_are_forgotten(ends: list[tuple[str, float]]) -> None:
    recency, now = Recency(), 0.0
    last: dict[str, float] = {}
    for key, later in ends:
        now += later
        recency.ended(key, now)
        last[key] = now
    assert len(recency) == sum(now - at <= LONGEST_HOLD_SECONDS for at in last.values())

"""The autoscaler's arithmetic of keda.md section 4.3, with numbers worked out by hand, and what holds for all numbers."""

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noctaya.local.keda.hpa import Autoscaler, Bounds, Metric, Replicas, wish


def average(total: int | None, target: int = 2000) -> Metric:
    return Metric("s0-pending", "AverageValue", target, total)


def all_ready(count: int) -> Replicas:
    return Replicas(count, count, count)


@pytest.mark.parametrize(
    ("total", "status", "wanted"),
    [
        (2200, 1, 1),  # 1.1 of the target: within the tolerance
        (2201, 1, 2),
        (5400, 3, 3),  # 0.9
        (5300, 3, 3),  # 0.88, and 2.65 replicas are 3
        (3900, 3, 2),
        (0, 3, 0),
        (0, 0, 0),
        (4000, 0, 2),
    ],
)
def test_an_average_value_is_compared_with_the_existing_replicas(
    total: int, status: int, wanted: int
) -> None:
    assert wish(average(total), Replicas(status, status, status)) == wanted


def test_a_value_scales_the_ready_replicas_by_the_ratio() -> None:
    metric = Metric("s0-pending", "Value", 2000, 5000)
    assert wish(metric, Replicas(3, 3, 2)) == 5
    assert wish(Metric("s0-pending", "Value", 2000, 2100), Replicas(3, 3, 2)) == 3


def test_without_behavior_one_sync_at_most_doubles_or_reaches_four() -> None:
    bounds = Bounds(1, 100)
    assert Autoscaler().recommend(bounds, all_ready(1), [average(100_000)], 0.0).replicas == 4
    assert Autoscaler().recommend(bounds, all_ready(5), [average(100_000)], 0.0).replicas == 10
    assert Autoscaler().recommend(bounds, all_ready(5), [average(100_000)], 0.0).limited_by == "ScaleUpLimit"


def test_without_behavior_scaling_down_waits_for_the_highest_recommendation_of_five_minutes() -> None:
    autoscaler = Autoscaler()
    bounds = Bounds(1, 100)
    assert autoscaler.recommend(bounds, all_ready(4), [average(8000)], 0.0).replicas == 4
    assert autoscaler.recommend(bounds, all_ready(4), [average(2000)], 15.0).replicas == 4
    assert autoscaler.recommend(bounds, all_ready(4), [average(2000)], 299.0).replicas == 4
    assert autoscaler.recommend(bounds, all_ready(4), [average(2000)], 301.0).replicas == 1


def test_it_steps_down_to_the_minimum_only() -> None:
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 0}}
    found = Autoscaler().recommend(Bounds(2, 10, behavior), all_ready(5), [average(0)], 0.0)
    assert (found.replicas, found.limited_by) == (2, "TooFewReplicas")


@pytest.mark.parametrize(
    ("direction", "rules", "current", "total", "wanted"),
    [
        ("scaleUp", {"policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}]}, 5, 100_000, 7),
        ("scaleUp", {"policies": [{"type": "Percent", "value": 50, "periodSeconds": 60}]}, 5, 100_000, 8),
        ("scaleUp", {}, 2, 100_000, 6),
        ("scaleUp", {}, 10, 100_000, 20),
        ("scaleUp", {"selectPolicy": "Min"}, 10, 100_000, 14),
        ("scaleUp", {"selectPolicy": "Disabled"}, 5, 100_000, 5),
        ("scaleDown", {"policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}]}, 5, 2000, 3),
        ("scaleDown", {"policies": [{"type": "Percent", "value": 50, "periodSeconds": 60}]}, 5, 2000, 2),
        ("scaleDown", {}, 5, 2000, 1),
        ("scaleDown", {"selectPolicy": "Disabled"}, 5, 2000, 5),
    ],
)
def test_behavior_limits_the_rate(
    direction: str, rules: dict[str, Any], current: int, total: int, wanted: int
) -> None:
    behavior = {direction: {"stabilizationWindowSeconds": 0, **rules}}
    assert (
        Autoscaler().recommend(Bounds(1, 50, behavior), all_ready(current), [average(total)], 0.0).replicas
        == wanted
    )


def test_replicas_added_within_the_period_count_against_the_policy() -> None:
    behavior = {"scaleUp": {"policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}]}}
    bounds, autoscaler = Bounds(1, 50, behavior), Autoscaler()
    assert autoscaler.recommend(bounds, all_ready(5), [average(100_000)], 0.0).replicas == 7
    autoscaler.scaled(5, 7, 0.0)
    assert autoscaler.recommend(bounds, all_ready(7), [average(100_000)], 15.0).replicas == 7
    assert autoscaler.recommend(bounds, all_ready(7), [average(100_000)], 61.0).replicas == 9


def test_a_scale_up_window_takes_the_lowest_recommendation() -> None:
    behavior = {"scaleUp": {"stabilizationWindowSeconds": 60}}
    bounds, autoscaler = Bounds(1, 50, behavior), Autoscaler()
    assert autoscaler.recommend(bounds, all_ready(2), [average(4000)], 0.0).replicas == 2
    assert autoscaler.recommend(bounds, all_ready(2), [average(8000)], 15.0).replicas == 2
    assert autoscaler.recommend(bounds, all_ready(2), [average(8000)], 61.0).replicas == 4


def test_outside_its_bounds_it_returns_without_asking_metrics() -> None:
    assert Autoscaler().recommend(Bounds(1, 3), all_ready(5), [], 0.0).replicas == 3
    assert Autoscaler().recommend(Bounds(2, 3), all_ready(1), [], 0.0).replicas == 2


def test_the_highest_metric_wins_and_an_unknown_one_forbids_only_scaling_down() -> None:
    bounds = Bounds(1, 10)
    up = Autoscaler().recommend(bounds, all_ready(2), [average(6000), average(None), average(8000)], 0.0)
    assert (up.replicas, up.scaling_active) == (4, True)
    down = Autoscaler().recommend(bounds, all_ready(2), [average(2000), average(None)], 0.0)
    assert (down.replicas, down.scaling_active, down.reason) == (2, False, "FailedGetExternalMetric")
    none = Autoscaler().recommend(bounds, all_ready(2), [average(None)], 0.0)
    assert (none.replicas, none.scaling_active) == (2, False)


rules = st.fixed_dictionaries(
    {},
    optional={
        "stabilizationWindowSeconds": st.integers(0, 600),
        "selectPolicy": st.sampled_from(["Max", "Min", "Disabled"]),
        "policies": st.lists(
            st.fixed_dictionaries(
                {
                    "type": st.sampled_from(["Pods", "Percent"]),
                    "value": st.integers(1, 200),
                    "periodSeconds": st.integers(1, 120),
                }
            ),
            min_size=1,
            max_size=3,
        ),
    },
)
behaviors = st.none() | st.fixed_dictionaries({}, optional={"scaleUp": rules, "scaleDown": rules})


@given(
    behaviors,
    st.integers(1, 5),
    st.integers(5, 20),
    st.lists(st.none() | st.integers(0, 200_000), min_size=1),
)
def test_it_never_leaves_its_bounds_and_never_shrinks_on_an_unknown_metric(
    behavior: dict[str, Any] | None, minimum: int, maximum: int, totals: list[int | None]
) -> None:
    bounds, autoscaler, current = Bounds(minimum, maximum, behavior), Autoscaler(), minimum
    for step, total in enumerate(totals):
        found = autoscaler.recommend(bounds, all_ready(current), [average(total)], step * 15.0)
        assert minimum <= found.replicas <= maximum
        assert total is not None or found.replicas >= current
        autoscaler.scaled(current, found.replicas, step * 15.0)
        current = found.replicas


@given(st.integers(0, 10**6), st.integers(1, 10**5), st.integers(0, 100))
def test_a_wish_is_the_rounded_up_quotient_or_the_count_that_is_within_the_tolerance(
    total: int, target: int, status: int
) -> None:
    wanted = wish(average(total, target), all_ready(status))
    if wanted != math.ceil(total / target):
        assert wanted == status
        assert 0.9 <= total / (target * status) <= 1.1

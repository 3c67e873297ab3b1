"""Rollout arithmetic: the bounds hold in every step of every rollout."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from noctaya.local.controllers.rollout import SetState, Strategy, next_sizes, read_strategy, surplus_history

ROLLING = Strategy(surge=1, unavailable=0)


def state(name: str, wanted: int, available: int | None = None, created: str = "1") -> SetState:
    ready = wanted if available is None else available
    return SetState(name, wanted, pods=wanted, ready=ready, available=ready, created=created)


def test_percentages_round_so_that_a_rollout_can_move() -> None:
    assert read_strategy({}, 1) == Strategy(surge=1, unavailable=0)
    assert read_strategy({}, 10) == Strategy(surge=3, unavailable=2)
    strategy = {"strategy": {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "10%"}}}
    assert read_strategy(strategy, 4) == Strategy(surge=0, unavailable=1)
    assert read_strategy({"strategy": {"type": "Recreate"}}, 3).is_recreate


def test_scaling_from_and_to_zero_is_one_step() -> None:
    assert next_sizes(1, ROLLING, state("new", 0), [], old_pods_left=False) == {"new": 1}
    assert next_sizes(0, ROLLING, state("new", 1), [], old_pods_left=False) == {"new": 0}
    assert next_sizes(0, ROLLING, state("new", 0), [state("old", 1, 0)], old_pods_left=True) == {"old": 0}


def test_an_old_pod_stays_until_its_successor_is_available() -> None:
    old = [state("old", 1)]
    assert next_sizes(1, ROLLING, state("new", 0), old, old_pods_left=True) == {"new": 1}
    assert next_sizes(1, ROLLING, state("new", 1, 0), old, old_pods_left=True) == {}
    assert next_sizes(1, ROLLING, state("new", 1), old, old_pods_left=True) == {"old": 0}


def test_a_broken_old_pod_goes_first() -> None:
    old = [state("older", 1, created="1"), state("newer", 1, 0, created="2")]
    sizes = next_sizes(2, Strategy(surge=1, unavailable=1), state("new", 1, 1), old, old_pods_left=True)
    assert sizes["newer"] == 0


def test_recreate_waits_for_the_last_old_pod() -> None:
    strategy = Strategy(is_recreate=True, surge=0)
    assert next_sizes(2, strategy, state("new", 0), [state("old", 2)], old_pods_left=True) == {"old": 0}
    gone = [state("old", 0)]
    assert next_sizes(2, strategy, state("new", 0), gone, old_pods_left=True) == {}
    assert next_sizes(2, strategy, state("new", 0), gone, old_pods_left=False) == {"new": 2}


def test_history_keeps_the_newest_revisions() -> None:
    old = [replace(state(f"r{n}", 0), revision=n) for n in (3, 1, 2)]
    assert surplus_history(old, 1) == ["r1", "r2"]
    assert surplus_history([*old, state("busy", 1)], 10) == []


@given(
    replicas=st.integers(0, 8),
    surge=st.integers(0, 3),
    unavailable=st.integers(0, 3),
    old_sizes=st.lists(st.integers(0, 4), max_size=3),
    chances=st.lists(st.integers(0, 3), min_size=60, max_size=60),
)
def test_every_rollout_ends_and_keeps_its_bounds(
    replicas: int, surge: int, unavailable: int, old_sizes: list[int], chances: list[int]
) -> None:
    """Pods become available one by one at random; surge and availability bounds hold at every step."""
    if surge == 0 and unavailable == 0:
        unavailable = 1
    strategy = Strategy(surge=surge, unavailable=unavailable)
    old = [state(f"old{n}", size, created=str(n)) for n, size in enumerate(old_sizes)]
    new = state("new", 0)
    start_total = sum(old_sizes)
    for chance in [*chances, *([3] * 60)]:
        sizes = next_sizes(replicas, strategy, new, old, old_pods_left=any(item.pods for item in old))
        floor = min(new.available + sum(item.available for item in old), replicas - unavailable)
        before = {item.name: item for item in [*old, new]}
        for name, size in sizes.items():
            item = before[name]
            before[name] = replace(
                item, wanted=size, pods=size, ready=min(item.ready, size), available=min(item.available, size)
            )
        new, old = before["new"], [before[item.name] for item in old]
        total = new.wanted + sum(item.wanted for item in old)
        assert total <= max(start_total, replicas + surge)
        assert new.available + sum(item.available for item in old) >= floor
        if new.available < new.wanted and chance:
            new = replace(new, ready=new.available + 1, available=new.available + 1)
    assert (new.wanted, sum(item.wanted for item in old)) == (replicas, 0)

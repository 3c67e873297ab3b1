"""The planner with a fleet around it, in virtual time: how long takeovers take, and how many shards move for what."""

from __future__ import annotations

from itertools import pairwise

import pytest

from noctaya.api.names import SHARD_COUNT
from noctaya.leader.member_record import MemberState
from noctaya.leader.planner_events import (
    BecameLeader,
    LostLeadership,
    MapGone,
    RolloutSeen,
    ShardSeen,
    ShardView,
)
from tests.leader.fleet_world import FleetWorld, started


def generation(world: FleetWorld) -> int:
    assert world.map is not None
    return world.map.generation


def roll_out(world: FleetWorld, old: list[str], *, seconds: float = 8.0) -> None:
    """`maxSurge 1, maxUnavailable 0`: a new one becomes ready, an old one drains and leaves, and so on."""
    for index, pod in enumerate(old):
        new = f"n{index}"
        world.joining(new, version="2")
        world.run(2.0)
        world.workers[new].state = MemberState.READY
        world.run(seconds)
        world.drain(pod)
        world.until(lambda pod=pod: world.is_settled() and pod not in world.counts())  # type: ignore[misc]
        world.leave(pod)


def test_a_crash_is_over_within_the_lease_and_moves_what_was_lost() -> None:
    world = started(10)
    before, lost = generation(world), world.counts()["w4"]
    world.crash("w4")
    assert world.until(world.is_settled) < 10.0
    assert world.moved_since(before) == lost
    assert [pod for _, pod in world.fenced] == ["w4"]
    del world.workers["w4"]
    world.run(60.0)
    assert world.moved_since(before) == lost
    assert world.is_level()


def test_from_three_to_ten_and_back_moves_what_balance_needs() -> None:
    world = started(3)
    before = generation(world)
    world.join(*(f"w{index}" for index in range(3, 10)))
    assert world.until(world.is_level) < 15.0
    needed = sum(held for pod, held in world.counts().items() if pod not in ("w0", "w1", "w2"))
    assert world.moved_since(before) == needed
    before = generation(world)
    leaving = [f"w{index}" for index in range(3, 10)]
    for pod in leaving:
        world.drain(pod)
    stay = {"w0", "w1", "w2"}
    assert world.until(lambda: world.is_settled() and set(world.counts()) == stay) < 5.0
    for pod in leaving:
        world.leave(pod)
    assert world.moved_since(before) == needed
    assert world.is_level()


@pytest.mark.parametrize("is_told", [True, False], ids=["told of the Deployment", "guessing"])
def test_a_rolling_update_of_ten_moves_each_shard_once(*, is_told: bool) -> None:
    world = started(10)
    old = sorted(world.workers)
    before = generation(world)
    if is_told:
        world.feed(RolloutSeen(is_running=True, newest="2"))
    roll_out(world, old)
    if is_told:
        world.feed(RolloutSeen(is_running=False))
    world.run(60.0)
    assert world.moved_since(before) == SHARD_COUNT
    assert set(world.moves.values()) == {1}
    assert world.is_level()


def test_a_rollback_half_way_goes_to_the_pods_that_stay() -> None:
    world = started(4)
    roll_out(world, ["w0", "w1"])
    world.join("b0", version="1")
    world.run(8.0)
    world.drain("n0")
    world.until(lambda: world.is_settled() and "n0" not in world.counts())
    assert world.counts()["b0"] == SHARD_COUNT // 4


def test_rounds_are_small_and_one_follows_the_other() -> None:
    world = started(3)
    first = len(world.written)
    world.join(*(f"w{index}" for index in range(3, 10)))
    world.until(world.is_level)
    maps = [map_ for _, map_ in world.written[first - 1 :]]
    for old, new in pairwise(maps):
        moved = [old.desired[s] for s in range(SHARD_COUNT) if old.desired[s] != new.desired[s]]
        assert len(moved) <= 8
        assert max((moved.count(pod) for pod in set(moved)), default=0) <= 2


def test_a_worker_with_everything_is_emptied_sixteen_at_a_time() -> None:
    world = started(1)
    world.join("w1", "w2")
    world.drain("w0")
    first = len(world.written)
    assert world.until(lambda: world.is_settled() and "w0" not in world.counts()) < 20.0
    maps = [map_ for _, map_ in world.written[first - 1 :]]
    for old, new in pairwise(maps):
        assert sum(a != b for a, b in zip(old.desired, new.desired, strict=True)) <= 16


@pytest.mark.parametrize("after", [0, 1, 7, 14])
def test_a_new_leader_goes_on_from_wherever_the_old_one_stopped(after: int) -> None:
    """F12: the end is the same from every prefix of a rebalance, and no shard moves for the change of leader."""
    world = started(3)
    start, before = len(world.written), generation(world)
    world.join(*(f"w{index}" for index in range(3, 10)))
    world.until(lambda: len(world.written) >= start + after)
    world.lead()
    world.until(world.is_level)
    needed = sum(held for pod, held in world.counts().items() if pod not in ("w0", "w1", "w2"))
    assert world.moved_since(before) == needed
    epochs = [map_.leader_epoch for _, map_ in world.written]
    assert epochs == sorted(epochs)


def test_an_old_leader_that_wakes_up_steps_down_without_a_write() -> None:
    world = started(3)
    sleeper, epoch = world.planner, world.epoch
    world.lead()
    world.run(1.0)
    woken = world.planner
    writes = len(world.written)
    world.planner = sleeper
    world.drain("w1")
    world.run(3.0)
    assert world.stepped_down == [epoch + 1]
    assert len(world.written) == writes
    assert woken.is_leading


def test_most_of_the_fleet_crashes_and_the_rest_takes_over_by_and_by() -> None:
    world = started(9)
    world.crash("w0", "w1", "w2", "w3", "w4", "w5")
    seconds = world.until(world.is_settled)
    assert set(world.probed) == {"w0", "w1", "w2", "w3", "w4", "w5"}
    assert seconds < 30.0
    assert set(world.counts()) == {"w6", "w7", "w8"}


def test_members_that_answer_are_not_fenced_however_silent_their_leases_are() -> None:
    world = started(9)
    for pod in ("w0", "w1", "w2", "w3", "w4", "w5"):
        world.workers[pod].answers_probes = True
    world.crash("w0", "w1", "w2", "w3", "w4", "w5")  # cut off from the API server, not from us
    world.run(60.0)
    assert world.fenced == []


def test_capacity_scales_what_a_worker_gets() -> None:
    world = FleetWorld()
    world.join("w0", "w1")
    world.join("big", capacity=2.0)
    world.lead()
    world.until(world.is_settled)
    assert world.counts() == {"w0": 32, "w1": 32, "big": 64}


def test_all_objects_deleted_under_load_come_back_and_nothing_moves() -> None:
    world = started(4)
    world.lead()
    world.run(1.0)
    before, fleet = dict(world.counts()), world.fleet
    world.map = None
    world.feed(MapGone())
    for pod in list(world.members):
        world.delete(pod)
    for shard in list(world.shards):
        del world.shards[shard]
        world.feed(ShardSeen(ShardView(shard, "", 0)))
    world.feed(LostLeadership())
    world.feed(BecameLeader(1))  # the leader Lease was deleted too: epochs begin anew
    assert world.stepped_down == [world.epoch]
    world.feed(BecameLeader(world.epoch + 1))
    world.until(world.is_settled)
    assert world.counts() == before
    assert world.fleet != fleet

"""The leader's safety rules switched off one at a time: the harm that each prevents must then be visible.

Rules of observation, suspicion and assignment have their mutants in `test_observation.py`, `test_rounds.py` and
`test_assignment.py`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from itertools import pairwise

import pytest

from noctaya.leader.assignment import Role
from noctaya.leader.hold_off import HoldOff
from noctaya.leader.map_keeping import MapKeeping
from noctaya.leader.observation import Observation
from noctaya.leader.planner import Planner
from noctaya.leader.planner_events import (
    Action,
    BecameLeader,
    ContainerEnded,
    FenceMember,
    LeasesListed,
    MapSeen,
    MemberSeen,
    WriteMap,
)
from noctaya.leader.planning import Planning
from noctaya.leader.roster import Member, Roster
from noctaya.leader.rounds import Rounds
from noctaya.leader.shard_map import ShardMap
from noctaya.leader.suspicion import Suspicion
from tests.leader.fleet_world import FleetWorld, started
from tests.leader.test_planner import holders, leading, member, whole
from tests.leader.test_planner_fleet import generation, roll_out


def test_a_leader_that_does_not_claim_the_map_lets_two_write_under_one_stored_epoch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The old leader's next write then meets no higher epoch, and a fence may be written before the old one knows."""
    first: list[type[Action]] = []
    for is_mutant in (False, True):
        if is_mutant:
            monkeypatch.setattr(Planner, "_must_claim", lambda self: False)
        planner = Planner("w0")
        planner.on(MapSeen("fleet", "50", whole("w0", "w1")), 0.0)
        planner.on(LeasesListed("60", (member("w0"), member("w1")), holders(whole("w0", "w1"))), 0.0)
        planner.on(ContainerEnded("w1", "c-w1"), 0.0)
        (action,) = planner.on(BecameLeader(9), 0.0)
        first.append(type(action))
    assert first == [WriteMap, FenceMember]


def test_a_fence_upon_what_is_stored_now_instead_of_what_was_seen_hits_the_living(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """No compare-and-swap: whoever renews behind a hung watch is fenced all the same (F21)."""
    fenced = []
    for is_mutant in (False, True):
        world = started(5)
        if is_mutant:

            def newest(self: Planner, known: Member, world: FleetWorld = world) -> str:
                return world.members[known.view.pod].resource_version

            monkeypatch.setattr(Planner, "_fence_version", newest)
        world.hide("w3", "w4")
        world.run(15.0)
        fenced.append({pod for _, pod in world.fenced})
    assert fenced == [set(), {"w3", "w4"}]


def test_without_suspicion_a_leader_with_a_broken_watch_fences_everybody(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Five of six are cut off from the API server, and answer when they are asked."""
    fenced = []
    for is_mutant in (False, True):
        if is_mutant:
            monkeypatch.setattr(Suspicion, "_are_too_many", lambda self, silent, size: False)
        world = started(6)
        for pod in ("w1", "w2", "w3", "w4", "w5"):
            world.workers[pod].answers_probes = True
        world.crash("w1", "w2", "w3", "w4", "w5")
        world.run(30.0)
        fenced.append(len(world.fenced))
    assert fenced == [0, 5]


def test_clocks_that_run_on_through_blindness_fence_those_who_could_not_renew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An API server that was gone for 20 s: its first sign of life must not be the end of a worker (F7)."""
    asked = []
    for is_mutant in (False, True):
        planner = leading("w0", "w1", "w2")
        planner.on(MemberSeen(member("w1", "70")), 100.1)
        planner.on(MemberSeen(member("w2", "71")), 100.1)
        if is_mutant:
            monkeypatch.setattr(Observation, "_healthy_from", lambda self: float("-inf"))
        asked.append([type(action) for action in planner.on(MemberSeen(member("w2", "72")), 120.0)])
    assert asked == [[], [FenceMember]]


def test_without_the_wait_for_a_missing_lease_its_holder_loses_its_shards_while_it_acts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    lost = []
    for is_mutant in (False, True):
        if is_mutant:
            monkeypatch.setattr(Roster, "_is_awaited", lambda self, pod, now: False)
        planner = leading("w0", "w1")
        actions = planner.on(LeasesListed("90", (member("w0"),), holders(whole("w0", "w1"))), 100.1)
        lost.append([type(action) for action in actions])
    assert lost == [[], [WriteMap]]


@pytest.mark.parametrize(
    ("found", "harm"),
    [
        (whole("w1", "w0", generation=6), "an older generation is obeyed"),
        (whole("w1", "w0", generation=8, epoch=2), "the map of a deposed leader is obeyed"),
    ],
)
def test_without_the_order_of_maps_what_is_older_comes_into_force(
    monkeypatch: pytest.MonkeyPatch, found: ShardMap, harm: str
) -> None:
    del harm
    in_force = []
    for is_mutant in (False, True):
        if is_mutant:
            monkeypatch.setattr(ShardMap, "supersedes", lambda self, other: True)
        maps = MapKeeping()
        maps.seen(MapSeen("fleet", "50", whole("w0", "w1")))
        maps.seen(MapSeen("fleet", "51", found))
        in_force.append(maps.map)
    assert in_force == [whole("w0", "w1"), found]


def test_without_rounds_everything_is_in_flight_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    most = []
    for is_mutant in (False, True):
        if is_mutant:
            monkeypatch.setattr(Rounds, "_level", lambda self, desired, shards: list(shards))
        world = started(3)
        first = len(world.written)
        world.join("w3", "w4", "w5")
        world.until(world.is_level)
        maps = [map_ for _, map_ in world.written[first - 1 :]]
        moved = [
            sum(a != b for a, b in zip(old.desired, new.desired, strict=True)) for old, new in pairwise(maps)
        ]
        most.append(max(moved))
    assert most[0] <= 8 < most[1]


def test_without_the_hold_off_a_rolling_update_moves_shards_again_and_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moved = []
    for is_mutant in (False, True):
        if is_mutant:
            monkeypatch.setattr(HoldOff, "is_over", lambda self, now: True)
        world = started(5)
        before = generation(world)
        roll_out(world, sorted(world.workers))
        moved.append(world.moved_since(before))
    assert moved[0] == 128
    assert moved[1] > 1.2 * moved[0]


def test_without_collecting_donors_those_that_leave_together_feed_each_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moved = []
    for is_mutant in (False, True):
        if is_mutant:
            never: Callable[[Planning, dict[str, Role], float], bool] = lambda self, roles, now: False  # noqa: E731
            monkeypatch.setattr(Planning, "_is_collecting", never)
        world = started(8)
        before = generation(world)
        leaving = {"w3", "w4", "w5", "w6", "w7"}
        for pod in sorted(leaving):
            world.drain(pod)
        world.run(20.0)
        assert not leaving & set(world.counts())
        moved.append(world.moved_since(before))
    assert moved[0] == 5 * 128 // 8 < moved[1]


def test_a_container_that_is_not_the_incarnations_own_would_fence_the_living(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Matched by pod alone, the kubelet's late word of the container before ends the one that runs."""
    asked = []
    for is_mutant in (False, True):
        if is_mutant:
            by_pod: Callable[[Roster], list[Member]] = lambda self: [  # noqa: E731
                known for known in self.held() if known.view.pod in {pod for pod, _ in self._ended}
            ]
            monkeypatch.setattr(Roster, "proven_dead", by_pod)
        planner = leading("w0", "w1")
        asked.append([type(action) for action in planner.on(ContainerEnded("w1", "c-before"), 100.1)])
    assert asked == [[], [FenceMember]]


def test_giving_shards_to_the_doubted_gives_them_to_the_dead(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Counter[str]] = []
    for is_mutant in (False, True):
        world = started(4)
        if is_mutant:
            world.planner.fleet.roster.timing = type(world.planner.fleet.roster.timing)(doubt_after=1e9)
        world.crash("w3")
        world.run(6.0)
        before = world.counts()["w3"]
        world.drain("w0")
        world.run(1.0)
        given.append(Counter({"w3": world.counts()["w3"] - before}))
    assert given[0]["w3"] == 0 < given[1]["w3"]


def test_deciding_while_blind_moves_shards_on_old_news(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    for is_mutant in (False, True):
        if is_mutant:
            monkeypatch.setattr(Observation, "is_healthy", lambda self, now: True)
        planner = leading("w0", "w1", "w2")
        asked.append([type(action) for action in planner.on(ContainerEnded("w1", "c-w1"), 200.0)])
    assert asked == [[], [FenceMember]]

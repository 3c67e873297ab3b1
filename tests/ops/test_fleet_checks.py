"""`noctaya verify`: silent about a fleet that is as it should be, also while it moves, and a sentence for each thing that is not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from noctaya.leader.errors import ShardMapForeign
from noctaya.leader.planner_events import MapGone, MapSeen, MemberSeen, ShardSeen, ShardView
from noctaya.leader.tenure import HIGHEST_CLAIM, Identity, LeaseView, Seen, Tenure, Tick, Timing
from noctaya.workers import shard_events as owns
from noctaya.workers.fleet_checks import Finding, ranges, verify
from noctaya.workers.fleet_views import Cores
from tests.ops.fleet import Fleet, fleet_of, reword


@pytest.fixture
def fleet() -> Fleet:
    return fleet_of(3)


def findings(fleet: Fleet, *, later: float = 0.0) -> list[Finding]:
    return verify(fleet.cores, fleet.now + later)


def one(fleet: Fleet) -> Finding:
    (found,) = findings(fleet)
    assert found.problem
    assert found.todo
    return found


def shard_of(fleet: Fleet, pod: str) -> int:
    assert fleet.world.map is not None
    return fleet.world.map.shards_of(pod)[0]


def test_a_settled_fleet_has_no_finding(fleet: Fleet) -> None:
    assert findings(fleet) == []


def test_a_drain_a_crash_and_a_join_have_no_finding_while_they_are_done_in_time(fleet: Fleet) -> None:
    fleet.world.wish("w1", drain=True)
    for _ in range(60):
        fleet.step(0.25)
        assert findings(fleet) == []
    fleet.world.join("w3")
    fleet.world.crash("w2")
    for _ in range(160):
        fleet.step(0.25)
        assert findings(fleet) == []


def test_a_shard_without_a_record_is_named_with_who_should_have_it(fleet: Fleet) -> None:
    shard = shard_of(fleet, "w1")
    fleet.world.feed(ShardSeen(ShardView(shard, "", 0)))
    found = one(fleet)
    assert found.shards == (shard,)
    assert found.subject == f"shard/{shard}"
    assert found.problem == "it has no record, and should be with w1"


def test_shards_with_the_same_fault_are_one_finding(fleet: Fleet) -> None:
    assert fleet.world.map is not None
    shards = fleet.world.map.shards_of("w1")
    for shard in shards:
        fleet.world.feed(ShardSeen(ShardView(shard, "", 0)))
    found = one(fleet)
    assert found.shards == tuple(shards)
    assert found.subject == f"shards {ranges(shards)}"


def test_a_holder_that_is_over_is_named(fleet: Fleet) -> None:
    shard = shard_of(fleet, "w1")
    record = fleet.world.shards[shard]
    fleet.world.feed(ShardSeen(ShardView(shard, "w1_uid_99", record.epoch + 1)))
    assert one(fleet).problem == "it is held by w1_uid_99, which is over"


def test_a_shard_that_stays_with_the_wrong_worker_is_named(fleet: Fleet) -> None:
    shard = shard_of(fleet, "w1")
    other, record = fleet.world.workers["w2"].incarnation, fleet.world.shards[shard]
    fleet.world.feed(ShardSeen(ShardView(shard, other, record.epoch + 1)))
    found = one(fleet)
    assert found.problem == "it is still with w2 and should be with w1"
    assert "story worker/w1" in found.todo


def test_an_owner_that_is_not_there_is_named_when_nobody_gives_its_shards_away(fleet: Fleet) -> None:
    fleet.world.planner.epoch = None  # nobody leads
    fleet.world.leave("w2")
    fleet.follow()
    problems = {found.problem for found in findings(fleet)}
    assert "it should be with w2, which has no Lease" in problems


def test_an_epoch_above_all_that_are_believed_is_named(fleet: Fleet) -> None:
    shard = shard_of(fleet, "w1")
    fleet.world.feed(ShardSeen(ShardView(shard, fleet.world.workers["w1"].incarnation, HIGHEST_CLAIM + 1)))
    assert f"noctaya-shard-{shard:03d}" in one(fleet).todo


def test_a_record_below_the_epoch_that_a_status_carries_is_named(fleet: Fleet) -> None:
    shard = shard_of(fleet, "w1")
    fleet.own(owns.HigherEpochSeen(shard, 77))
    assert one(fleet).problem.startswith("a status or a gateway knows epoch 77")


def test_a_worker_whose_belief_differs_from_the_record_says_so_itself(fleet: Fleet) -> None:
    shard = shard_of(fleet, "w0")
    record = fleet.world.shards[shard]
    fleet.world.feed(ShardSeen(replace(record, epoch=record.epoch + 5)))
    assert "this worker acts under epoch" in one(fleet).problem


def test_a_refused_map_is_named_in_its_own_words(fleet: Fleet) -> None:
    fleet.world.planner.on(MapSeen(fleet.world.fleet, "900000", ShardMapForeign("shards is '64'")), fleet.now)
    found = one(fleet)
    assert found.subject == "map"
    assert "shards is '64'" in found.problem


def test_a_lost_map_is_named(fleet: Fleet) -> None:
    fleet.world.planner.epoch = None
    fleet.world.planner.on(MapGone(), fleet.now)
    assert one(fleet).problem == "there is no ShardMap"


def test_a_member_that_obeys_an_old_map_is_named(fleet: Fleet) -> None:
    reword(fleet, "w1", saw_map=1)
    assert one(fleet).problem.startswith("it obeys map generation 1, and ")


def test_two_members_with_one_address_are_named(fleet: Fleet) -> None:
    reword(fleet, "w1", address="10.0.0.1:9443")
    reword(fleet, "w2", address="10.0.0.1:9443")
    assert one(fleet).problem == "w1 and w2 all say that they are reached at 10.0.0.1:9443"


def test_a_silent_member_that_nobody_fences_is_named(fleet: Fleet) -> None:
    fleet.world.planner.epoch = None
    fleet.world.crash("w1")
    fleet.step(20.0)
    assert any("has not changed for" in found.problem for found in findings(fleet))


def test_annotations_that_cannot_be_read_are_named(fleet: Fleet) -> None:
    view = replace(fleet.world.members["w1"], record=None, resource_version="900000")
    fleet.world.planner.on(MemberSeen(view), fleet.now)
    assert "noctaya-worker-w1 cannot be read" in one(fleet).problem


def test_a_worker_that_is_blind_says_that_first(fleet: Fleet) -> None:
    first, second, *_ = findings(fleet, later=60.0)
    assert "its watch of the Leases is silent" in first.problem
    assert "cannot renew its Lease" in second.problem


def test_a_fleet_without_a_leader_is_named(fleet: Fleet) -> None:
    fleet.world.planner.epoch = None
    tenure = Tenure(Identity("w0", "uid", "0"), Timing())
    tenure.on(Tick(), fleet.now)
    tenure.on(Seen(LeaseView("", 3, "5")), fleet.now)
    cores = Cores(fleet.world.planner, fleet.ownership, fleet.membership, tenure)
    assert [found.problem for found in verify(cores, fleet.now)] == ["nobody leads"]


def test_numbers_are_told_as_ranges() -> None:
    assert ranges([9, 0, 1, 2, 7, 10]) == "0-2, 7, 9-10"
    assert ranges([]) == ""

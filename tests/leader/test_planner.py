"""The leader's core, event by event: what it asks for, in which order, and what it never does."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from noctaya.api.names import SHARD_COUNT
from noctaya.leader.errors import ShardMapForeign, ShardMapInvalid
from noctaya.leader.member_record import MemberRecord, MemberState
from noctaya.leader.planner import Planner
from noctaya.leader.planner_events import (
    Accepted,
    Action,
    BecameLeader,
    ContainerEnded,
    Event,
    FenceMember,
    LeasesListed,
    LostLeadership,
    MapGone,
    MapSeen,
    MemberGone,
    MemberSeen,
    MemberView,
    PodSeen,
    Probe,
    ProbeAnswered,
    ReadMap,
    Refused,
    RolloutSeen,
    ShardSeen,
    ShardView,
    StepDown,
    Tick,
    Unreachable,
    WatchAlive,
    WriteMap,
)
from noctaya.leader.shard_map import ShardMap


def member(pod: str, version: str = "10", **changes: object) -> MemberView:
    record = MemberRecord(state=MemberState.READY, address=pod, container=f"c-{pod}")
    return replace(MemberView(pod, f"{pod}_uid_1", version, record), **changes)  # type: ignore[arg-type]


def in_state(pod: str, state: MemberState, version: str = "10") -> MemberView:
    return member(pod, version, record=MemberRecord(state=state))


def whole(*pods: str, generation: int = 7, epoch: int = 3) -> ShardMap:
    desired = tuple(pods[shard % len(pods)] for shard in range(SHARD_COUNT))
    return ShardMap(generation=generation, leader_epoch=epoch, desired=desired)


def holders(map_: ShardMap) -> tuple[ShardView, ...]:
    return tuple(ShardView(shard, f"{pod}_uid_1", 1) for shard, pod in enumerate(map_.desired))


def leading(
    *pods: str,
    map_: ShardMap | None = None,
    members: tuple[MemberView, ...] | None = None,
) -> Planner:
    """A planner in `w0` that leads a settled fleet under epoch 3 and has claimed the map, at 100.0; nothing is held off."""
    planner = Planner("w0")
    map_ = map_ or whole(*pods)
    planner.on(MapSeen("fleet", "50", map_), 0.0)
    views = members if members is not None else tuple(member(pod) for pod in pods)
    planner.on(LeasesListed("60", views, holders(map_)), 0.0)
    planner.on(WatchAlive(), 100.0)
    assert planner.on(BecameLeader(3), 100.0) == []
    return planner


def only_write(actions: list[Action]) -> WriteMap:
    (action,) = actions
    assert isinstance(action, WriteMap)
    return action


def watching(planner: Planner, start: float, end: float) -> list[Action]:
    """The watch works, and nobody renews. All actions on the way."""
    actions: list[Action] = []
    at = start
    while at < end:
        at += 0.5
        actions += planner.on(WatchAlive(), at)
    return actions


# --- claiming ---------------------------------------------------------------------------------------------------------------


def test_without_leadership_nothing_is_asked_for() -> None:
    planner = Planner("w0")
    assert planner.on(LeasesListed("60", (member("w0"),)), 0.0) == []
    assert planner.on(MapGone(), 0.0) == []
    assert planner.on(Tick(), 50.0) == []


def test_a_new_leader_reads_the_map_and_claims_it_before_anything_else() -> None:
    planner = Planner("w0")
    planner.on(LeasesListed("60", (member("w0"),)), 0.0)
    (read,) = planner.on(BecameLeader(4), 0.0)
    assert isinstance(read, ReadMap)
    claim = only_write(planner.on(MapSeen("fleet", "50", ShardMap(), request=read.request), 0.1))
    assert (claim.map.leader_epoch, claim.map.generation, claim.map.desired) == (4, 1, ())
    assert claim.resource_version == "50"
    first = only_write(planner.on(Accepted(claim.request, "61"), 0.2))
    assert set(first.map.desired) == {"w0"}
    assert first.resource_version == "61"


def test_a_claim_keeps_the_plan() -> None:
    planner = Planner("w0")
    stored = whole("w0", "w1")
    planner.on(MapSeen("fleet", "50", stored), 0.0)
    claim = only_write(planner.on(BecameLeader(9), 0.0))
    assert claim.map == msgspec.structs.replace(stored, generation=8, leader_epoch=9, reason=claim.map.reason)


def test_a_map_that_was_claimed_under_a_higher_epoch_makes_us_step_down() -> None:
    planner = leading("w0", "w1")
    assert planner.on(MapSeen("fleet", "70", whole("w0", "w1", generation=8, epoch=5)), 101.0) == [
        StepDown(5)
    ]
    planner.on(PodSeen("w1", is_terminating=True), 101.0)
    assert planner.on(Tick(), 102.0) == []
    claim = only_write(planner.on(BecameLeader(6), 103.0))
    assert (claim.map.leader_epoch, claim.map.generation) == (6, 9)


def test_a_refused_write_is_followed_by_a_read_and_a_new_one_upon_what_it_showed() -> None:
    planner = leading("w0", "w1")
    planner.on(MemberSeen(in_state("w1", MemberState.DRAINING, "70")), 101.0)
    write = only_write(planner.on(Tick(), 101.5))
    assert planner.on(Refused(write.request), 101.6) == []
    assert planner.on(MapSeen("fleet", "50", whole("w0", "w1")), 101.7)[0] == ReadMap(write.request + 1)
    seen = MapSeen("fleet", "80", whole("w0", "w1"), is_freeze_asked=True, request=write.request + 1)
    again = only_write(planner.on(seen, 101.8))
    assert again.resource_version == "80"
    assert (again.map.frozen, again.map.draining) == (True, ("w1",))


def test_an_unanswered_write_is_repeated_upon_the_same_version_and_so_happens_once() -> None:
    planner = leading("w0", "w1")
    planner.on(MemberSeen(in_state("w1", MemberState.DRAINING, "70")), 101.0)
    write = only_write(planner.on(Tick(), 101.5))
    assert planner.on(Unreachable(write.request), 102.0) == []
    again = only_write(planner.on(WatchAlive(), 102.6))
    assert (again.map, again.resource_version) == (write.map, write.resource_version)
    assert again.request != write.request


def test_a_request_that_the_shell_lost_is_given_up() -> None:
    planner = leading("w0", "w1")
    planner.on(MemberSeen(in_state("w1", MemberState.DRAINING, "70")), 101.0)
    write = only_write(planner.on(Tick(), 101.5))
    assert watching(planner, 101.5, 106.0) == []
    again = only_write(planner.on(WatchAlive(), 106.5))
    assert again.resource_version == write.resource_version
    assert planner.on(Accepted(write.request, "90"), 106.6) == []


def test_losing_leadership_ends_all_asking_and_answers_from_before_change_nothing() -> None:
    planner = leading("w0", "w1")
    planner.on(MemberSeen(in_state("w1", MemberState.DRAINING, "70")), 101.0)
    write = only_write(planner.on(Tick(), 101.5))
    assert planner.on(LostLeadership(), 101.6) == []
    assert planner.on(Accepted(write.request, "90"), 101.7) == []
    assert planner.map == whole("w0", "w1")
    assert planner.on(Tick(), 110.0) == []


# --- maps that are wrong ----------------------------------------------------------------------------------------------------


def test_a_map_for_another_number_of_shards_is_never_touched() -> None:
    planner = leading("w0", "w1")
    problem = ShardMapForeign("shards is '64'")
    assert planner.on(MapSeen("fleet", "70", problem), 101.0) == []
    planner.on(MemberSeen(in_state("w1", MemberState.DRAINING, "71")), 101.0)
    assert watching(planner, 101.0, 106.0) == []
    assert planner.maps.problem is problem
    assert planner.map == whole("w0", "w1")
    assert planner.on(MapSeen("fleet", "72", whole("w0", "w1", generation=9)), 106.0) == []
    write = only_write(planner.on(Tick(), 106.3))
    assert write.map.generation == 10


@pytest.mark.parametrize(
    "found",
    [
        ShardMapInvalid("desired is not JSON"),
        whole("w0", "w1", generation=6),
        whole("w1", "w0", generation=7),
        whole("w0", "w1", generation=8, epoch=2),
        whole("w0", "w1", generation=2**50),
        whole("w0", "w1", generation=8, epoch=2**30 - 1),
    ],
    ids=[
        "garbage",
        "older generation",
        "same generation, other owners",
        "older epoch",
        "absurd generation",
        "absurd epoch",
    ],
)
def test_a_map_that_cannot_follow_leaves_the_old_one_in_force_and_is_written_anew(
    found: ShardMap | ShardMapInvalid,
) -> None:
    planner = leading("w0", "w1")
    repair = only_write(planner.on(MapSeen("fleet", "70", found), 101.0))
    assert planner.maps.problem is not None
    assert planner.map == whole("w0", "w1")
    assert repair.resource_version == "70"
    assert (repair.map.generation, repair.map.desired) == (8, whole("w0", "w1").desired)
    assert planner.on(Accepted(repair.request, "71"), 101.1) == []
    assert planner.maps.problem is None


def test_who_does_not_lead_repairs_nothing() -> None:
    planner = leading("w0", "w1")
    planner.on(LostLeadership(), 100.5)
    assert planner.on(MapSeen("fleet", "70", ShardMapInvalid("garbage")), 101.0) == []
    assert planner.map == whole("w0", "w1")


def test_a_deleted_map_is_made_anew_with_the_plan_that_was_in_force() -> None:
    planner = leading("w0", "w1")
    write = only_write(planner.on(MapGone(), 101.0))
    assert write.resource_version is None
    assert (write.map.generation, write.map.desired) == (8, whole("w0", "w1").desired)
    assert planner.on(Accepted(write.request, "71", "fleet-2"), 101.1) == []
    assert planner.maps.fleet == "fleet-2"


def test_a_fleet_that_another_worker_founded_anew_moves_no_shard() -> None:
    planner = leading("w0", "w1")
    claim = only_write(planner.on(MapSeen("fleet-2", "70", ShardMap()), 101.0))
    assert (claim.map.generation, claim.map.desired) == (8, ())
    again = only_write(planner.on(Accepted(claim.request, "71"), 101.1))
    assert again.map.desired == whole("w0", "w1").desired


def test_what_the_watch_shows_late_does_not_take_back_what_we_wrote() -> None:
    planner = leading("w0", "w1")
    planner.on(MemberSeen(in_state("w1", MemberState.DRAINING, "65")), 101.0)
    write = only_write(planner.on(Tick(), 101.5))
    planner.on(Accepted(write.request, "80"), 101.6)
    planner.on(MapSeen("fleet", "50", whole("w0", "w1")), 101.7)
    assert planner.map == write.map


# --- fencing ----------------------------------------------------------------------------------------------------------------


def test_a_silent_member_is_fenced_upon_the_version_that_was_seen_and_then_its_shards_go() -> None:
    planner = leading("w0", "w1", "w2", "w3")
    for at in range(100, 109):
        for pod in ("w0", "w2", "w3"):
            assert planner.on(MemberSeen(member(pod, str(at))), float(at)) == []
    (fence,) = planner.on(Tick(), 108.5)
    assert isinstance(fence, FenceMember)
    assert (fence.pod, fence.incarnation, fence.resource_version) == ("w1", "w1_uid_1", "10")
    assert fence.record.state is MemberState.FENCED
    assert "no sign of life for 8.5 s" in fence.record.reason
    write = only_write(planner.on(Accepted(fence.request, "300"), 108.6))
    assert set(write.map.desired) == {"w0", "w2", "w3"}
    before = whole("w0", "w1", "w2", "w3").desired
    kept = [(now, old) for now, old in zip(write.map.desired, before, strict=True) if old != "w1"]
    assert all(now == old for now, old in kept)


def test_a_refused_fence_is_a_proof_of_life() -> None:
    planner = leading("w0", "w1", "w2", "w3")
    for at in range(100, 109):
        for pod in ("w0", "w2", "w3"):
            planner.on(MemberSeen(member(pod, str(at))), float(at))
    (fence,) = planner.on(Tick(), 108.5)
    assert isinstance(fence, FenceMember)
    planner.on(Refused(fence.request), 108.6)
    for at in range(109, 117):
        for pod in ("w0", "w2", "w3"):
            assert planner.on(MemberSeen(member(pod, str(at))), float(at)) == []


def test_we_never_fence_ourselves() -> None:
    planner = leading("w0", "w1")
    actions: list[Action] = []
    for at in range(100, 130):
        actions += planner.on(MemberSeen(member("w1", str(at))), float(at))
    planner.on(ContainerEnded("w0", "c-w0"), 130.0)
    assert [action for action in actions if isinstance(action, FenceMember)] == []
    assert planner.on(MemberSeen(member("w1", "131")), 130.5) == []


def test_a_container_that_has_ended_is_proof_and_waits_for_nothing() -> None:
    planner = leading("w0", "w1", "w2")
    assert planner.on(ContainerEnded("w1", "c-other"), 100.1) == []
    (fence,) = planner.on(ContainerEnded("w1", "c-w1"), 100.2)
    assert isinstance(fence, FenceMember)
    assert (fence.pod, fence.is_proven) == ("w1", True)
    write = only_write(planner.on(Accepted(fence.request, "300"), 100.3))
    assert "w1" not in write.map.desired


def test_the_end_of_an_earlier_container_fences_nobody() -> None:
    """It restarted in place, and the kubelet's word of the old container comes after the new one claimed the Lease."""
    planner = leading("w0", "w1")
    again = member("w1", "70", incarnation="w1_uid_2", record=MemberRecord(container="c-new"))
    planner.on(MemberSeen(again), 100.1)
    assert planner.on(ContainerEnded("w1", "c-w1"), 100.2) == []
    unknowing = member("w1", "71", incarnation="w1_uid_2", record=MemberRecord(container=""))
    planner.on(MemberSeen(unknowing), 100.3)
    assert planner.on(ContainerEnded("w1", ""), 100.4) == []


def test_a_proof_is_not_pressed_against_a_lease_that_has_changed() -> None:
    planner = leading("w0", "w1")
    (fence,) = planner.on(ContainerEnded("w1", "c-w1"), 100.2)
    assert isinstance(fence, FenceMember)
    assert planner.on(Refused(fence.request), 100.3) == []
    assert planner.on(Tick(), 101.0) == []


def test_a_leader_whose_watch_shows_nobody_probes_and_fences_nobody_who_answers() -> None:
    planner = leading("w0", "w1", "w2", "w3", "w4")
    actions = watching(planner, 100.0, 108.5)
    probes = [action for action in actions if isinstance(action, Probe)]
    assert {probe.pod for probe in probes} == {"w1", "w2", "w3", "w4"}
    for probe in probes:  # whoever is still to answer is waited for, though fewer than half are left
        assert planner.on(ProbeAnswered(probe.pod, probe.incarnation, is_alive=True), 108.6) == []
    assert watching(planner, 108.6, 116.6) == []


def test_while_the_watch_is_blind_nothing_is_decided() -> None:
    planner = leading("w0", "w1", "w2")
    planner.on(ContainerEnded("w1", "c-w1"), 200.0)
    assert planner.on(Tick(), 200.1) == []
    (fence,) = planner.on(WatchAlive(), 200.2)
    assert isinstance(fence, FenceMember)


def test_an_older_record_of_a_shard_changes_nothing_and_a_deleted_one_does() -> None:
    planner = leading("w0", "w1")
    planner.on(ShardSeen(ShardView(5, "w0_uid_1", 7)), 100.1)
    planner.on(ShardSeen(ShardView(5, "w1_uid_1", 6)), 100.2)
    assert planner.fleet.shard(5).holder == "w0_uid_1"
    planner.on(ShardSeen(ShardView(5, "", 0)), 100.3)
    planner.on(ShardSeen(ShardView(5, "w1_uid_1", 1)), 100.4)
    assert planner.fleet.shard(5).epoch == 1


def test_a_stale_list_changes_nothing() -> None:
    planner = leading("w0", "w1")
    planner.on(MemberSeen(member("w1", "90")), 100.1)
    assert planner.on(LeasesListed("70", (member("w0"),)), 100.2) == []
    assert watching(planner, 100.2, 104.0) == []
    assert set(planner.fleet.roster.members) == {"w0", "w1"}


# --- who is what to the plan ------------------------------------------------------------------------------------------------


def settle(
    planner: Planner, start: float, end: float, *told: Event, silent: tuple[str, ...] = ()
) -> ShardMap:
    """From `start`, when `told` happens: every write is accepted, shards arrive at once, everybody but the silent renews.

    The map at the end. Versions follow the time, so that a later call's are newer.
    """
    serial = int(start * 10_000)
    at = start
    due: list[Event] = list(told)
    while at < end:
        due.append(Tick())
        while due:
            serial += 1
            for action in planner.on(due.pop(0), at):
                assert isinstance(action, WriteMap | FenceMember)
                due.append(Accepted(action.request, str(serial)))
                if isinstance(action, WriteMap):
                    due += [
                        ShardSeen(ShardView(shard, planner.fleet.roster.members[pod].view.incarnation, 2))
                        for shard, pod in enumerate(action.map.desired)
                        if planner.map is None or pod != planner.map.owner(shard)
                    ]
        at += 0.5
        for pod, known in planner.fleet.roster.members.items():
            if known.is_held and pod not in silent:
                serial += 1
                due.append(MemberSeen(replace(known.view, resource_version=str(serial))))
    assert planner.map is not None
    return planner.map


@pytest.mark.parametrize(
    "told",
    [
        MemberSeen(in_state("w1", MemberState.DRAINING, "70")),
        PodSeen("w1", is_terminating=True),
        MemberSeen(member("w1", "70", is_drain_asked=True)),
    ],
    ids=["draining", "terminating", "asked to"],
)
def test_who_is_to_go_is_emptied(told: Event) -> None:
    map_ = settle(leading("w0", "w1", "w2"), 100.1, 103.0, told)
    assert set(map_.desired) == {"w0", "w2"}
    assert map_.draining == ("w1",)


def test_a_wish_that_is_taken_back_brings_shards_again() -> None:
    planner = leading("w0", "w1", "w2")
    settle(planner, 100.1, 103.0, MemberSeen(member("w1", "70", is_drain_asked=True)))
    map_ = settle(planner, 103.0, 120.0, MemberSeen(member("w1", "1030000")))
    assert 42 <= map_.desired.count("w1") <= 43
    assert map_.draining == ()


def test_a_cordoned_worker_keeps_its_shards_and_gets_none() -> None:
    map_ = settle(
        leading("w0", "w1", "w2"),
        100.1,
        103.0,
        MemberSeen(member("w1", "70", is_cordon_asked=True)),
        PodSeen("w2", is_terminating=True),
    )
    assert map_.shards_of("w1") == whole("w0", "w1", "w2").shards_of("w1")
    assert map_.cordoned == ("w1",)
    assert "w2" not in map_.desired


@pytest.mark.parametrize(("is_frozen", "expected"), [(True, 43), (False, 64)])
def test_a_frozen_fleet_levels_nothing_and_homes_orphans_all_the_same(
    *, is_frozen: bool, expected: int
) -> None:
    uneven = whole("w0", "w1", "w0")
    planner = Planner("w0")
    planner.on(MapSeen("fleet", "50", uneven, is_freeze_asked=is_frozen), 0.0)
    planner.on(LeasesListed("60", (member("w0"), member("w1")), holders(uneven)), 0.0)
    map_ = settle(planner, 100.0, 120.0, WatchAlive(), BecameLeader(3))
    assert map_.frozen is is_frozen
    assert abs(map_.desired.count("w1") - expected) <= 1
    assert set(settle(planner, 120.0, 122.0, ContainerEnded("w1", "c-w1")).desired) == {"w0"}


def test_shards_of_a_missing_lease_are_homed_when_a_silent_one_would_be_fenced() -> None:
    """Somebody deleted the Lease under a holder who still acts, or the pod is long gone (F24)."""
    planner = leading(map_=whole("w0", "w1", "ghost"), members=(member("w0"), member("w1")))
    assert "ghost" in settle(planner, 100.0, 108.4).desired
    assert "ghost" not in settle(planner, 108.5, 109.0).desired


def test_shards_of_one_that_left_do_not_wait_for_its_missing_lease() -> None:
    left = member("w1", "70", incarnation="", record=MemberRecord(state=MemberState.LEFT))
    map_ = settle(leading("w0", "w1", "w2"), 100.1, 100.5, MemberSeen(left), MemberGone("w1", "71"))
    assert "w1" not in map_.desired


def test_an_incarnation_that_returns_in_time_finds_its_shards() -> None:
    planner = leading("w0", "w1")
    again = MemberView("w1", "w1_uid_2", "70", MemberRecord(state=MemberState.JOINING))
    assert settle(planner, 100.1, 108.0, MemberSeen(again)).desired == whole("w0", "w1").desired
    ready = replace(again, resource_version="1080000", record=MemberRecord(state=MemberState.READY))
    assert settle(planner, 108.0, 120.0, MemberSeen(ready)).desired == whole("w0", "w1").desired


def test_an_incarnation_that_does_not_become_ready_in_time_loses_its_shards() -> None:
    joining = MemberSeen(MemberView("w1", "w1_uid_2", "70", MemberRecord()))
    assert "w1" not in settle(leading("w0", "w1"), 100.1, 110.0, joining).desired


def test_who_has_missed_renewals_receives_nothing() -> None:
    planner = leading("w0", "w1", "w2", "w3")
    settle(planner, 100.0, 105.5, silent=("w3",))
    map_ = settle(planner, 105.5, 107.0, PodSeen("w1", is_terminating=True), silent=("w3",))
    assert "w1" not in map_.desired
    assert map_.shards_of("w3") == whole("w0", "w1", "w2", "w3").shards_of("w3")


def test_a_record_that_cannot_be_read_leaves_the_one_before_in_force() -> None:
    planner = leading("w0", "w1")
    assert planner.on(MemberSeen(member("w1", "70", record=None)), 100.1) == []
    assert planner.fleet.roster.members["w1"].is_ready


def test_a_join_is_waited_for_before_the_fleet_is_levelled() -> None:
    planner = leading("w0", "w1")
    assert "w2" not in settle(planner, 101.0, 105.9, MemberSeen(member("w2", "70"))).desired
    assert settle(planner, 106.0, 120.0).desired.count("w2") >= 42


def test_a_rollout_is_waited_for_before_the_fleet_is_levelled() -> None:
    planner = leading("w0", "w1")
    running = RolloutSeen(is_running=True, newest="2")
    assert "w2" not in settle(planner, 101.0, 140.0, running, MemberSeen(member("w2", "70"))).desired
    over = RolloutSeen(is_running=False)
    assert "w2" not in settle(planner, 140.0, 169.0, over).desired
    assert "w2" in settle(planner, 170.0, 171.0).desired


def test_pods_that_are_scaled_in_together_are_not_given_each_others_shards() -> None:
    planner = leading("w0", "w1", "w2", "w3")
    assert planner.on(PodSeen("w2", is_terminating=True), 100.1) == []
    assert planner.on(PodSeen("w3", is_terminating=True), 100.2) == []
    write = only_write(planner.on(Tick(), 100.4))
    before = whole("w0", "w1", "w2", "w3").desired
    moved = {now for now, old in zip(write.map.desired, before, strict=True) if now != old}
    assert moved == {"w0", "w1"}


def test_the_first_of_a_new_fleet_waits_a_moment_for_others_to_become_ready() -> None:
    planner = Planner("w0")
    planner.on(MapSeen("fleet", "1", ShardMap()), 0.0)
    joining = MemberView("w1", "w1_uid_1", "11", MemberRecord())
    planner.on(LeasesListed("60", (member("w0"), joining)), 0.0)
    claim = only_write(planner.on(BecameLeader(1), 0.0))
    assert planner.on(Accepted(claim.request, "61"), 0.1) == []
    write = only_write(planner.on(MemberSeen(member("w1", "62")), 1.0))
    assert sorted(write.map.desired.count(pod) for pod in ("w0", "w1")) == [64, 64]


def test_the_first_of_a_new_fleet_does_not_wait_for_ever() -> None:
    planner = Planner("w0")
    planner.on(MapSeen("fleet", "1", ShardMap()), 0.0)
    joining = MemberView("w1", "w1_uid_1", "11", MemberRecord())
    planner.on(LeasesListed("60", (member("w0"), joining)), 0.0)
    claim = only_write(planner.on(BecameLeader(1), 0.0))
    assert planner.on(Accepted(claim.request, "61"), 0.1) == []
    assert set(only_write(planner.on(WatchAlive(), 2.2)).map.desired) == {"w0"}


# --- the story --------------------------------------------------------------------------------------------------------------


def test_the_same_inputs_lead_to_the_same_actions_again() -> None:
    planner = leading("w0", "w1", "w2")
    settle(planner, 100.1, 104.0, PodSeen("w1", is_terminating=True))
    again, actions = Planner("w0"), list[Action]()
    assert planner.story.is_complete
    for now, event in planner.story.inputs():
        actions += again.on(event, now)
    assert again.map == planner.map
    assert [entry.text for entry in again.story.entries()] == [
        entry.text for entry in planner.story.entries()
    ]
    assert any(isinstance(action, WriteMap) for action in actions)


def test_the_story_of_a_shard_says_from_whom_to_whom_it_went_and_why() -> None:
    planner = leading("w0", "w1")
    settle(planner, 100.1, 101.0, ContainerEnded("w1", "c-w1"))
    (moved, *_) = whole("w0", "w1").shards_of("w1")
    assert [entry.text for entry in planner.story.entries(f"shard/{moved}")] == ["homed: from w1 to w0"]
    told = [entry.text for entry in planner.story.entries("worker/w1")]
    assert "to be fenced: its container has ended" in told
    assert planner.why(moved, 101.0).owner == "w0"
    assert planner.plan(4, 101.0).moves == 96
    assert planner.rebalance(101.0).counts() == {"w0": 128}

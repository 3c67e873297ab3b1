"""When a shard may be taken, and under which epoch."""

from __future__ import annotations

import pytest

from noctaya.leader.member_record import MemberState
from noctaya.leader.tenure import HIGHEST_CLAIM, HIGHEST_LEAP, Standing
from noctaya.workers import shard_events as events
from noctaya.workers.permission import Permission
from noctaya.workers.shard_ownership import ShardOwnership
from noctaya.workers.shard_state import Phase, Shard, ShardTiming
from tests.workers.ownership.one_worker import ME, OTHER, SHARDS, TIMING, Hand, fresh, one


def test_a_shard_that_nobody_holds_is_taken_at_once_under_the_next_epoch() -> None:
    hand = fresh()
    cas = one(hand.record(0, "", 7), events.CasShard)
    assert (cas.holder, cas.epoch, cas.version) == (ME, 8, str(hand.version))
    assert hand.core.permission(0, hand.now) is Permission.NONE
    assert hand.accept(cas) == [events.StartShard(0, 8)]
    assert (hand.core.permission(0, hand.now), hand.core.epoch(0)) == (Permission.ACT, 8)


def test_a_living_holder_is_not_robbed_however_long_the_map_says_otherwise() -> None:
    hand = fresh()
    for _ in range(100):
        actions = hand.wait(1.0)
        assert not [action for action in actions if isinstance(action, events.CasShard)]


@pytest.mark.parametrize("incarnation", ["", "w1_bbbbbbbb_n2"])
def test_a_holder_that_was_fenced_or_has_a_successor_in_its_pod_is_over_at_once(incarnation: str) -> None:
    hand = fresh()
    actions = hand.member("w1", incarnation, MemberState.FENCED if not incarnation else MemberState.JOINING)
    assert {action.shard for action in actions if isinstance(action, events.CasShard)} == {0, 1, 2, 3}


@pytest.mark.parametrize("is_deleted", [True, False])
def test_an_absent_holder_is_over_only_after_its_deadline_has_passed(is_deleted: bool) -> None:
    """Its Lease was deleted, or belongs to another pod of that name: its last renewal may have been just before."""
    hand = fresh()
    if is_deleted:
        assert hand.feed(events.MemberGone("w1")) == []
    else:
        assert hand.member("w1", "w1_dddddddd_n1") == []
    assert not _writes(hand.wait(TIMING.fence_after - 0.1))
    assert len(_writes(hand.wait(0.2))) == 4


def test_absence_counts_from_when_it_was_seen_and_not_from_when_a_shard_was_wanted() -> None:
    """A leader lost with its pod: its Lease went long before its successor says who should have its shards."""
    hand = Hand(desired=("w1",) * SHARDS)
    for shard in range(SHARDS):
        hand.record(shard, OTHER, 3)
    assert hand.feed(events.MemberGone("w1")) == []
    hand.wait(TIMING.fence_after - 0.1)
    assert not _writes(hand.plan(*("w0",) * SHARDS))
    assert len(_writes(hand.wait(0.2))) == SHARDS


def test_a_lease_that_came_back_and_went_again_has_been_absent_since_then() -> None:
    hand = Hand(desired=("w1",) * SHARDS)
    for shard in range(SHARDS):
        hand.record(shard, OTHER, 3)
    hand.feed(events.MemberGone("w1"))
    hand.member("w1", OTHER)
    hand.wait(TIMING.fence_after)
    hand.feed(events.MemberGone("w1"))
    assert not _writes(hand.plan(*("w0",) * SHARDS))
    assert not _writes(hand.wait(TIMING.fence_after - 0.1))
    assert len(_writes(hand.wait(0.2))) == SHARDS


def test_our_own_predecessor_in_this_pod_is_over() -> None:
    hand = fresh()
    assert one(hand.record(0, "w0_aaaaaaaa_n0", 5), events.CasShard).epoch == 6


def test_nothing_is_taken_before_the_first_complete_list() -> None:
    hand = fresh()
    hand.core.state.listed_at = None
    assert not _writes(hand.record(0, "", 7))
    assert _writes(hand.feed(events.Listed()))


@pytest.mark.parametrize("standing", [Standing.GROW, Standing.NONE])
def test_who_is_not_valid_takes_nothing_and_begins_nothing(standing: Standing) -> None:
    hand = fresh()
    hand.standing = standing
    assert not _writes(hand.record(0, "", 7))
    hand.record(0, ME, 8)
    assert hand.phase() is not Phase.ACTIVE
    hand.standing = Standing.ACT
    assert events.StartShard(0, 8) in hand.wait(0.25)


def test_a_shard_without_a_record_that_was_never_owned_is_free_and_one_that_was_is_waited_for() -> None:
    hand = Hand(desired=("w0", "w0", "w1", "w1"))
    assert hand.phase(0) is Phase.ACQUIRING
    other = Hand(desired=())
    other.feed(events.HigherEpochSeen(0, 9))
    assert {cas.shard for cas in _writes(other.plan("w0", "w0", "w1", "w1"))} == {1}
    assert not _writes(other.wait(TIMING.absent_after - 0.1))
    (cas,) = _writes(other.wait(0.2))
    assert (cas.shard, cas.epoch, cas.version) == (0, 10, "")


def test_a_record_that_is_deleted_under_its_owner_is_made_anew_by_it_under_a_higher_epoch() -> None:
    hand = fresh()
    epoch = hand.own()
    actions = hand.gone(0)
    assert hand.core.permission(0, hand.now) is Permission.NONE
    cas = one(actions, events.CasShard)
    assert (cas.holder, cas.epoch, cas.version) == (ME, epoch + 1, "")
    assert hand.accept(cas) == [events.StartShard(0, epoch + 1)]


def test_an_acquisition_without_an_answer_is_asked_again_upon_the_same_version() -> None:
    hand = fresh()
    cas = one(hand.record(0, "", 7), events.CasShard)
    hand.feed(events.CasUnanswered(cas.request))
    assert hand.core.permission(0, hand.now) is Permission.NONE
    (again,) = _writes(hand.wait(TIMING.unsure_retry))
    assert (again.version, again.epoch) == (cas.version, cas.epoch)


def test_the_epoch_is_above_all_that_anybody_knows_and_absurd_claims_are_not_believed() -> None:
    hand = fresh()
    hand.feed(events.HigherEpochSeen(0, 41))
    hand.feed(events.HigherEpochSeen(0, HIGHEST_CLAIM + 1))
    assert one(hand.record(0, "", 7), events.CasShard).epoch == 42


def test_a_higher_epoch_elsewhere_stops_the_owner_until_a_write_has_decided() -> None:
    hand = fresh()
    epoch = hand.own()
    assert hand.feed(events.HigherEpochSeen(0, epoch)) == []
    actions = hand.feed(events.HigherEpochSeen(0, epoch + 5))
    assert hand.core.permission(0, hand.now) is Permission.NONE
    cas = one(actions, events.CasShard)
    assert cas.epoch == epoch + 6
    assert hand.accept(cas) == [events.StartShard(0, epoch + 6)]


def check_that_a_claim_during_a_write_is_overtaken(core: type[ShardOwnership]) -> None:
    """Gateways that know epoch 9 refuse what is sent under 8."""
    hand = fresh(core)
    cas = one(hand.record(0, "", 7), events.CasShard)
    assert hand.feed(events.HigherEpochSeen(0, 9)) == []
    again = one(hand.accept(cas), events.CasShard)
    assert hand.core.permission(0, hand.now) is Permission.NONE
    assert (again.holder, again.epoch) == (ME, 10)
    assert hand.accept(again) == [events.StartShard(0, 10)]


def test_a_claim_that_comes_while_a_write_is_under_way_is_overtaken_by_another_write() -> None:
    check_that_a_claim_during_a_write_is_overtaken(ShardOwnership)


class BelowClaims(ShardOwnership):
    """Mutant: it acts under what it wrote, whatever it has heard meanwhile."""

    def _is_new_to_us(self, shard: Shard) -> bool:
        return shard.recorded > shard.left


def test_an_ownership_that_acts_below_a_claim_is_caught() -> None:
    with pytest.raises(ValueError, match="values to unpack"):
        check_that_a_claim_during_a_write_is_overtaken(BelowClaims)


def test_one_claim_does_not_use_the_numbers_up() -> None:
    hand = fresh()
    epoch = hand.own()
    assert hand.feed(events.HigherEpochSeen(0, HIGHEST_CLAIM)) == []
    assert hand.core.epoch(0) == epoch
    cas = one(hand.feed(events.HigherEpochSeen(0, epoch + HIGHEST_LEAP)), events.CasShard)
    assert cas.epoch == epoch + HIGHEST_LEAP + 1


def test_a_claim_beyond_belief_still_says_that_the_shard_has_been_owned() -> None:
    hand = Hand(desired=())
    hand.feed(events.HigherEpochSeen(0, HIGHEST_CLAIM + 1))
    assert {cas.shard for cas in _writes(hand.plan("w0", "w0", "w1", "w1"))} == {1}


def test_a_fleet_that_was_founded_anew_begins_every_shard_under_a_new_epoch() -> None:
    hand = fresh()
    epoch = hand.own()
    actions = hand.plan("w0", "w0", "w0", "w0", fleet="f2")
    assert events.StopShard(0) in actions
    cas = one([action for action in actions if isinstance(action, events.CasShard)], events.CasShard)
    assert hand.accept(cas) == [events.StartShard(0, epoch + 1)]


def test_an_old_map_and_an_old_record_change_nothing() -> None:
    hand = fresh()
    hand.own()
    assert hand.feed(events.PlanSeen("f1", hand.generation - 1, ("w1",) * 4)) == []
    assert hand.feed(events.RecordSeen(0, OTHER, 3, "5")) == []
    assert hand.core.permission(0, hand.now) is Permission.ACT


def test_an_incarnation_that_is_over_owns_nothing_and_its_late_answers_are_nobodys() -> None:
    hand = fresh()
    hand.own()
    parked = one(hand.record(1, "", 7), events.CasShard)
    assert events.StopShard(0) in hand.feed(events.Began(""))
    assert hand.core.permission(0, hand.now) is Permission.NONE
    hand.feed(events.Began("w0_aaaaaaaa_n2"))
    assert hand.accept(parked) == []
    assert hand.core.owned() == []


def test_who_should_have_a_shard_asks_a_holder_that_does_not_move_to_resign() -> None:
    hand = fresh()
    asked = [action for action in hand.wait(TIMING.resign_after) if isinstance(action, events.AskResign)]
    assert events.AskResign(0, OTHER, 3) in asked
    assert not _writes(hand.feed(events.Resigned(0, OTHER, 2)))
    (cas,) = _writes(hand.feed(events.Resigned(0, OTHER, 3)))
    assert (cas.holder, cas.epoch) == (ME, 4)


@pytest.mark.parametrize(
    ("standing", "resigns"), [(Standing.ACT, False), (Standing.GROW, True), (Standing.NONE, True)]
)
def test_an_owner_resigns_only_when_it_could_not_hand_over(standing: Standing, resigns: bool) -> None:
    hand = fresh()
    epoch = hand.own()
    hand.standing = standing
    answer = events.AnswerResigned(OTHER, 0, ME, epoch)
    actions = hand.feed(events.ResignAsked(OTHER, 0, ME, epoch))
    assert (answer in actions) is resigns
    assert (hand.core.state.shards[0].phase is Phase.ACTIVE) is not resigns


def test_durations_with_which_two_could_own_a_shard_are_refused() -> None:
    with pytest.raises(Exception, match="two workers could act"):
        ShardTiming(absent_after=5.0)


def _writes(actions: list[events.Action]) -> list[events.CasShard]:
    return [action for action in actions if isinstance(action, events.CasShard)]


def test_before_a_lost_record_is_made_anew_peers_are_asked_for_the_epochs_that_they_remember() -> None:
    hand = fresh()
    assert events.AskEpoch(0) in hand.gone(0)
    hand.feed(events.HigherEpochSeen(0, 6))
    (cas,) = _writes(hand.wait(TIMING.absent_after))
    assert (cas.shard, cas.epoch) == (0, 7)
    peer = fresh()
    assert peer.feed(events.EpochAsked(OTHER, 0)) == [events.AnswerEpoch(OTHER, 0, 3)]

"""How a shard is handed over, step by step, and what a step that fails leaves behind."""

from __future__ import annotations

from noctaya.leader.member_record import MemberState
from noctaya.leader.tenure import Standing
from noctaya.workers import shard_events as events
from noctaya.workers.permission import Permission
from noctaya.workers.shard_state import Phase
from tests.workers.ownership.one_worker import ME, OTHER, THIRD, TIMING, Hand, fresh, one


def giving() -> tuple[Hand, int]:
    """An owner whose shard 0 should go to w1; its epoch."""
    hand = fresh()
    epoch = hand.own()
    assert hand.plan("w1", "w1", "w1", "w1") == [events.Prepare(OTHER, 0)]
    return hand, epoch


def stopped() -> tuple[Hand, int]:
    hand, epoch = giving()
    assert hand.feed(events.Prepared(OTHER, 0)) == [events.StopShard(0)]
    return hand, epoch


def written() -> tuple[Hand, int, events.CasShard]:
    hand, epoch = stopped()
    assert hand.feed(events.Stopped(0)) == [events.SendState(OTHER, 0)]
    cas = one(hand.feed(events.StateTaken(OTHER, 0)), events.CasShard)
    return hand, epoch, cas


def test_it_acts_until_the_heir_is_ready_and_not_an_instant_longer() -> None:
    hand, _ = giving()
    assert hand.core.permission(0, hand.now) is Permission.ACT
    hand.feed(events.Prepared(OTHER, 0))
    assert hand.core.permission(0, hand.now) is Permission.NONE


def test_the_record_names_the_heir_under_the_next_epoch_and_then_it_is_told() -> None:
    hand, epoch, cas = written()
    assert (cas.holder, cas.epoch) == (OTHER, epoch + 1)
    (told,) = hand.accept(cas)
    assert told == events.Announce(0, OTHER, epoch + 1, str(hand.version))
    assert hand.phase() is Phase.NONE


def test_silent_peers_and_slow_work_delay_a_handover_and_never_end_it() -> None:
    hand, epoch = giving()
    assert hand.wait(TIMING.prepare_within) == [events.StopShard(0)]
    assert hand.wait(TIMING.stop_within - 0.1) == []
    assert hand.wait(0.2) == [events.SendState(OTHER, 0)]
    assert one(hand.wait(TIMING.state_within), events.CasShard).epoch == epoch + 1


def test_the_heir_begins_when_it_is_told_or_sees_the_record_whichever_comes_first() -> None:
    for how in (events.Told(0, ME, 9, "99"), events.RecordSeen(0, ME, 9, "99")):
        hand = fresh()
        assert hand.feed(how) == [events.StartShard(0, 9)]
        assert hand.feed(events.Told(0, ME, 9, "99")) == []


def test_what_is_told_to_another_incarnation_begins_nothing() -> None:
    hand = fresh()
    assert hand.feed(events.Told(0, "w0_aaaaaaaa_n0", 9, "99")) == []
    assert hand.core.permission(0, hand.now) is Permission.NONE


def test_a_late_word_of_an_epoch_that_was_given_away_since_begins_nothing() -> None:
    hand, epoch, cas = written()
    hand.accept(cas)
    hand.feed(events.Told(0, ME, epoch, "9999"))
    assert hand.core.permission(0, hand.now) is Permission.NONE


def test_a_write_without_an_answer_leaves_it_unsure_and_no_read_resumes_it() -> None:
    """F20: the write may land yet. Only a new one decides."""
    hand, epoch, cas = written()
    hand.feed(events.CasUnanswered(cas.request))
    assert hand.phase() is Phase.UNSURE
    again = one(hand.record(0, ME, epoch), events.CasShard)  # touched by somebody: it still names us
    assert hand.core.permission(0, hand.now) is Permission.NONE
    assert (again.holder, again.epoch, again.version) == (OTHER, epoch + 1, str(hand.version))


def test_an_unsure_owner_that_should_keep_the_shard_writes_its_own_name_under_a_new_epoch() -> None:
    hand, epoch, cas = written()
    hand.feed(events.CasUnanswered(cas.request))
    hand.plan("w0", "w1", "w1", "w1")
    again = one(hand.wait(TIMING.unsure_retry), events.CasShard)
    assert (again.holder, again.epoch) == (ME, epoch + 1)
    assert hand.accept(again) == [events.StartShard(0, epoch + 1)]


def test_a_refused_write_is_not_ours_to_resume_either() -> None:
    hand, epoch, cas = written()
    hand.feed(events.CasRefused(cas.request))
    assert hand.core.permission(0, hand.now) is Permission.NONE
    hand.record(0, OTHER, epoch + 1)
    assert hand.phase() is Phase.NONE


def test_a_handover_that_is_called_off_before_the_write_goes_on_under_the_same_epoch() -> None:
    hand, epoch = stopped()
    hand.plan("w0", "w1", "w1", "w1")
    actions = hand.feed(events.Stopped(0))
    assert actions == [events.SendState(OTHER, 0)]
    assert hand.wait(0.25) == [events.StartShard(0, epoch)]


def test_an_heir_that_falls_away_is_replaced_by_the_one_that_should_have_it_then() -> None:
    hand, _ = stopped()
    hand.member("w1", "", MemberState.FENCED)
    hand.plan("w2", "w1", "w1", "w1")
    hand.feed(events.Stopped(0))
    assert hand.wait(0.01) == [events.SendState(THIRD, 0)]
    assert one(hand.feed(events.StateTaken(THIRD, 0)), events.CasShard).holder == THIRD


def test_nothing_is_given_to_a_worker_that_is_not_ready() -> None:
    hand = fresh()
    hand.own()
    hand.member("w1", OTHER, MemberState.DRAINING)
    assert hand.plan("w1", "w1", "w1", "w1") == []
    assert hand.core.permission(0, hand.now) is Permission.ACT


def test_a_loss_that_the_record_shows_ends_it_at_once() -> None:
    hand = fresh()
    epoch = hand.own()
    assert hand.record(0, OTHER, epoch + 1) == [events.StopShard(0)]
    assert hand.core.permission(0, hand.now) is Permission.NONE


def test_without_a_leader_a_draining_worker_chooses_heirs_by_itself_and_then_is_done() -> None:
    hand = fresh()
    hand.own()
    hand.feed(events.StateSeen(MemberState.DRAINING))
    assert hand.wait(TIMING.leaderless_after - 0.1) == []
    prepare = one(hand.wait(0.2), events.Prepare)
    assert prepare.peer in (OTHER, THIRD)
    hand.feed(events.Prepared(prepare.peer, 0))
    hand.feed(events.Stopped(0))
    cas = one(hand.feed(events.StateTaken(prepare.peer, 0)), events.CasShard)
    assert events.Drained() in hand.accept(cas)


def test_a_worker_that_owns_nothing_is_drained_at_once_and_takes_nothing_any_more() -> None:
    hand = fresh()
    assert hand.feed(events.StateSeen(MemberState.DRAINING)) == [events.Drained()]
    assert hand.record(0, "", 9) == []


def test_a_draining_worker_that_is_alone_gives_up_soon_but_waits_for_one_that_is_coming() -> None:
    hand = fresh()
    epoch = hand.own()
    for pod in ("w1", "w2"):
        hand.member(pod, "")
    hand.member("w1", OTHER, MemberState.JOINING)
    hand.feed(events.StateSeen(MemberState.DRAINING))
    assert events.Drained() not in hand.wait(TIMING.alone_after * 2)
    assert hand.core.permission(0, hand.now) is Permission.ACT
    actions = hand.member("w1", OTHER, MemberState.DRAINING)
    assert events.StopShard(0) in actions
    assert events.Drained() in actions
    assert hand.core.permission(0, hand.now) is Permission.NONE
    assert hand.core.epoch(0) == epoch


def test_when_the_time_for_draining_is_over_everything_is_stopped_first() -> None:
    hand = fresh()
    hand.own()
    for pod, incarnation in (("w1", OTHER), ("w2", THIRD)):
        hand.member(pod, incarnation, MemberState.JOINING)
    hand.feed(events.StateSeen(MemberState.DRAINING))
    actions = hand.wait(TIMING.drain_budget)
    assert actions.index(events.StopShard(0)) < actions.index(events.Drained())
    assert hand.core.permission(0, hand.now) is Permission.NONE


def test_permission_is_what_membership_allows() -> None:
    hand = fresh()
    hand.own()
    for standing, permission in (
        (Standing.ACT, Permission.ACT),
        (Standing.GROW, Permission.GROW),
        (Standing.NONE, Permission.NONE),
    ):
        hand.standing = standing
        assert hand.core.permission(0, hand.now) is permission

"""Tenure in virtual time: two workers never act at once, epochs rise, and each safety rule is missed when it is gone."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noctaya.leader.errors import TenureRefused
from noctaya.leader.tenure import (
    Accepted,
    HigherEpochSeen,
    Identity,
    LeaseView,
    Leaving,
    Read,
    Refused,
    Seen,
    Standing,
    Tenure,
    Tick,
    Timing,
    Unreachable,
    Watched,
    Write,
)
from tests.leader.simulation import Worker, World

TIMING = Timing()
ME = Identity("w0", "aaaaaaaa-1111", "n1")


def world(seed: int, make: type[Tenure] = Tenure, *, rates: bool = True) -> World:
    """Two workers, an API server that is out now and then, pauses of a process, a lossy network: all from `seed`."""
    rng = random.Random(seed)
    workers = [
        Worker(
            make(Identity(f"w{index}", f"uid{index}uid{index}", f"n{index}"), TIMING, is_first=index == 0),
            offset=rng.uniform(0, 1000),
            rate=rng.uniform(0.84, 1.16) if rates else 1.0,
        )
        for index in range(2)
    ]
    made = World(rng, workers, loss=rng.choice([0.0, 0.05, 0.3]), slowest=rng.choice([0.05, 0.6, 1.45]))
    at = 0.0
    while at < 80:
        at += rng.uniform(5, 40)
        made.outages.append((at, at + rng.uniform(0.5, 15)))
    for worker in workers:
        start, length = rng.uniform(5, 80), rng.uniform(1, 20)

        def pause(worker: Worker = worker, length: float = length) -> None:
            worker.is_paused_until = made.now + length

        made.later(start, pause)
    return made


class CountsFromTheAnswer(Tenure):
    """Mutant: the deadline runs from the answer instead of the send."""

    def _deadline_of(self, sent: float, answered: float) -> float:
        del sent
        return answered + self.timing.self_deadline


class HasNoDeadline(Tenure):
    """Mutant: whoever acquired once acts until told otherwise."""

    def _deadline_of(self, sent: float, answered: float) -> float:
        del sent, answered
        return float("inf")


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32))
def test_two_workers_never_act_at_once_and_epochs_rise(seed: int) -> None:
    made = world(seed)
    made.run(until=90)
    assert made.both_acted == []
    epochs = [epoch for _, epoch in made.server.history]
    assert epochs == sorted(epochs)
    assert len(set(epochs)) == len(epochs)


def test_over_many_schedules_both_workers_get_to_act() -> None:
    acted: set[int] = set()
    for seed in range(10):
        made = world(seed)
        made.run(until=90)
        acted |= made.acted
    assert acted == {0, 1}


def test_without_a_deadline_two_workers_act_at_once() -> None:
    assert any(_both_acted(seed, HasNoDeadline) for seed in range(50))


def test_a_deadline_from_the_answer_lets_two_workers_act_at_once() -> None:
    """A write that is answered 4 s after its send: the answer is a promise about the past."""
    now = 100.0
    for make, expected in ((Tenure, Standing.GROW), (CountsFromTheAnswer, Standing.ACT)):
        tenure = make(ME, TIMING, is_first=True)
        assert tenure.on(Tick(), now) == [Read()]
        tenure.on(Seen(None), now)
        tenure.on(Accepted(now, LeaseView(str(ME), 1, "1")), now + 4.0)
        # Another worker saw this write at `now` and takes over `fence_after` later.
        assert tenure.standing(now + TIMING.fence_after) is expected


def _both_acted(seed: int, make: type[Tenure]) -> bool:
    made = world(seed, make)
    made.run(until=90)
    return bool(made.both_acted)


def holding(*, epoch: int = 3, sent: float = 0.0) -> Tenure:
    tenure = Tenure(ME, TIMING)
    tenure.on(Tick(), sent)
    tenure.on(Seen(LeaseView("", epoch - 1, "7")), sent)
    tenure.on(Accepted(sent, LeaseView(str(ME), epoch, "8")), sent)
    assert tenure.standing(sent) is Standing.ACT
    return tenure


def test_a_free_lease_is_taken_at_once_with_the_next_epoch() -> None:
    tenure = Tenure(ME, TIMING)
    assert tenure.on(Tick(), 0.0) == [Read()]
    assert tenure.on(Seen(LeaseView("", 4, "9")), 0.1) == [Write(str(ME), 5, "9")]
    assert tenure.standing(0.1) is Standing.NONE


def test_the_predecessor_in_the_same_pod_is_replaced_at_once() -> None:
    tenure = Tenure(ME, TIMING)
    tenure.on(Tick(), 0.0)
    before = Identity("w0", "aaaaaaaa-1111", "n0")
    assert tenure.on(Seen(LeaseView(str(before), 4, "9")), 0.1) == [Write(str(ME), 5, "9")]


def test_without_a_pod_uid_nobody_is_a_predecessor() -> None:
    tenure = Tenure(Identity("w0", "", "n1"), TIMING)
    tenure.on(Tick(), 0.0)
    assert tenure.on(Seen(LeaseView(str(Identity("w0", "", "n0")), 4, "9")), 0.1) == []


def test_a_silent_holder_is_fenced_after_its_time_on_our_clock_and_not_before() -> None:
    tenure, now, other = Tenure(ME, TIMING), 50.0, LeaseView("w1_bbbbbbbb_x", 4, "9")
    taken_at = None
    while taken_at is None and now < 70:
        if tenure.on(Tick(), now) and tenure.on(Seen(other), now):
            taken_at = now
        now += 0.5
    assert taken_at is not None
    assert TIMING.fence_after <= taken_at - 50.0 <= TIMING.fence_after + TIMING.observe_every


def test_after_an_outage_the_holder_gets_its_whole_time_again() -> None:
    tenure, other = Tenure(ME, TIMING), LeaseView("w1_bbbbbbbb_x", 4, "9")
    tenure.on(Tick(), 0.0)
    tenure.on(Seen(other), 0.0)
    tenure.on(Tick(), 1.0)
    tenure.on(Unreachable(), 2.0)
    assert tenure.on(Tick(), 20.0) == [Read()]
    assert tenure.on(Seen(other), 20.0) == []


def test_a_missing_lease_is_waited_out_unless_this_process_founded_the_fleet() -> None:
    later, founder = Tenure(ME, TIMING), Tenure(ME, TIMING, is_first=True)
    later.on(Tick(), 0.0)
    founder.on(Tick(), 0.0)
    assert later.on(Seen(None), 0.0) == []
    assert founder.on(Seen(None), 0.0) == [Write(str(ME), 1, None)]


def test_a_holder_that_cannot_renew_falls_to_grow_and_rises_again_with_the_same_epoch() -> None:
    tenure = holding(epoch=3)
    assert tenure.on(Tick(), 2.5) == [Write(str(ME), 3, "8")]
    tenure.on(Unreachable(), 4.0)
    assert tenure.standing(5.99) is Standing.ACT
    assert tenure.standing(6.0) is Standing.GROW
    assert tenure.on(Tick(), 30.0) == [Write(str(ME), 3, "8")]
    tenure.on(Accepted(30.0, LeaseView(str(ME), 3, "9")), 30.1)
    assert (tenure.standing(30.2), tenure.epoch) == (Standing.ACT, 3)


def test_a_refused_renewal_ends_the_tenure_at_once() -> None:
    tenure = holding()
    tenure.on(Tick(), 2.5)
    assert tenure.on(Refused(), 2.6) == [Read()]
    assert tenure.standing(2.6) is Standing.NONE
    assert tenure.on(Seen(LeaseView("w1_bbbbbbbb_x", 4, "11")), 2.7) == []
    assert tenure.standing(2.7) is Standing.NONE


def test_a_renewal_that_landed_unseen_is_followed_by_another_write_and_not_taken_for_one() -> None:
    tenure = holding(epoch=3)
    tenure.on(Tick(), 2.5)
    tenure.on(Unreachable(), 4.0)
    tenure.on(Tick(), 4.3)
    tenure.on(Refused(), 4.4)
    assert tenure.on(Seen(LeaseView(str(ME), 3, "9")), 4.5) == [Write(str(ME), 3, "9")]
    assert tenure.standing(4.5) is Standing.NONE
    tenure.on(Accepted(4.5, LeaseView(str(ME), 3, "10")), 4.6)
    assert tenure.standing(4.6) is Standing.ACT


def test_the_epoch_is_above_every_epoch_that_a_status_carries() -> None:
    tenure = Tenure(ME, TIMING)
    tenure.on(HigherEpochSeen(41), 0.0)
    tenure.on(Tick(), 0.0)
    assert tenure.on(Seen(LeaseView("", 4, "9")), 0.1) == [Write(str(ME), 42, "9")]


def test_a_higher_epoch_elsewhere_stops_the_holder_until_a_write_decides() -> None:
    tenure = holding(epoch=3)
    tenure.on(HigherEpochSeen(8), 1.0)
    assert tenure.standing(1.0) is Standing.NONE
    assert tenure.on(Tick(), 1.0) == [Read()]
    assert tenure.on(Seen(LeaseView(str(ME), 3, "8")), 1.1) == [Write(str(ME), 9, "8")]
    tenure.on(Accepted(1.1, LeaseView(str(ME), 9, "12")), 1.2)
    assert (tenure.standing(1.2), tenure.epoch) == (Standing.ACT, 9)


def test_an_absurd_epoch_is_not_believed() -> None:
    tenure = holding(epoch=3)
    tenure.on(HigherEpochSeen(2**63), 1.0)
    assert tenure.standing(1.0) is Standing.ACT


def test_leaving_releases_the_lease_and_keeps_the_epoch() -> None:
    tenure = holding(epoch=3)
    assert tenure.on(Leaving(), 1.0) == [Write("", 3, "8")]
    assert tenure.standing(1.0) is Standing.NONE
    assert tenure.on(Accepted(1.0, LeaseView("", 3, "9")), 1.1) == []
    assert tenure.on(Tick(), 50.0) == []


def test_a_lease_that_is_gone_is_taken_at_once_only_while_nobody_else_can_have_had_it() -> None:
    """Cut off for longer than the others wait, somebody may have taken over before the Lease was deleted."""
    for now, expected in ((5.0, [Write(str(ME), 4, None)]), (20.0, [])):
        tenure = holding(epoch=3)
        tenure.on(Tick(), now)
        assert tenure.on(Refused(), now) == [Read()]
        assert tenure.on(Seen(None), now) == expected
        assert tenure.standing(now) is Standing.NONE


def test_leaving_in_the_middle_of_a_renewal_still_releases_the_lease() -> None:
    tenure = holding(epoch=3)
    assert tenure.on(Tick(), 2.5) == [Write(str(ME), 3, "8")]  # given up by its sender, and it lands
    assert tenure.on(Leaving(), 2.6) == [Write("", 3, "8")]
    assert tenure.on(Refused(), 2.7) == [Read()]
    assert tenure.on(Seen(LeaseView(str(ME), 3, "9")), 2.8) == [Write("", 3, "9")]
    assert tenure.on(Refused(), 2.9) == []
    assert tenure.standing(2.9) is Standing.NONE


def test_leaving_in_the_middle_of_an_acquisition_releases_what_it_got_and_keeps_its_epoch() -> None:
    tenure = Tenure(ME, TIMING)
    assert tenure.on(Tick(), 0.0) == [Read()]
    assert tenure.on(Seen(LeaseView("", 4, "8")), 0.1) == [Write(str(ME), 5, "8")]  # given up, and it lands
    assert tenure.on(Leaving(), 0.2) == [Read()]
    assert tenure.on(Seen(LeaseView(str(ME), 5, "9")), 0.3) == [Write("", 5, "9")]


def test_leaving_in_the_middle_of_an_acquisition_that_another_won_leaves_it_alone() -> None:
    tenure = Tenure(ME, TIMING)
    tenure.on(Tick(), 0.0)
    tenure.on(Seen(LeaseView("", 4, "8")), 0.1)
    assert tenure.on(Leaving(), 0.2) == [Read()]
    assert tenure.on(Seen(LeaseView("w1_bbbbbbbb_x", 5, "9")), 0.3) == []


def test_leaving_never_releases_the_lease_of_another() -> None:
    tenure = holding(epoch=3)
    tenure.on(Leaving(), 2.6)
    assert tenure.on(Refused(), 2.7) == [Read()]
    assert tenure.on(Seen(LeaseView("w1_bbbbbbbb_x", 4, "9")), 2.8) == []


def test_leaving_without_the_lease_writes_nothing() -> None:
    assert Tenure(ME, TIMING).on(Leaving(), 0.0) == []


@pytest.mark.parametrize("deadline", [2.0, 8.5, 9.0])
def test_unsafe_durations_are_refused(deadline: float) -> None:
    with pytest.raises(TenureRefused, match="two workers could act at once"):
        Timing(self_deadline=deadline)


def test_the_candidate_ranked_second_leaves_a_free_lease_to_the_first() -> None:
    second = Tenure(ME, TIMING)
    second.rank = 1
    second.on(Tick(), 10.0)
    free = LeaseView("", 4, "9")
    assert second.on(Seen(free), 10.0) == []
    assert second.next_at == pytest.approx(10.0 + TIMING.rank_step)
    now = second.next_at + 0.01
    assert second.on(Tick(), now) == [Read()]
    assert second.on(Seen(free), now) == [Write(str(ME), 5, "9")]


def test_a_release_that_the_watch_shows_is_answered_at_once() -> None:
    standby, other = Tenure(ME, TIMING), LeaseView("w1_bbbbbbbb_x", 4, "9")
    standby.on(Tick(), 0.0)
    standby.on(Seen(other), 0.0)
    assert standby.on(Watched(LeaseView("", 4, "10")), 0.3) == [Write(str(ME), 5, "10")]


def test_what_the_watch_shows_late_does_not_restart_the_observation() -> None:
    standby, other = Tenure(ME, TIMING), LeaseView("w1_bbbbbbbb_x", 4, "9")
    now = 0.0
    while now < TIMING.fence_after:
        standby.on(Tick(), now)
        assert standby.on(Seen(other), now) == []
        assert standby.on(Watched(LeaseView("w1_bbbbbbbb_x", 4, "8")), now) == []
        now += 1.0
    standby.on(Tick(), now)
    assert standby.on(Seen(other), now) == [Write(str(ME), 5, "9")]


def test_a_tenure_with_one_life_never_begins_again() -> None:
    tenure = Tenure(ME, TIMING, is_one_life=True)
    tenure.on(Tick(), 0.0)
    tenure.on(Seen(LeaseView("", 2, "7")), 0.0)
    tenure.on(Accepted(0.0, LeaseView(str(ME), 3, "8")), 0.0)
    tenure.on(Tick(), 2.5)
    tenure.on(Refused(), 2.6)
    assert tenure.on(Seen(LeaseView("", 3, "9")), 2.7) == []
    assert tenure.has_ended
    assert tenure.on(Tick(), 100.0) == []
    assert tenure.on(Seen(LeaseView(str(ME), 3, "10")), 100.0) == []
    assert tenure.standing(100.0) is Standing.NONE

"""A worker's incarnations: one life each, valid by what was sent and by what has come back through the watch."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from noctaya.leader.member_record import MemberState
from noctaya.leader.membership import (
    VIEW_DEADLINE,
    Action,
    Began,
    Departed,
    DrainAsked,
    Ended,
    Membership,
    Synced,
    rank_of,
)
from noctaya.leader.tenure import (
    Accepted,
    LeaseView,
    Read,
    Refused,
    Seen,
    Standing,
    Tick,
    Timing,
    Unreachable,
    Watched,
    Write,
)

TIMING = Timing()
FIRST, SECOND = "w0_aaaaaaaa_n1", "w0_aaaaaaaa_n2"


def nonces() -> Iterator[str]:
    return (f"n{number}" for number in count(1))


def joining(make: type[Membership] = Membership) -> Membership:
    return make("w0", "aaaaaaaa-1111", TIMING, nonce=nonces().__next__)


def holding(*, at: float = 0.0, make: type[Membership] = Membership) -> Membership:
    """READY, valid, its claim seen on the watch."""
    member = joining(make)
    assert member.on(Tick(), at) == [Read()]
    assert member.on(Seen(None), at) == [Write(FIRST, 1, None)]
    member.on(Accepted(at, LeaseView(FIRST, 1, "1")), at)
    member.on(Watched(LeaseView(FIRST, 1, "1")), at)
    renewal = member.on(Synced(), at)
    assert renewal == [Write(FIRST, 1, "1")]
    member.on(Accepted(at, LeaseView(FIRST, 1, "2")), at)
    member.on(Watched(LeaseView(FIRST, 1, "2")), at)
    assert (member.standing(at), member.state) == (Standing.ACT, MemberState.READY)
    return member


def test_an_absent_lease_is_claimed_at_once_for_the_name_is_this_pods() -> None:
    member = joining()
    member.on(Tick(), 0.0)
    assert member.on(Seen(None), 0.0) == [Write(FIRST, 1, None)]


def test_the_predecessor_in_this_pod_is_replaced_at_once_and_a_stranger_is_waited_out() -> None:
    for holder, expected in (("w0_aaaaaaaa_n0", [Write(FIRST, 5, "9")]), ("w0_bbbbbbbb_n0", [])):
        member = joining()
        member.on(Tick(), 0.0)
        assert member.on(Seen(LeaseView(holder, 4, "9")), 0.0) == expected


def test_a_claim_counts_only_once_the_watch_has_shown_it() -> None:
    member = joining()
    member.on(Tick(), 0.0)
    member.on(Seen(None), 0.0)
    member.on(Accepted(0.0, LeaseView(FIRST, 1, "1")), 0.0)
    assert member.standing(0.1) is Standing.GROW
    member.on(Watched(LeaseView(FIRST, 1, "1")), 0.2)
    assert member.standing(0.2) is Standing.ACT


def test_renewals_that_are_not_seen_to_come_back_keep_it_valid_for_so_long_and_no_longer() -> None:
    member = holding()
    now = 0.0
    for version in range(3, 12):
        now += TIMING.renew_every
        assert member.on(Tick(), now) == [Write(FIRST, 1, str(version - 1))]
        member.on(Accepted(now, LeaseView(FIRST, 1, str(version))), now)
        expected = Standing.ACT if now < VIEW_DEADLINE else Standing.GROW
        assert member.standing(now) is expected
    member.on(Watched(LeaseView(FIRST, 1, "11")), now)
    assert member.standing(now) is Standing.ACT


def test_the_deadline_counts_from_the_send_of_the_last_accepted_renewal() -> None:
    member = holding()
    member.on(Tick(), 2.5)
    member.on(Accepted(2.5, LeaseView(FIRST, 1, "3")), 4.0)
    member.on(Watched(LeaseView(FIRST, 1, "3")), 4.0)
    assert member.standing(8.49) is Standing.ACT
    assert member.standing(8.5) is Standing.GROW
    assert member.deadline_in(8.0) == 0.5


def test_a_fenced_incarnation_ends_and_the_process_goes_on_as_another() -> None:
    member = holding()
    member.on(Tick(), 2.5)
    assert member.on(Refused(), 2.6) == [Read()]
    assert member.standing(2.6) is Standing.NONE
    ended, began, read = member.on(Seen(LeaseView("", 1, "7")), 2.7)
    assert (ended, read) == (Ended(FIRST), Read())
    assert isinstance(began, Began)
    assert (str(began.identity), member.state) == (SECOND, MemberState.JOINING)
    assert member.standing(2.7) is Standing.NONE
    assert member.on(Seen(LeaseView("", 1, "7")), 2.8) == [Write(SECOND, 2, "7")]


def test_it_is_ready_for_shards_only_once_its_watch_shows_it_whichever_comes_first() -> None:
    """After a black hole the claim goes through long before the watch is back: what it is given by then nobody would act for."""
    lease = LeaseView(SECOND, 2, "8")
    for is_echo_first in (False, True):
        member = holding()
        member.on(Tick(), 2.5)
        member.on(Refused(), 2.6)
        member.on(Seen(LeaseView("", 1, "7")), 2.7)
        member.on(Seen(LeaseView("", 1, "7")), 2.8)
        events: list[Accepted | Watched] = [Accepted(2.8, lease), Watched(lease)]
        first, second = reversed(events) if is_echo_first else events
        member.on(first, 2.9)
        assert (member.state, member.standing(2.9) is Standing.ACT) == (MemberState.JOINING, False)
        said = member.on(second, 3.0)
        assert (member.state, member.standing(3.0)) == (MemberState.READY, Standing.ACT)
        assert said == [Write(SECOND, 2, "8")]


def test_a_lease_that_is_gone_ends_the_incarnation_even_before_its_deadline() -> None:
    """Made anew under the same name it would be a second life, and somebody may have taken what it owned."""
    member = holding()
    member.on(Tick(), 2.5)
    member.on(Refused(), 2.6)
    assert Ended(FIRST) in member.on(Seen(None), 2.7)
    assert str(member.identity) == SECOND


def test_a_renewal_that_landed_unseen_does_not_end_it() -> None:
    member = holding()
    member.on(Tick(), 2.5)
    member.on(Unreachable(), 4.0)
    member.on(Tick(), 4.3)
    assert member.on(Refused(), 4.4) == [Read()]
    assert member.on(Seen(LeaseView(FIRST, 1, "3")), 4.5) == [Write(FIRST, 1, "3")]


def test_what_others_should_know_is_told_at_once_and_not_with_the_next_renewal() -> None:
    member = holding()
    assert _holders(member.on(DrainAsked(), 0.5)) == [FIRST]
    assert member.state is MemberState.DRAINING


def test_a_state_that_changes_while_a_renewal_is_under_way_is_told_right_after_it() -> None:
    member = holding()
    assert member.on(Tick(), 2.5) == [Write(FIRST, 1, "2")]
    assert member.on(DrainAsked(), 2.51) == []
    member.on(Accepted(2.5, LeaseView(FIRST, 1, "3")), 2.6)
    assert member.next_at <= 2.6
    assert member.on(Tick(), 2.6) == [Write(FIRST, 1, "3")]


def check_that_a_lost_write_waits_before_it_is_repeated(make: type[Membership]) -> None:
    """An API server that loses every write is asked four times a second, not in a hot loop."""
    member = holding(make=make)
    assert _holders(member.on(DrainAsked(), 0.5)) == [FIRST]
    for now in (1.0, 2.0, 3.0):
        member.on(Unreachable(), now)
        member.on(Watched(LeaseView(FIRST, 1, "2")), now)
        assert member.on(Tick(), now) == []
        assert _holders(member.on(Tick(), now + TIMING.retry_after)) == [FIRST]


def test_a_state_that_cannot_be_told_is_told_again_in_its_time() -> None:
    check_that_a_lost_write_waits_before_it_is_repeated(Membership)


class AlwaysHurries(Membership):
    """Mutant: what is untold is told at once, whatever became of the last attempt."""

    def _hurry(self, now: float) -> None:
        self._is_failing = False
        super()._hurry(now)


def test_a_membership_that_always_hurries_is_caught() -> None:
    with pytest.raises(AssertionError):
        check_that_a_lost_write_waits_before_it_is_repeated(AlwaysHurries)


def test_who_has_handed_over_releases_its_lease_and_never_comes_back() -> None:
    member = holding()
    member.on(DrainAsked(), 0.5)
    member.on(Accepted(0.5, LeaseView(FIRST, 1, "3")), 0.6)
    assert member.on(Departed(), 1.0) == [Write("", 1, "3")]
    assert member.has_left
    assert member.standing(1.0) is Standing.NONE
    member.on(Accepted(1.0, LeaseView("", 1, "4")), 1.1)
    assert member.on(Tick(), 50.0) == []


def test_who_is_fenced_while_it_drains_has_nothing_to_come_back_for() -> None:
    member = holding()
    member.on(DrainAsked(), 2.5)
    member.on(Refused(), 2.6)
    assert member.on(Seen(LeaseView("", 1, "7")), 2.7) == [Ended(FIRST)]
    assert member.has_left
    assert member.on(Tick(), 50.0) == []


def test_the_watch_showing_our_lease_with_another_makes_us_ask_at_once() -> None:
    member = holding()
    member.on(Watched(LeaseView("", 1, "7")), 1.0)
    assert member.on(Tick(), 1.0) == [Write(FIRST, 1, "2")]


def test_an_old_event_of_the_watch_proves_nothing() -> None:
    member = holding()
    member.on(Watched(LeaseView("w0_aaaaaaaa_n0", 1, "1")), 1.0)
    assert member.on(Tick(), 1.0) == []
    assert member.standing(1.0) is Standing.ACT


def test_candidates_are_ranked_alike_by_everybody_and_differently_every_time() -> None:
    pods = ["w0", "w1", "w2"]
    for epoch in range(5):
        assert sorted(rank_of(pod, epoch, pods) for pod in pods) == [0, 1, 2]
    assert len({rank_of("w0", epoch, pods) for epoch in range(20)}) > 1


def _holders(actions: list[Action]) -> list[str]:
    return [action.holder for action in actions if isinstance(action, Write)]


def test_a_renewal_that_the_watch_shows_before_it_is_answered_counts_as_one_that_came_back() -> None:
    """It often is quicker than the answer; missed each time, the view would seem to stand still."""
    member = holding()
    now = 0.0
    for version in range(3, 12):
        now += TIMING.renew_every
        member.on(Tick(), now)
        member.on(Watched(LeaseView(FIRST, 1, str(version))), now)
        member.on(Accepted(now, LeaseView(FIRST, 1, str(version))), now)
        assert member.standing(now) is Standing.ACT

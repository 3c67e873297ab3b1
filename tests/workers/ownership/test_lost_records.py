"""A shard's record that vanished: made anew at once by the owner that is valid, by nobody else before it is safe."""

from __future__ import annotations

from noctaya.leader.tenure import Standing
from noctaya.workers import shard_events as events
from noctaya.workers.shard_state import Phase
from tests.workers.ownership.one_worker import OTHER, THIRD, fresh, one


def test_an_owner_that_is_valid_makes_its_lost_record_anew_at_once() -> None:
    hand = fresh()
    epoch = hand.own()
    cas = one(hand.gone(0), events.CasShard)
    assert (cas.version, cas.epoch) == ("", epoch + 1)


def test_an_owner_that_is_not_valid_makes_nothing_anew_for_an_heir_either() -> None:
    """It may have been fenced long ago: another has acted under the next epoch, whose record was deleted after that."""
    hand = fresh()
    hand.own()
    hand.plan("w1", *["w0"] * 3)
    hand.member("w1", OTHER)
    hand.standing = Standing.GROW
    assert not [action for action in hand.gone(0) if isinstance(action, events.CasShard)]
    assert hand.phase() is Phase.UNSURE
    assert not [action for action in hand.wait(60.0) if isinstance(action, events.CasShard)]
    hand.standing = Standing.ACT
    assert one(hand.wait(1.0), events.CasShard).holder in (OTHER, THIRD)

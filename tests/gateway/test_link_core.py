"""Whom to dial and whom to wake, under virtual time."""

from itertools import count

from noctaya.gateway.link import Outbox
from noctaya.gateway.link_core import LinkCore, SendWake
from noctaya.wire import control

KEY, SHARD = "ai/tiny", 7


def linked(*workers: str) -> LinkCore:
    core = LinkCore(("contact:1",), wake_ack_seconds=0.5)
    for worker in workers:
        core.welcomed(f"{worker}:1", worker)
        core.listed(f"{worker}:1", {f"{other}:1": other for other in workers})
    return core


def targets(wakes: list[SendWake]) -> set[str]:
    return {wake.address for wake in wakes}


def test_the_first_contacts_are_dialled_until_a_listed_worker_is_linked() -> None:
    core = LinkCore(("contact:1",), 0.5)
    assert core.wanted() == {"contact:1"}
    core.welcomed("contact:1", "w0")
    core.listed("contact:1", {"w0:1": "w0", "w1:1": "w1"})
    assert core.wanted() == {"contact:1", "w0:1", "w1:1"}
    core.welcomed("w0:1", "w0")
    assert core.wanted() == {"w0:1", "w1:1"}
    core.closed("w0:1")
    assert core.wanted() == {"contact:1", "w0:1", "w1:1"}


def test_a_list_that_is_behind_hides_no_worker_that_another_one_lists() -> None:
    """A worker that is cut from the API server goes on listing who was there."""
    core = linked("w0", "w1")
    core.listed("w0:1", {"w0:1": "w0", "w1:1": "w1", "w2:1": "w2"})
    core.listed("w1:1", {"w1:1": "w1"})
    assert core.wanted() == {"w0:1", "w1:1", "w2:1"}
    core.listed("w0:1", {"w0:1": "w0"})
    assert core.wanted() == {"w0:1", "w1:1"}, "who is listed by nobody any more is not dialled"


def test_who_was_listed_last_is_dialled_when_nobody_is_left_to_ask() -> None:
    core = linked("w0", "w1")
    core.closed("w0:1")
    core.closed("w1:1")
    assert core.wanted() == {"contact:1", "w0:1", "w1:1"}
    core.welcomed("contact:1", "w2")
    core.listed("contact:1", {"w2:1": "w2"})
    assert core.wanted() == {"contact:1", "w2:1"}


def test_a_wake_goes_to_the_owner_alone() -> None:
    core = linked("w0", "w1")
    core.owner_spoke("w1:1", SHARD, 3, 0.0)
    assert targets(core.wake(KEY, SHARD, 0.0)) == {"w1:1"}


def test_a_wake_of_a_shard_without_owner_goes_to_everybody() -> None:
    assert targets(linked("w0", "w1").wake(KEY, SHARD, 0.0)) == {"w0:1", "w1:1"}


def test_an_owner_that_does_not_confirm_in_time_is_passed_over_once() -> None:
    core = linked("w0", "w1", "w2")
    core.owner_spoke("w1:1", SHARD, 3, 0.0)
    core.wake(KEY, SHARD, 10.0)
    assert core.deadline() == 10.5
    assert core.tick(10.49) == []
    assert targets(core.tick(10.5)) == {"w0:1", "w2:1"}
    assert core.tick(99.0) == []


def test_a_worker_that_says_it_is_not_the_owner_is_passed_over_at_once() -> None:
    core = linked("w0", "w1")
    core.owner_spoke("w1:1", SHARD, 3, 0.0)
    (sent,) = core.wake(KEY, SHARD, 0.0)
    assert targets(core.acknowledged("w1:1", sent.wake_id, is_owner=False)[1]) == {"w0:1"}


def test_a_confirmed_wake_is_settled() -> None:
    core = linked("w0")
    core.owner_spoke("w0:1", SHARD, 3, 0.0)
    (sent,) = core.wake(KEY, SHARD, 0.0)
    assert core.acknowledged("w0:1", sent.wake_id, is_owner=True) == (KEY, [])
    assert core.deadline() is None
    assert core.outstanding() == set()


def test_an_unconfirmed_wake_goes_to_every_worker_that_links_later() -> None:
    core = linked("w0")
    core.owner_spoke("w0:1", SHARD, 3, 0.0)
    core.wake(KEY, SHARD, 0.0)
    core.closed("w0:1")
    assert targets(core.welcomed("w0:1", "w0")) == {"w0:1"}
    core.unwanted(KEY)
    assert core.welcomed("w1:1", "w1") == []


def test_an_owner_whose_link_ends_is_passed_over_at_once() -> None:
    core = linked("w0", "w1", "w2")
    core.owner_spoke("w1:1", SHARD, 3, 0.0)
    core.wake(KEY, SHARD, 0.0)
    assert targets(core.closed("w1:1")) == {"w0:1", "w2:1"}
    assert core.deadline() is None
    assert core.outstanding() == {KEY}


def test_the_end_of_another_link_repeats_nothing() -> None:
    core = linked("w0", "w1", "w2")
    core.owner_spoke("w1:1", SHARD, 3, 0.0)
    core.wake(KEY, SHARD, 0.0)
    assert core.closed("w0:1") == []
    assert targets(core.tick(0.5)) == {"w2:1"}
    assert core.closed("w2:1") == []


def test_of_two_links_to_the_owner_the_one_that_lasts_is_used() -> None:
    core = LinkCore(("contact:1",), wake_ack_seconds=0.5)
    core.welcomed("contact:1", "w0")
    core.owner_spoke("contact:1", SHARD, 3, 0.0)
    core.listed("contact:1", {"w0:1": "w0"})
    assert core.owner_of(SHARD) == "contact:1"
    core.welcomed("w0:1", "w0")
    assert core.owner_of(SHARD) == "w0:1"


def test_a_wake_on_one_of_two_links_to_the_owner_goes_down_the_other_when_the_first_ends() -> None:
    core = LinkCore(("contact:1",), wake_ack_seconds=0.5)
    core.listed("contact:1", {"w0:1": "w0", "w1:1": "w1"})
    for address, worker in {"contact:1": "w0", "w0:1": "w0", "w1:1": "w1"}.items():
        core.welcomed(address, worker)
    core.owner_spoke("contact:1", SHARD, 3, 0.0)
    assert targets(core.wake(KEY, SHARD, 0.0)) == {"w0:1"}
    assert targets(core.closed("w0:1")) == {"contact:1"}
    assert core.deadline() == 0.5, "the owner has as long as before"


def test_an_unconfirmed_wake_follows_its_shard_to_a_new_owner() -> None:
    core = linked("w0", "w1")
    core.owner_spoke("w0:1", SHARD, 3, 0.0)
    core.wake(KEY, SHARD, 0.0)
    assert targets(core.owner_spoke("w1:1", SHARD, 4, 0.1)) == {"w1:1"}
    assert core.deadline() == 0.6


def test_an_older_epoch_does_not_take_a_shard_back() -> None:
    core = linked("w0", "w1")
    core.owner_spoke("w1:1", SHARD, 4, 0.0)
    core.owner_spoke("w0:1", SHARD, 3, 0.0)
    assert core.owner_of(SHARD) == "w1:1"


def test_what_waits_for_a_slow_worker_is_written_in_order_and_only_the_latest_of_each() -> None:
    outbox = Outbox(count(1).__next__)
    demand = control.ServiceDemand(namespace="ai", name="tiny", pending=1)
    outbox.put_report([])
    outbox.put_wake(control.Wake(wake_id=1), KEY)
    outbox.put_answer(SHARD, control.GatewayMessage(ack=control.Ack(version=1)))
    outbox.put_answer(SHARD, control.GatewayMessage(ack=control.Ack(version=2)))
    outbox.put_report([demand])
    kinds = []
    while (message := outbox.take()) is not None:
        kinds.append(message.WhichOneof("kind"))
        if kinds[-1] == "ack":
            assert message.ack.version == 2
    assert kinds == ["wake", "ack", "demand"], "a report built before a wake is never written after it"


def test_what_was_put_into_a_slow_link_first_ranks_below_what_went_down_another_one_since() -> None:
    sequence = count(1).__next__
    slow, quick = Outbox(sequence), Outbox(sequence)
    slow.put_report([])
    quick.put_wake(control.Wake(wake_id=1), KEY)
    wake, report = quick.take(), slow.take()
    assert wake is not None
    assert report is not None
    assert report.demand.sequence < wake.wake.sequence, "the worker drops it, and the wake stands"

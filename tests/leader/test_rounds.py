"""Rounds, hold-offs, suspicion, the one request and the story: each small rule on its own."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import pytest

from noctaya.leader.assignment import Role
from noctaya.leader.hold_off import HoldOff
from noctaya.leader.one_request import OneRequest
from noctaya.leader.rounds import Round, Rounds
from noctaya.leader.story import Story
from noctaya.leader.suspicion import Suspicion, Verdict

SHARDS = 40
OPEN = {"a": Role.OPEN, "b": Role.OPEN, "c": Role.OPEN}


def held_by(desired: tuple[str, ...]) -> dict[int, str]:
    return dict(enumerate(desired))


# --- rounds -----------------------------------------------------------------------------------------------------------------


def test_levelling_moves_eight_at_a_time_and_two_of_any_donor() -> None:
    donors = {f"d{index}": Role.OPEN for index in range(10)}
    desired = tuple(f"d{shard % 10}" for shard in range(SHARDS))
    plan = ("new",) * SHARDS
    step = Rounds().next(desired, plan, held_by(desired), donors | {"new": Role.OPEN}, 0.0)
    assert len(step.levelled) == 8
    assert step.waiting == SHARDS - 8
    assert max(Counter(desired[shard] for shard in step.levelled).values()) <= 2
    one = Rounds().next(("a",) * SHARDS, ("b",) * SHARDS, held_by(("a",) * SHARDS), OPEN, 0.0)
    assert len(one.levelled) == 2


def test_the_next_round_waits_until_all_have_arrived_or_ten_seconds() -> None:
    rounds = Rounds()
    desired = ("a",) * SHARDS
    plan = ("b",) * SHARDS
    first = rounds.next(desired, plan, held_by(desired), OPEN, 0.0)
    actual = held_by(desired)
    assert rounds.next(first.owners, plan, actual, OPEN, 0.1).levelled == ()
    assert rounds.next(first.owners, plan, actual, OPEN, 10.0).levelled == ()
    assert len(rounds.next(first.owners, plan, actual, OPEN, 10.2).levelled) == 2
    assert len(Rounds().next(first.owners, plan, held_by(first.owners), OPEN, 0.2).levelled) == 2


def test_orphans_go_at_once_and_levelling_waits_for_them() -> None:
    desired = ("gone",) * 20 + ("a",) * 20
    plan = ("b",) * SHARDS
    step = Rounds().next(desired, plan, held_by(desired), OPEN, 0.0)
    assert step.homed == tuple(range(20))
    assert step.levelled == ()
    assert step.owners == ("b",) * 20 + ("a",) * 20


def test_a_draining_donor_has_sixteen_in_flight_and_more_when_half_have_arrived() -> None:
    rounds = Rounds()
    roles = OPEN | {"a": Role.DONOR}
    desired = ("a",) * SHARDS
    plan = ("b",) * SHARDS
    first = rounds.next(desired, plan, held_by(desired), roles, 0.0)
    assert len(first.drained) == 16
    actual = held_by(desired)
    for shard in first.drained[:7]:
        actual[shard] = "b"
    assert rounds.next(first.owners, plan, actual, roles, 0.2).drained == ()
    actual[first.drained[7]] = "b"
    second = rounds.next(first.owners, plan, actual, roles, 0.3)
    assert len(second.drained) == 8


def test_donors_are_emptied_side_by_side() -> None:
    roles = OPEN | {"a": Role.DONOR, "b": Role.DONOR}
    desired = ("a",) * 20 + ("b",) * 20
    step = Rounds().next(desired, ("c",) * SHARDS, held_by(desired), roles, 0.0)
    assert Counter(desired[shard] for shard in step.drained) == {"a": 16, "b": 16}


def test_a_shard_that_nobody_may_have_stays_where_it_is() -> None:
    desired = ("gone",) * SHARDS
    assert Rounds().next(desired, (None,) * SHARDS, {}, {}, 0.0) == Round(desired, flying=SHARDS)


def test_the_first_map_is_whole_or_not_written() -> None:
    assert Rounds().next((), ("a",) * SHARDS, {}, OPEN, 0.0).owners == ("a",) * SHARDS
    assert Rounds().next((), ("a", None) * 20, {}, OPEN, 0.0).owners == ()


# --- hold-offs --------------------------------------------------------------------------------------------------------------


def test_levelling_waits_five_seconds_after_a_join() -> None:
    hold_off = HoldOff()
    assert hold_off.is_over(0.0)
    hold_off.joined(0.0)
    hold_off.joined(3.0)
    assert not hold_off.is_over(7.9)
    assert hold_off.is_over(8.0)


def test_levelling_waits_thirty_seconds_after_a_rollout() -> None:
    hold_off = HoldOff()
    hold_off.told(is_running=True, newest="2")
    hold_off.look({"1"}, "1", 0.0)
    assert (hold_off.newest, hold_off.is_over(0.0)) == ("2", False)
    hold_off.told(is_running=False, newest="2")
    hold_off.look({"1", "2"}, "2", 10.0)
    assert hold_off.newest is None
    assert not hold_off.is_over(29.9)
    assert hold_off.is_over(30.0)


def test_without_word_of_the_deployment_two_versions_are_a_rollout_to_the_youngest_one() -> None:
    hold_off = HoldOff()
    hold_off.joined(0.0)
    hold_off.look({"1", "2"}, "1", 10.0)
    assert (hold_off.newest, hold_off.is_over(10.0)) == ("1", False)


def test_two_versions_that_stay_side_by_side_are_no_rollout_for_ever() -> None:
    hold_off = HoldOff()
    hold_off.joined(0.0)
    for at in range(0, 300, 10):
        hold_off.look({"1", "2"}, "2", float(at))
    hold_off.look({"1", "2"}, "2", 330.0)
    assert (hold_off.newest, hold_off.is_over(330.0)) == (None, True)


def test_slack_lasts_a_while_after_a_crash() -> None:
    hold_off = HoldOff()
    assert hold_off.slack(0.0) == 0
    hold_off.crashed(0.0)
    assert [hold_off.slack(9.9), hold_off.slack(10.0)] == [1, 0]


# --- suspicion --------------------------------------------------------------------------------------------------------------


class NeverSuspects(Suspicion):
    """Mutant: whoever is silent is believed to be dead."""

    def _are_too_many(self, silent: int, size: int) -> bool:
        del silent, size
        return False


def silent(*pods: str) -> dict[str, str]:
    return {pod: f"{pod}_uid_0" for pod in pods}


def test_up_to_half_are_believed_to_be_dead() -> None:
    assert Suspicion().judge(silent("b", "a"), 4, 0.0) == Verdict(("a", "b"))


@pytest.mark.parametrize(("make", "expected"), [(Suspicion, ()), (NeverSuspects, ("a", "b", "c"))])
def test_more_than_half_at_once_are_probed_before_anybody_is_fenced(
    make: type[Suspicion], expected: tuple[str, ...]
) -> None:
    assert make().judge(silent("a", "b", "c"), 5, 0.0).fence == expected


def test_those_that_were_fenced_a_moment_ago_count() -> None:
    """A leader that alone cannot see renewals meets its members one by one, not all at once."""
    suspicion = Suspicion()
    for index, pod in enumerate("abc"):
        assert suspicion.judge(silent(pod), 6 - index, index / 10).fence == (pod,)
        suspicion.fenced(pod, index / 10)
    verdict = suspicion.judge(silent("d"), 3, 0.4)
    assert (verdict.fence, verdict.probe) == ((), ("d",))


def test_who_answers_is_not_fenced_and_of_the_rest_a_third_in_a_window() -> None:
    suspicion = Suspicion()
    everybody = silent(*"abcdefgh")
    assert suspicion.judge(everybody, 9, 0.0) == Verdict((), tuple("abcdefgh"), is_suspicious=True)
    assert suspicion.judge(everybody, 9, 0.1) == Verdict((), (), is_suspicious=True)
    assert suspicion.answered("a", "a_uid_0", 0.1, is_alive=True)
    assert not suspicion.answered("b", "b_uid_0", 0.1, is_alive=False)
    del everybody["a"]  # its observation began anew
    assert suspicion.judge(everybody, 9, 0.2).fence == ("b",)
    suspicion.fenced("b", 0.2)
    del everybody["b"]
    assert suspicion.judge(everybody, 8, 0.3).fence == ()
    assert suspicion.judge(everybody, 8, 1.5).fence == ("c", "d")
    suspicion.fenced("c", 1.5)
    suspicion.fenced("d", 1.5)
    rest = silent(*"efgh")
    assert suspicion.judge(rest, 6, 1.6).fence == ()
    assert suspicion.judge(rest, 6, 1.5 + suspicion.window).fence == ("e", "f")


def test_an_answer_of_another_incarnation_is_none() -> None:
    suspicion = Suspicion()
    suspicion.judge(silent("a", "b"), 3, 0.0)
    assert not suspicion.answered("a", "a_uid_1", 0.1, is_alive=True)
    assert not suspicion.answered("z", "z_uid_0", 0.1, is_alive=True)


# --- the one request --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Asked:
    request: int


def test_an_answer_counts_once_and_only_for_the_request_under_way() -> None:
    requests: OneRequest[Asked] = OneRequest(5.0)
    first = Asked(requests.number())
    requests.ask(first, 0.0)
    assert not requests.is_free(1.0)
    assert requests.answered(99) is None
    assert requests.answered(first.request) == first
    assert requests.answered(first.request) is None
    assert requests.is_free(1.0)


def test_a_request_that_nobody_answers_is_given_up() -> None:
    requests: OneRequest[Asked] = OneRequest(5.0)
    first = Asked(requests.number())
    requests.ask(first, 0.0)
    assert requests.is_free(5.0)
    assert requests.answered(first.request) is None
    assert requests.number() != first.request


def test_waiting_ends_when_it_was_told_to() -> None:
    requests: OneRequest[Asked] = OneRequest(5.0)
    requests.wait(2.0)
    assert not requests.is_free(1.9)
    assert requests.is_free(2.0)


# --- the story --------------------------------------------------------------------------------------------------------------


def test_a_story_forgets_the_oldest_and_says_so() -> None:
    story: Story[str] = Story(inputs=2, entries=2)
    for at, word in enumerate("ab"):
        story.hear(word, float(at))
        story.tell(float(at), f"shard/{at}", word)
    before = story.is_complete
    story.hear("c", 2.0)
    story.tell(2.0, "shard/1", "c")
    assert (before, story.is_complete) == (True, False)
    assert story.inputs() == [(1.0, "b"), (2.0, "c")]
    assert [entry.text for entry in story.entries("shard/1")] == ["b", "c"]
    assert story.dump()[0] == {"now": 1.0, "subject": "shard/1", "text": "b"}

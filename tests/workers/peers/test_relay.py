"""Asking a shard's owner, and answering as one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from noctaya.workers.metric import Silence
from noctaya.workers.permission import Permission
from noctaya.workers.questions import About, Active, Answer, Question, Wanted, WrongOwner
from noctaya.workers.relay import MAX_UNDER_WAY, Relay, Respondent
from tests.workers.clients import until

ME, OWNER, HEIR = "w0_aaaaaaaa_n1", "w1_aaaaaaaa_n1", "w2_aaaaaaaa_n1"
QUESTION = Question(About.DEMAND, "ai/qwen", 10.0)


class Shards:
    """What one worker believes of every shard."""

    def __init__(self, holder: str, recorded: int = 5, *, acts_under: int = 0) -> None:
        self.holder, self.recorded = holder, recorded
        self.acts_under = acts_under
        self.allowed = Permission.ACT if acts_under else Permission.NONE
        self.seen: list[int] = []

    def permission(self, shard: int) -> Permission:
        return self.allowed

    def epoch(self, shard: int) -> int:
        return self.acts_under

    def owner(self, shard: int) -> tuple[str, int]:
        return self.holder, self.recorded

    def see_epoch(self, shard: int, epoch: int) -> None:
        assert shard == QUESTION.shard
        self.seen.append(epoch)


class Fleet:
    """Who answers what, and who was asked."""

    def __init__(self, **answers: Answer | None) -> None:
        self.answers = answers
        self.asked: list[tuple[str, int]] = []
        self.on_ask: Callable[[], None] = lambda: None

    async def ask(self, owner: str, question: Question) -> Answer | None:
        self.asked.append((owner, question.epoch_known))
        self.on_ask()
        return self.answers[owner.partition("_")[0]]


def relay_of(fleet: Fleet, shards: Shards) -> Relay:
    return Relay(fleet.ask, shards, me=lambda: ME)


# --- asking ----------------------------------------------------------------------------------------------------------------


async def test_the_owner_is_asked_with_the_epoch_that_is_known_and_its_word_is_passed_on() -> None:
    for word in (Wanted(0), Wanted(7), Silence("not known yet")):
        fleet = Fleet(w1=word)
        assert await relay_of(fleet, Shards(OWNER)).ask(QUESTION) == word
        assert fleet.asked == [(OWNER, 5)]


@pytest.mark.parametrize("holder", ["", ME])
async def test_nobody_is_asked_when_nobody_else_owns_the_shard(holder: str) -> None:
    fleet = Fleet()
    assert await relay_of(fleet, Shards(holder)).ask(QUESTION) is None
    assert fleet.asked == []


async def test_who_is_not_the_owner_any_more_is_asked_once_and_what_it_knows_is_passed_on() -> None:
    fleet, shards = Fleet(w1=WrongOwner(6)), Shards(OWNER)
    relay = relay_of(fleet, shards)
    assert await relay.ask(QUESTION) is None
    assert (fleet.asked, shards.seen) == ([(OWNER, 5)], [6])
    assert relay.relayed["unanswered"] == 1


async def test_the_next_owner_is_asked_when_its_record_came_meanwhile() -> None:
    fleet, shards = Fleet(w1=WrongOwner(6), w2=Wanted(3)), Shards(OWNER)

    def move() -> None:
        shards.holder, shards.recorded = HEIR, 6

    fleet.on_ask = move
    assert await relay_of(fleet, shards).ask(QUESTION) == Wanted(3)
    assert fleet.asked == [(OWNER, 5), (HEIR, 6)]


async def test_a_shard_that_keeps_moving_is_not_followed_for_good() -> None:
    fleet, shards = Fleet(w1=WrongOwner(6), w2=WrongOwner(7), w3=Wanted(3)), Shards(OWNER)
    holders = iter([HEIR, "w3_aaaaaaaa_n1"])

    def move() -> None:
        shards.holder = next(holders)

    fleet.on_ask = move
    assert await relay_of(fleet, shards).ask(QUESTION) is None
    assert [holder for holder, _ in fleet.asked] == [OWNER, HEIR]


class Stuck:
    """An owner that never answers."""

    def __init__(self) -> None:
        self.waiting = 0

    async def ask(self, owner: str, question: Question) -> Answer | None:
        self.waiting += 1
        await asyncio.Event().wait()
        raise AssertionError


async def test_an_owner_that_does_not_answer_costs_no_more_than_the_time_for_a_relay() -> None:
    relay = Relay(Stuck().ask, Shards(OWNER), me=lambda: ME, seconds=0.05)
    async with asyncio.timeout(10):
        assert await relay.ask(QUESTION) is None
    assert relay.under_way == 0


async def test_relays_under_way_are_bounded_and_who_gives_up_makes_room() -> None:
    assert MAX_UNDER_WAY == 1000
    stuck = Stuck()
    relay = Relay(stuck.ask, Shards(OWNER), me=lambda: ME, most=2, seconds=60)
    waiting = [asyncio.create_task(relay.ask(QUESTION)) for _ in range(2)]
    await until(lambda: stuck.waiting == 2)
    async with asyncio.timeout(10):
        assert await relay.ask(QUESTION) is None, "at once, without asking"
    assert (stuck.waiting, relay.relayed["refused"]) == (2, 1)
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    assert relay.under_way == 0


# --- being asked -----------------------------------------------------------------------------------------------------------


def asked(epoch_known: int) -> Question:
    return Question(About.DEMAND, "ai/qwen", 10.0, 0.0, epoch_known)


@pytest.mark.parametrize("known", [0, 4, 5])
def test_an_owner_answers_who_knows_no_later_epoch(known: int) -> None:
    shards = Shards(ME, acts_under=5)
    assert Respondent(shards, lambda question: Wanted(2)).answer(asked(known)) == Wanted(2)
    assert shards.seen == []


def check_that_who_is_told_of_a_higher_epoch_does_not_answer(respondent: type[Respondent]) -> None:
    shards, answered = Shards(ME, acts_under=5), list[Question]()

    def answer(question: Question) -> Answer:
        answered.append(question)
        return Active(False)

    assert respondent(shards, answer).answer(asked(6)) == WrongOwner(5)
    assert (shards.seen, answered) == ([6], []), "it doubts itself, and says nothing of the service"


def check_that_who_does_not_own_the_shard_does_not_answer(respondent: type[Respondent]) -> None:
    shards = Shards(OWNER, 9)
    shards.acts_under = 5
    assert respondent(shards, lambda question: Wanted(0)).answer(asked(5)) == WrongOwner(9)


class IgnoresEpochs(Respondent):
    """Mutant."""

    def _is_behind(self, question: Question) -> bool:
        return False


class AnswersForAnyone(Respondent):
    """Mutant: whoever is asked answers."""

    def answer(self, question: Question) -> Answer:
        return self._answer(question)


RULES = [
    (check_that_who_is_told_of_a_higher_epoch_does_not_answer, IgnoresEpochs),
    (check_that_who_does_not_own_the_shard_does_not_answer, AnswersForAnyone),
]


@pytest.mark.parametrize("check", [check for check, _ in RULES], ids=lambda check: check.__name__)
def test_only_the_owner_answers(check: Callable[[type[Respondent]], None]) -> None:
    check(Respondent)


@pytest.mark.parametrize(("check", "mutant"), RULES, ids=lambda part: part.__name__)
def test_a_rule_that_is_switched_off_is_noticed(
    check: Callable[[type[Respondent]], None], mutant: type[Respondent]
) -> None:
    with pytest.raises(AssertionError):
        check(mutant)

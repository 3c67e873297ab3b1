"""KEDA asks any worker; only the owner's word is told, and without it nothing that could put a model to sleep."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noctaya.api.names import shard_of
from noctaya.wire import SERVER_OPTIONS, externalscaler_grpc, peer
from noctaya.workers.answering import Answering
from noctaya.workers.demand import AtLeast, Demand, Known, Unknown
from noctaya.workers.metric import Silence
from noctaya.workers.permission import Permission
from noctaya.workers.pushes import Pushes
from noctaya.workers.questions import (
    About,
    Active,
    Answer,
    Question,
    Stranger,
    Wanted,
    WrongOwner,
    read_answer,
    read_question,
    write_answer,
    write_question,
)
from noctaya.workers.recency import HOLD, Recency
from noctaya.workers.relay import Relay, Respondent
from noctaya.workers.scaler import ExternalScaler
from tests.workers.clients import Keda, keda
from tests.workers.peers.nodes import Addresses, Node

KEY = "ai/qwen"
SHARD = shard_of("ai", "qwen")
TARGET = 10.0
"""Of `clients.reference`."""


class Worker:
    """One worker's scaler and peers, and what it believes; turned by hand."""

    def __init__(self, pod: str, addresses: Addresses) -> None:
        self.node = Node(pod, addresses)
        self.demand: Demand = Known(0)
        self.allowed = Permission.NONE
        self.epoch_acted, self.holder, self.recorded = 0, "", 0
        self.known: bool | None = True
        self.replicas = 0
        self.is_current = True
        self.now = 1000.0
        self.seen_epochs: list[int] = []
        self.recency = Recency()
        self.relay = Relay(self.node.peers.ask, self, me=lambda: self.node.incarnation)
        self.scaler = ExternalScaler(
            demand=lambda key, now: self.demand,
            permission=self.permission,
            is_known=lambda key: self.known,
            pushes=Pushes(lambda key: False),
            replicas=lambda key: self.replicas,
            is_current=lambda: self.is_current,
            relay=self.relay.ask,
            recency=self.recency,
            clock=lambda: self.now,
        )
        self.node.says = Respondent(self, self.scaler.answer).answer

    def permission(self, shard: int) -> Permission:
        return self.allowed

    def epoch(self, shard: int) -> int:
        return self.epoch_acted

    def owner(self, shard: int) -> tuple[str, int]:
        return self.holder, self.recorded

    def see_epoch(self, shard: int, epoch: int) -> None:
        self.seen_epochs.append(epoch)

    def own(self, epoch: int = 5) -> None:
        self.allowed, self.epoch_acted = Permission.ACT, epoch
        self.holder, self.recorded = self.node.incarnation, epoch

    def believe(self, owner: Worker, epoch: int = 5) -> None:
        self.holder, self.recorded = owner.node.incarnation, epoch

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Keda]:
        server = grpc.aio.server(options=SERVER_OPTIONS)
        externalscaler_grpc.add_ExternalScalerServicer_to_server(self.scaler, server)
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        try:
            async with self.node.running(), keda(port) as client:
                yield client
        finally:
            await server.stop(None)


@asynccontextmanager
async def fleet() -> AsyncIterator[tuple[Worker, Worker, Keda]]:
    """KEDA is connected to `asked`; `owner` owns the shard, and both know it."""
    addresses = Addresses()
    asked, owner = Worker("w0", addresses), Worker("w1", addresses)
    owner.own()
    asked.believe(owner)
    asked.demand = Unknown()
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(asked.running())
        await stack.enter_async_context(owner.running())
        yield asked, owner, client


async def refused(call: Awaitable[Any]) -> grpc.StatusCode:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code()


# --- the owner's word ------------------------------------------------------------------------------------------------------


async def test_the_owners_word_is_told_as_it_is() -> None:
    async with fleet() as (asked, owner, client):
        assert await client.is_active() is False
        assert (await client.metric()).metricValue == 0
        owner.demand = Known(7)
        asked.demand, asked.replicas = Known(0), 3
        assert await client.is_active() is True
        value = await client.metric()
        assert (value.metricValue, value.metricValueFloat) == (7, 7.0)
        assert asked.relay.relayed == {"answered": 4, "unanswered": 0, "refused": 0}


async def test_the_owners_silence_is_told_as_it_is() -> None:
    async with fleet() as (asked, owner, client):
        owner.demand = Unknown()
        asked.demand = Known(3)
        assert await refused(client.is_active()) is grpc.StatusCode.UNAVAILABLE
        assert await refused(client.metric()) is grpc.StatusCode.UNAVAILABLE


async def test_what_the_owner_does_not_know_is_no_service() -> None:
    async with fleet() as (_, owner, client):
        owner.known = False
        assert await refused(client.is_active()) is grpc.StatusCode.NOT_FOUND


async def test_a_worker_that_has_just_started_asks_the_owner_all_the_same() -> None:
    async with fleet() as (asked, owner, client):
        asked.known, owner.demand = None, Known(2)
        assert (await client.metric()).metricValue == 2


async def test_the_owner_holds_a_service_active_for_the_hold_of_the_trigger() -> None:
    async with fleet() as (_, owner, client):
        owner.recency.ended(KEY, owner.now - 4.0)
        assert await client.is_active(**{HOLD: "5"}) is True
        assert await client.is_active(**{HOLD: "3"}) is False


async def test_the_owner_keeps_the_replicas_by_the_target_of_the_trigger() -> None:
    async with fleet() as (_, owner, client):
        owner.demand, owner.replicas = Unknown(), 2
        assert (await client.metric()).metricValueFloat == 2 * TARGET


def through_the_wire(answer: Callable[[Question], Answer]) -> Callable[[Question], Awaitable[Answer]]:
    async def ask(question: Question) -> Answer:
        sent = write_question(question, "f1").SerializeToString()
        told = write_answer(answer(read_question(peer.Question.FromString(sent)))).SerializeToString()
        return read_answer(peer.Answer.FromString(told), question.about)

    return ask


demands = st.one_of(
    st.builds(Known, st.integers(0, 50)),
    st.builds(AtLeast, st.integers(0, 50)),
    st.builds(Unknown, st.integers(0, 50)),
)


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(
            demands,
            st.sampled_from([Permission.ACT, Permission.GROW]),
            st.integers(0, 3),
            st.sampled_from([True, True, True, False, None]),
            st.sampled_from(About),
            st.floats(0.1, 100.0),
            st.integers(0, 20).map(float),
        ),
        max_size=8,
    )
)
def test_whoever_keda_asks_it_is_told_what_the_owner_would_tell(calls: list[tuple[Any, ...]]) -> None:
    state: tuple[Demand, Permission, int, bool | None] = (Known(0), Permission.ACT, 0, True)
    recency = Recency()
    recency.ended(KEY, 990.0)

    def owner() -> Answering:
        return Answering(
            demand=lambda key, now: state[0],
            permission=lambda shard: state[1],
            is_known=lambda key: state[3],
            replicas=lambda key: state[2],
            is_current=lambda: True,
            recency=recency,
            relay=None,
            clock=lambda: 1000.0,
        )

    # Two owners that live through the same: one that KEDA asks, one that a peer asks.
    direct, distant = owner(), owner()
    asker = Answering(
        demand=lambda key, now: Known(0),
        permission=lambda shard: Permission.NONE,
        is_known=lambda key: True,
        replicas=lambda key: 9,
        is_current=lambda: True,
        recency=Recency(),
        relay=through_the_wire(distant.own),
        clock=lambda: 1000.0,
    )

    async def run() -> None:
        nonlocal state
        for demand, permission, replicas, known, about, target, hold in calls:
            state = (demand, permission, replicas, known)
            question = Question(about, KEY, target, hold)
            assert await asker.answer(question) == await direct.answer(question)

    asyncio.run(run())


# --- without it ------------------------------------------------------------------------------------------------------------


Ask = Callable[[Question], Awaitable[Answer | None]]


async def nobody(question: Question) -> Answer | None:
    return None


def asker(
    kind: type[Answering],
    *,
    replicas: int,
    is_current: bool = True,
    demand: Demand = Known(0),  # noqa: B008
    known: bool | None = True,
    relay: Ask | None = nobody,
) -> Answering:
    return kind(
        demand=lambda key, now: demand,
        permission=lambda shard: Permission.NONE,
        is_known=lambda key: known,
        replicas=lambda key: replicas,
        is_current=lambda: is_current,
        recency=Recency(),
        relay=relay,
        clock=lambda: 1000.0,
    )


ACTIVE, DEMAND = Question(About.ACTIVE, KEY, TARGET), Question(About.DEMAND, KEY, TARGET)


async def check_that_a_model_that_is_awake_is_kept_so(kind: type[Answering]) -> None:
    """Whatever this worker believes of the demand: it is not the owner."""
    for demand in (Known(0), Known(1), Known(99), Unknown(), AtLeast(1)):
        for relay in (nobody, None):
            answering = asker(kind, replicas=2, demand=demand, relay=relay)
            assert await answering.answer(ACTIVE) == Active(True)
            assert await answering.answer(DEMAND) == Wanted(20)


async def check_that_a_view_that_is_not_current_keeps_nobody_awake(kind: type[Answering]) -> None:
    """The replicas that it shows may be long gone, or more by now."""
    for question in (ACTIVE, DEMAND):
        assert isinstance(await asker(kind, replicas=2, is_current=False).answer(question), Silence)


async def check_that_of_a_model_that_sleeps_nothing_is_told(kind: type[Answering]) -> None:
    for demand in (Known(0), Known(3), Unknown(2)):
        for question in (ACTIVE, DEMAND):
            answer = await asker(kind, replicas=0, demand=demand).answer(question)
            assert isinstance(answer, Silence)


class TellsItsOwn(Answering):
    """Mutant: without the owner it tells what it believes itself."""

    def _without_owner(self, question: Question) -> Answer:
        demand = self._demand(question.key, 0.0)
        value = demand.seen if isinstance(demand, Unknown) else demand.value
        return Active(value > 0) if question.about is About.ACTIVE else Wanted(value)


class TrustsAnyView(Answering):
    """Mutant: a view of the Deployments is a view."""

    def _without_owner(self, question: Question) -> Answer:
        self._is_current = lambda: True
        return super()._without_owner(question)


class Silent(Answering):
    """Mutant: without the owner nothing is told, which puts a model to sleep once errors have lasted."""

    def _without_owner(self, question: Question) -> Answer:
        return Silence("no owner")


Check = Callable[[type[Answering]], Awaitable[None]]
RULES: list[tuple[Check, type[Answering]]] = [
    (check_that_a_model_that_is_awake_is_kept_so, TellsItsOwn),
    (check_that_a_model_that_is_awake_is_kept_so, Silent),
    (check_that_a_view_that_is_not_current_keeps_nobody_awake, TrustsAnyView),
    (check_that_of_a_model_that_sleeps_nothing_is_told, TellsItsOwn),
]


@pytest.mark.parametrize("check", dict(RULES), ids=lambda check: check.__name__)
async def test_without_the_owners_word_nothing_puts_a_model_to_sleep(check: Check) -> None:
    await check(Answering)


@pytest.mark.parametrize(("check", "mutant"), RULES, ids=lambda part: part.__name__)
async def test_a_rule_that_is_switched_off_is_noticed(check: Check, mutant: type[Answering]) -> None:
    with pytest.raises(AssertionError):
        await check(mutant)


@pytest.mark.parametrize(("known", "told"), [(None, Silence), (False, Stranger)])
async def test_without_the_owners_word_a_service_that_is_not_known_here_is_not_held(
    known: bool | None, told: type[Answer]
) -> None:
    assert isinstance(await asker(Answering, replicas=2, known=known).answer(ACTIVE), told)


async def test_an_answer_to_another_question_is_not_taken_for_zero() -> None:
    async with fleet() as (asked, _, client):

        async def wrong(question: Question) -> Answer:
            return Active(False) if question.about is About.DEMAND else WrongOwner(3)

        asked.scaler.answering._relay = wrong
        assert await refused(client.metric()) is grpc.StatusCode.UNAVAILABLE
        assert await refused(client.is_active()) is grpc.StatusCode.UNAVAILABLE


async def test_a_worker_that_became_the_owner_while_it_asked_answers_itself() -> None:
    async with fleet() as (asked, _, client):

        async def meanwhile(question: Question) -> Answer | None:
            asked.own(6)
            asked.demand = Known(4)
            return None

        asked.scaler.answering._relay = meanwhile
        assert (await client.metric()).metricValue == 4


async def test_with_the_owner_dead_a_model_is_held_and_a_sleeping_one_gets_no_answer() -> None:
    async with fleet() as (asked, owner, client):
        asked.node.addresses.of["w1"] = "127.0.0.1:1"
        assert await refused(client.is_active()) is grpc.StatusCode.UNAVAILABLE
        asked.replicas, asked.demand = 2, Known(0)
        assert await client.is_active() is True
        assert (await client.metric()).metricValue == 20
        assert asked.scaler.answering.ownerless == {"held": 2, "silent": 1}
        assert owner.node.questions == []


# --- who owns it -----------------------------------------------------------------------------------------------------------


async def test_an_owner_that_is_told_of_a_higher_epoch_says_nothing_and_doubts_itself() -> None:
    async with fleet() as (asked, owner, client):
        asked.recorded = 6
        assert await refused(client.is_active()) is grpc.StatusCode.UNAVAILABLE
        assert owner.seen_epochs == [6]


async def test_two_workers_that_take_each_other_for_the_owner_ask_once_and_no_further() -> None:
    async with fleet() as (asked, owner, client):
        owner.allowed, owner.recorded = Permission.NONE, 7
        owner.holder = asked.node.incarnation
        assert await refused(client.metric()) is grpc.StatusCode.UNAVAILABLE
        assert (len(owner.node.questions), asked.node.questions) == (1, [])
        assert asked.seen_epochs == [7], "what it has learned may move its own view on"


async def test_streams_stay_where_they_are() -> None:
    async with fleet() as (_, owner, client), client.stream() as stream:
        owner.demand = Known(3)
        assert await client.is_active() is True
        assert stream.values == []
        assert [question.about for question in owner.node.questions] == [About.ACTIVE]

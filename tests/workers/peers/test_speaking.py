"""Workers speak to each other over real connections; whoever is dead, slow, another process or fleet did not hear."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio
import pytest

from noctaya.errors import NoctayaError
from noctaya.wire import PEER_OPTIONS, peer, peer_grpc
from noctaya.workers import shard_events as owns
from noctaya.workers.peer_channels import insecure
from noctaya.workers.peer_service import PeerService
from noctaya.workers.peers import ASK_SECONDS, TELL_SECONDS, Peers
from noctaya.workers.questions import About, Active, Question, Wanted
from noctaya.workers.relay import RELAY_SECONDS
from noctaya.workers.shard_memory import ServiceMemory, ShardMemory
from tests.wire.test_options import LIBRARY
from tests.workers.clients import until
from tests.workers.peers.nodes import FLEET, Addresses, Node, serving, two
from tests.workers.peers.test_notes import KEY, OUT_OF_BOUNDS, SHARD

PREPARE = owns.Prepare("", 3)
QUESTION = Question(About.ACTIVE, KEY, 10.0, 5.0, 4)
PATIENCE_SECONDS = 20.0
"""Deadlines are a second; the machine may be busy. Without any, all this would wait for good."""


async def in_time(work: Awaitable[Any]) -> Any:
    async with asyncio.timeout(PATIENCE_SECONDS):
        return await work


@asynccontextmanager
async def raw(port_of: Node) -> AsyncIterator[Any]:
    """A stub for notes that no worker of ours would send."""
    async with insecure(port_of.addresses(port_of.pod)) as channel:
        yield peer_grpc.PeerStub(channel)


async def code_of(call: Awaitable[object]) -> grpc.StatusCode:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return caught.value.code()


# --- heard -----------------------------------------------------------------------------------------------------------------


async def test_a_note_is_heard_by_the_incarnation_that_it_is_for() -> None:
    async with two() as (me, you):
        assert await me.peers.tell(you.incarnation, PREPARE)
        assert you.heard == [owns.PrepareAsked(me.incarnation, 3)]
        assert me.heard == []
        assert me.peers.told["heard"] == 1
        assert you.service.notes == {("prepare", "heard"): 1}


async def test_a_shards_memory_is_handed_over() -> None:
    memory = ShardMemory(SHARD, 5, (ServiceMemory(KEY, 3, 0.25),))
    async with two() as (me, you):
        assert await me.peers.tell(you.incarnation, memory)
        assert (you.memories, you.heard) == ([memory], [])


async def test_a_sign_of_life_is_given_and_says_nothing_to_the_core() -> None:
    async with two() as (me, you):
        assert await me.peers.probe(you.incarnation, me.addresses("w1"))
        assert you.has_heard_nothing


async def test_a_question_is_answered() -> None:
    async with two() as (me, you):
        you.says = lambda question: Active(True)
        assert await me.peers.ask(you.incarnation, QUESTION) == Active(True)
        assert you.questions == [QUESTION]
        assert you.service.questions == {("active", "is_active"): 1}


# --- not heard -------------------------------------------------------------------------------------------------------------


async def check_that_a_note_for_another_incarnation_is_not_taken(service: type[PeerService]) -> None:
    async with two(service=service) as (me, you):
        former = you.incarnation
        you.incarnation = "w1_aaaaaaaa_n2"
        assert not await me.peers.tell(former, PREPARE)
        assert not await me.peers.probe(former, me.addresses("w1"))
        assert you.has_heard_nothing
        assert me.peers.told["not_heard"] == 2


async def check_that_a_note_of_another_fleet_is_not_taken(service: type[PeerService]) -> None:
    async with two(service=service) as (me, you):
        me.fleet = "f2"
        assert not await me.peers.tell(you.incarnation, PREPARE)
        assert you.has_heard_nothing


async def check_that_nothing_is_for_a_process_that_is_nobody(service: type[PeerService]) -> None:
    async with two(service=service) as (me, you):
        you.incarnation = ""
        async with raw(you) as stub:
            note = peer.Note(fleet=FLEET, sender=me.incarnation, receiver="", prepare=peer.Prepare(shard=3))
            assert not (await stub.Tell(note, timeout=5)).is_heard
        you.incarnation, you.fleet = "w1_aaaaaaaa_n1", ""
        async with raw(you) as stub:
            note = peer.Note(sender=me.incarnation, receiver=you.incarnation, prepare=peer.Prepare(shard=3))
            assert not (await stub.Tell(note, timeout=5)).is_heard
        assert you.has_heard_nothing


async def check_that_a_question_of_another_fleet_is_not_answered(service: type[PeerService]) -> None:
    async with two(service=service) as (me, you):
        you.says = lambda question: Active(False)
        me.fleet = "f2"
        assert await me.peers.ask(you.incarnation, QUESTION) is None
        assert you.has_heard_nothing
        async with raw(you) as stub:
            request = peer.Question(
                fleet="f2", namespace="ai", name="qwen", about=peer.Question.ACTIVE, target=1.0
            )
            assert await code_of(stub.Ask(request, timeout=5)) is grpc.StatusCode.FAILED_PRECONDITION


class HearsForAnyIncarnation(PeerService):
    """Mutant."""

    def _is_us(self, receiver: str) -> bool:
        return True


class HearsForNobody(PeerService):
    """Mutant: empty names are equal to empty names."""

    def _is_our_fleet(self, fleet: str) -> bool:
        return fleet == self._fleet()

    def _is_us(self, receiver: str) -> bool:
        return receiver == self._me()


class HearsEveryFleet(PeerService):
    """Mutant."""

    def _is_our_fleet(self, fleet: str) -> bool:
        return True


Check = Callable[[type[PeerService]], Awaitable[None]]
RULES: list[tuple[Check, type[PeerService]]] = [
    (check_that_a_note_for_another_incarnation_is_not_taken, HearsForAnyIncarnation),
    (check_that_a_note_of_another_fleet_is_not_taken, HearsEveryFleet),
    (check_that_nothing_is_for_a_process_that_is_nobody, HearsForNobody),
    (check_that_a_question_of_another_fleet_is_not_answered, HearsEveryFleet),
]


@pytest.mark.parametrize("check", [check for check, _ in RULES], ids=lambda check: check.__name__)
async def test_what_is_not_for_this_process_is_not_taken(check: Check) -> None:
    await check(PeerService)


@pytest.mark.parametrize(("check", "mutant"), RULES, ids=lambda part: part.__name__)
async def test_a_rule_that_is_switched_off_is_noticed(check: Check, mutant: type[PeerService]) -> None:
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        await check(mutant)


@pytest.mark.parametrize("note", OUT_OF_BOUNDS.values(), ids=OUT_OF_BOUNDS)
async def test_what_cannot_be_is_refused_and_nothing_of_it_is_taken(note: peer.Note) -> None:
    async with two() as (_, you), raw(you) as stub:
        ours = peer.Note()
        ours.CopyFrom(note)
        ours.fleet, ours.receiver = FLEET, you.incarnation
        assert await code_of(stub.Tell(ours, timeout=10)) is grpc.StatusCode.INVALID_ARGUMENT
        assert you.has_heard_nothing
        assert list(you.service.notes) == [(note.WhichOneof("kind") or "unknown", "refused")]


async def test_a_question_that_cannot_be_is_refused() -> None:
    async with two() as (_, you), raw(you) as stub:
        request = peer.Question(fleet=FLEET, namespace="ai", name="qwen", about=peer.Question.ACTIVE)
        assert await code_of(stub.Ask(request, timeout=5)) is grpc.StatusCode.INVALID_ARGUMENT
        assert you.questions == []
        assert you.service.questions == {("active", "refused"): 1}


async def test_an_answer_that_cannot_be_is_none(caplog: pytest.LogCaptureFixture) -> None:
    async with two() as (me, you):
        you.says = lambda question: Wanted(0)
        assert await me.peers.ask(you.incarnation, QUESTION) is None, "a demand is no answer about activity"
    assert "a peer's answer cannot be" in caplog.text


# --- nobody there ----------------------------------------------------------------------------------------------------------


class Slow(peer_grpc.PeerServicer):
    """Answers when told to; counts who waits, and who was cut off."""

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.waiting = 0

    async def _wait(self) -> None:
        self.waiting += 1
        try:
            await self.may_answer.wait()
        finally:
            self.waiting -= 1

    async def Tell(self, request: peer.Note, context: Any) -> peer.Receipt:  # noqa: N802
        await self._wait()
        return peer.Receipt(is_heard=True)

    async def Ask(self, request: peer.Question, context: Any) -> peer.Answer:  # noqa: N802
        await self._wait()
        return peer.Answer(is_active=True)


def caller(address: str) -> Peers:
    return Peers(fleet=lambda: FLEET, me=lambda: "w0_aaaaaaaa_n1", address_of=lambda pod: address)


async def all_three(peers: Peers, address: str) -> list[Any]:
    other = "w1_aaaaaaaa_n1"
    return list(
        await asyncio.gather(
            peers.tell(other, PREPARE), peers.probe(other, address), peers.ask(other, QUESTION)
        )
    )


def test_no_call_may_take_longer_than_a_second() -> None:
    """KEDA waits for a question, and a handover for a note."""
    assert max(TELL_SECONDS, ASK_SECONDS, RELAY_SECONDS) <= 1.0


async def test_a_slow_peer_costs_a_second_and_did_not_hear() -> None:
    slow = Slow()
    async with serving(slow) as port:
        peers = caller(f"127.0.0.1:{port}")
        assert await in_time(all_three(peers, f"127.0.0.1:{port}")) == [False, False, None]
        assert peers.told["unanswered"] == 2
        assert peers.asked["unanswered"] == 1
        await until(lambda: slow.waiting == 0)
        await peers.close()


async def test_a_dead_peer_did_not_hear() -> None:
    async with serving(Slow()) as port:
        pass
    peers = caller(f"127.0.0.1:{port}")
    assert await in_time(all_three(peers, f"127.0.0.1:{port}")) == [False, False, None]
    await peers.close()


async def test_an_address_that_takes_connections_and_says_nothing_costs_no_more() -> None:
    writers: list[asyncio.StreamWriter] = []
    server = await asyncio.start_server(lambda reader, writer: writers.append(writer), "127.0.0.1", 0)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    peers = caller(address)
    assert await in_time(all_three(peers, address)) == [False, False, None]
    await peers.close()
    server.close()
    for writer in writers:
        writer.close()
    await server.wait_closed()


@pytest.mark.parametrize("address", ["", "no address at all", "[::", "127.0.0.1:99999", "nowhere.invalid:1"])
async def test_an_address_that_is_none_is_nobodys(address: str) -> None:
    peers = caller(address)
    assert await in_time(all_three(peers, address)) == [False, False, None]
    await peers.close()


async def test_who_is_nobody_or_speaks_to_nobody_says_nothing() -> None:
    async with two() as (me, you):
        assert not await me.peers.tell("", PREPARE)
        assert not await me.peers.tell("w7_aaaaaaaa_n1", PREPARE), "no record says where that is"
        me.incarnation = ""
        assert not await me.peers.tell(you.incarnation, PREPARE)
        assert await me.peers.probe(you.incarnation, me.addresses("w1")), "a sign of life needs no name"
        me.fleet = ""
        assert not await me.peers.probe(you.incarnation, me.addresses("w1"))
        assert await me.peers.ask(you.incarnation, QUESTION) is None
        assert you.has_heard_nothing
        assert (me.peers.told["unaddressed"], me.peers.asked["unaddressed"]) == (4, 1)


async def test_who_has_resigned_says_so_for_the_incarnation_that_did() -> None:
    async with two() as (me, you):
        former, me.incarnation = me.incarnation, "w0_aaaaaaaa_n2"
        assert await me.peers.tell(you.incarnation, owns.AnswerResigned(you.incarnation, 3, former, 8))
        assert you.heard == [owns.Resigned(3, former, 8)]


async def test_a_peer_that_comes_back_is_reached() -> None:
    addresses = Addresses()
    me = Node("w0", addresses)
    async with Node("w1", addresses).running() as you:
        assert await me.peers.tell(you.incarnation, PREPARE)
        port = int(addresses("w1").rpartition(":")[2])
    assert not await in_time(me.peers.tell(you.incarnation, PREPARE))
    async with Node("w1", addresses, nonce="n2").running(port) as again:
        assert not await me.peers.tell(you.incarnation, PREPARE), "that one is over"

        async def reached() -> None:
            while not await me.peers.tell(again.incarnation, PREPARE):
                assert again.heard == []

        await in_time(reached())
        assert again.heard == [owns.PrepareAsked(me.incarnation, 3)]
        assert await in_time(me.peers.ask(again.incarnation, QUESTION)) is not None
        await me.peers.close()


def test_a_connection_that_failed_is_tried_again_within_a_second() -> None:
    options = dict(PEER_OPTIONS)
    assert options["grpc.max_reconnect_backoff_ms"] <= 1000
    assert options["grpc.min_reconnect_backoff_ms"] <= 1000
    assert all(key.encode() + b"\0" in LIBRARY for key in options), "a mistyped option would be ignored"


async def test_a_channel_that_cannot_be_made_is_a_peer_that_did_not_hear() -> None:
    class NoCertificate(NoctayaError):
        pass

    def open_channel(address: str) -> grpc.aio.Channel:
        raise NoCertificate(address)

    peers = Peers(
        fleet=lambda: FLEET,
        me=lambda: "w0_aaaaaaaa_n1",
        address_of=lambda pod: "127.0.0.1:1",
        open_channel=open_channel,
    )
    assert await all_three(peers, "127.0.0.1:1") == [False, False, None]


async def test_close_ends_what_is_under_way_as_not_heard() -> None:
    slow = Slow()
    async with serving(slow) as port:
        peers = caller(f"127.0.0.1:{port}")
        telling = asyncio.create_task(peers.tell("w1_aaaaaaaa_n1", PREPARE))
        await until(lambda: slow.waiting == 1)
        await peers.close()
        assert await in_time(telling) is False
        assert await peers.probe("w1_aaaaaaaa_n1", f"127.0.0.1:{port}") is False


async def test_a_cancelled_caller_is_cancelled_also_while_all_is_closed() -> None:
    slow = Slow()
    async with serving(slow) as port:
        peers = caller(f"127.0.0.1:{port}")
        telling = asyncio.create_task(peers.tell("w1_aaaaaaaa_n1", PREPARE))
        await until(lambda: slow.waiting == 1)
        telling.cancel()
        await peers.close()
        with pytest.raises(asyncio.CancelledError):
            await telling

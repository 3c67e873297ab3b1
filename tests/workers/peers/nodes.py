"""Workers that speak to each other on loopback: the calling and the hearing side of each, and what it heard."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import grpc.aio

from noctaya.wire import SERVER_OPTIONS, peer_grpc
from noctaya.workers import shard_events as owns
from noctaya.workers.metric import Silence
from noctaya.workers.peer_service import PeerService
from noctaya.workers.peers import Peers
from noctaya.workers.questions import Answer, Question
from noctaya.workers.shard_memory import ShardMemory

FLEET = "f1"


class Addresses:
    """Where each pod can be reached, as everybody's member records say."""

    def __init__(self) -> None:
        self.of: dict[str, str] = {}

    def __call__(self, pod: str) -> str:
        return self.of.get(pod, "")


class Node:
    """One worker process."""

    def __init__(
        self,
        pod: str,
        addresses: Addresses,
        *,
        fleet: str = FLEET,
        nonce: str = "n1",
        service: type[PeerService] = PeerService,
    ) -> None:
        self.pod = pod
        self.fleet = fleet
        self.incarnation = f"{pod}_aaaaaaaa_{nonce}"
        self.addresses = addresses
        self.heard: list[owns.Event] = []
        self.memories: list[ShardMemory] = []
        self.questions: list[Question] = []
        self.says: Callable[[Question], Answer] = lambda question: Silence("nothing to say")
        self.service = service(
            lambda: self.fleet, lambda: self.incarnation, self.heard.append, self.memories.append, self.answer
        )
        self.peers = Peers(fleet=lambda: self.fleet, me=lambda: self.incarnation, address_of=addresses)

    def answer(self, question: Question) -> Answer:
        self.questions.append(question)
        return self.says(question)

    @property
    def has_heard_nothing(self) -> bool:
        return not (self.heard or self.memories or self.questions)

    @asynccontextmanager
    async def running(self, port: int = 0) -> AsyncIterator[Node]:
        async with serving(self.service, port) as bound:
            self.addresses.of[self.pod] = f"127.0.0.1:{bound}"
            try:
                yield self
            finally:
                await self.peers.close()


@asynccontextmanager
async def serving(service: peer_grpc.PeerServicer, port: int = 0) -> AsyncIterator[int]:
    """A server with nothing but `service`; its port."""
    server = grpc.aio.server(options=SERVER_OPTIONS)
    peer_grpc.add_PeerServicer_to_server(service, server)
    bound = server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    try:
        yield bound
    finally:
        await server.stop(None)


@asynccontextmanager
async def two(*, service: type[PeerService] = PeerService) -> AsyncIterator[tuple[Node, Node]]:
    """Two workers of one fleet that know each other's addresses."""
    addresses = Addresses()
    async with (
        Node("w0", addresses, service=service).running() as first,
        Node("w1", addresses, service=service).running() as second,
    ):
        yield first, second

"""Two services under the names of ours that answer with what they were told, to see who gets through to them."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio

from noctaya.wire.identity import Role
from noctaya.wire.material import Material, Source
from noctaya.wire.mutual_tls import RoleCheck, SecureChannels, add_port
from tests.wire.fleet_material import NAMESPACE, Given

CONTROL, PEER, NOBODYS = "noctaya.control.v1.Control", "noctaya.peer.v1.Peer", "noctaya.other.v1.Other"
ALLOWED = {CONTROL: (Role.GATEWAY,), PEER: (Role.WORKER,)}
SECONDS = 10.0


class Echo:
    """What its handlers were called with."""

    def __init__(self) -> None:
        self.heard: list[bytes] = []

    async def one(self, request: bytes, context: Any) -> bytes:
        self.heard.append(request)
        return request

    async def many(self, request: bytes, context: Any) -> AsyncIterator[bytes]:
        self.heard.append(request)
        yield request
        yield request

    async def joined(self, requests: AsyncIterator[bytes], context: Any) -> bytes:
        heard = [request async for request in requests]
        self.heard += heard
        return b"".join(heard)

    async def written(self, requests: AsyncIterator[bytes], context: Any) -> None:
        async for request in requests:
            self.heard.append(request)
            await context.write(request)

    def on_a_thread(self, request: bytes, context: Any) -> bytes:
        self.heard.append(request)
        return request

    def handlers(self, service: str) -> grpc.GenericRpcHandler:
        methods: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            "One": grpc.unary_unary_rpc_method_handler(self.one),
            "Many": grpc.unary_stream_rpc_method_handler(self.many),
            "Joined": grpc.stream_unary_rpc_method_handler(self.joined),
            "Written": grpc.stream_stream_rpc_method_handler(self.written),
            "Thread": grpc.unary_unary_rpc_method_handler(self.on_a_thread),
        }
        return grpc.method_handlers_generic_handler(service, methods)


class Served:
    """A server with the role check, and how to reach it."""

    def __init__(self, port: int, echo: Echo, check: RoleCheck) -> None:
        self.address, self.echo, self.check = f"127.0.0.1:{port}", echo, check

    def channel(self, material: Material) -> Any:
        """An open channel; untyped, since its type knows no calls of bare bytes."""
        return SecureChannels(Given(material))(self.address)

    async def ask(self, material: Material, service: str, text: bytes = b"hello") -> bytes:
        """One call on a channel of its own."""
        async with self.channel(material) as channel:
            return await ask(channel, service, text)


async def ask(channel: Any, service: str, text: bytes = b"hello") -> bytes:
    """One unary call."""
    answer: bytes = await channel.unary_unary(f"/{service}/One")(text, timeout=SECONDS)
    return answer


async def code_of(call: Any) -> grpc.StatusCode:
    """How a call that fails ends."""
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return error.code()
    return grpc.StatusCode.OK


@contextlib.asynccontextmanager
async def served(source: Source) -> AsyncIterator[Served]:
    """The echo on a free port with mutual TLS."""
    echo, check = Echo(), RoleCheck(NAMESPACE, ALLOWED)
    server = grpc.aio.server(interceptors=[check])
    server.add_generic_rpc_handlers([echo.handlers(service) for service in (CONTROL, PEER, NOBODYS)])
    port = add_port(server, "127.0.0.1:0", source)
    await server.start()
    try:
        yield Served(port, echo, check)
    finally:
        await server.stop(0)

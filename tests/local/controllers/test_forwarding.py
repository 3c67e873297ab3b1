"""The port forwarder: endpoints in turn, dead ones passed over, half-closed connections kept."""

import asyncio
import socket

from noctaya.local.controllers.forwarding import Forwarder


async def echo_server(name: bytes) -> tuple[asyncio.Server, int]:
    """Answers with its name and everything it got, once the client has finished sending."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(name + await reader.read())
        await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    return server, server.sockets[0].getsockname()[1]


async def ask(port: int, text: bytes) -> bytes:
    async with asyncio.timeout(3):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(text)
        writer.write_eof()
        try:
            return await reader.read()
        finally:
            writer.close()
            await writer.wait_closed()


async def test_connections_go_round_and_a_dead_endpoint_is_passed_over() -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        dead = closed.getsockname()[1]
    one, one_port = await echo_server(b"one:")
    two, two_port = await echo_server(b"two:")
    forwarder = Forwarder("127.0.0.1", 0)
    forwarder.endpoints = [("127.0.0.1", dead), ("127.0.0.1", one_port), ("127.0.0.1", two_port)]
    await forwarder.open()

    answers = [await ask(forwarder.port, b"x" * 100_000) for _ in range(6)]

    assert {answer[:4] for answer in answers} == {b"one:", b"two:"}
    assert all(len(answer) == 100_004 for answer in answers)
    await forwarder.close()
    one.close()
    two.close()


async def test_without_endpoints_a_connection_is_closed_at_once() -> None:
    forwarder = Forwarder("127.0.0.1", 0)
    await forwarder.open()
    try:
        assert await ask(forwarder.port, b"hello") == b""
    except ConnectionResetError:
        pass  # closed before it was read: just as well
    await forwarder.close()


async def test_closing_cuts_open_connections() -> None:
    server, port = await echo_server(b"")
    forwarder = Forwarder("127.0.0.1", 0)
    forwarder.endpoints = [("127.0.0.1", port)]
    await forwarder.open()
    reader, writer = await asyncio.open_connection("127.0.0.1", forwarder.port)
    writer.write(b"still open")
    await writer.drain()

    async with asyncio.timeout(3):
        await forwarder.close()
        assert await read_to_the_end(reader) == b""
    writer.close()
    server.close()


async def read_to_the_end(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""

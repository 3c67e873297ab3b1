"""Mutual TLS over real connections: who gets through, to what, and what becomes of connections when certificates change."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from noctaya.wire import CLIENT_OPTIONS
from noctaya.wire.errors import MaterialMissing
from noctaya.wire.identity import WORKER_NAME, Role
from noctaya.wire.material import Material, MountedMaterial
from noctaya.wire.mutual_tls import TARGET_NAME, SecureChannels
from tests.wire.echo import CONTROL, NOBODYS, PEER, SECONDS, Served, ask, code_of, served
from tests.wire.fleet_material import Given, Issuer, Mount, is_secret_free

ISSUER = Issuer()
WORKER, GATEWAY = ISSUER.material(Role.WORKER), ISSUER.material(Role.GATEWAY)
DENIED, UNAVAILABLE = grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAVAILABLE


@pytest.fixture
async def server() -> AsyncIterator[Served]:
    async with served(Given(WORKER)) as running:
        yield running


# -- roles -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("material", "mine", "others"),
    [(GATEWAY, CONTROL, PEER), (WORKER, PEER, CONTROL)],
    ids=["gateway", "worker"],
)
async def test_a_role_is_checked_for_each_call_of_one_connection(
    server: Served, material: Material, mine: str, others: str
) -> None:
    async with server.channel(material) as channel:
        assert await ask(channel, mine) == b"hello"
        assert await code_of(ask(channel, others, b"no")) is DENIED
        assert await code_of(ask(channel, NOBODYS, b"no")) is DENIED
        assert await ask(channel, mine) == b"hello"
    assert server.echo.heard == [b"hello", b"hello"]
    assert server.check.refused == {
        (service, "gateway" if material is GATEWAY else "worker"): 1 for service in (others, NOBODYS)
    }


async def test_calls_of_every_kind_pass_the_check_and_keep_how_they_answer(server: Served) -> None:
    async with server.channel(GATEWAY) as channel:
        path = f"/{CONTROL}/"
        many = [each async for each in channel.unary_stream(path + "Many")(b"a", timeout=SECONDS)]
        joined = await channel.stream_unary(path + "Joined")(iter([b"b", b"c"]), timeout=SECONDS)
        written = [
            each async for each in channel.stream_stream(path + "Written")(iter([b"d"]), timeout=SECONDS)
        ]
    assert (many, joined, written) == ([b"a", b"a"], b"bc", [b"d"])


async def test_calls_of_every_kind_are_refused_before_their_handler_runs(server: Served) -> None:
    async with server.channel(GATEWAY) as channel:
        path = f"/{PEER}/"
        calls: list[Any] = [
            channel.unary_unary(path + "One")(b"x", timeout=SECONDS),
            anext(aiter(channel.unary_stream(path + "Many")(b"x", timeout=SECONDS)), None),
            channel.stream_unary(path + "Joined")(iter([b"x"]), timeout=SECONDS),
            anext(aiter(channel.stream_stream(path + "Written")(iter([b"x"]), timeout=SECONDS)), None),
        ]
        assert [await code_of(call) for call in calls] == [DENIED] * 4
    assert server.echo.heard == []


async def test_a_handler_on_a_thread_is_not_served(server: Served) -> None:
    """gRPC would hand it another context; none of ours is one, but for those that generated code puts in for a missing one."""
    async with server.channel(GATEWAY) as channel:
        call = channel.unary_unary(f"/{CONTROL}/Thread")(b"x", timeout=SECONDS)
        assert await code_of(call) is grpc.StatusCode.UNIMPLEMENTED
        unknown = channel.unary_unary(f"/{CONTROL}/Unknown")(b"x", timeout=SECONDS)
        assert await code_of(unknown) is grpc.StatusCode.UNIMPLEMENTED
    assert server.echo.heard == []


async def test_another_fleet_under_the_same_ca_is_nobody_here(server: Served) -> None:
    stranger = ISSUER.material(Role.GATEWAY, namespace="another-fleet")
    assert await code_of(server.ask(stranger, CONTROL)) is DENIED
    assert server.check.refused == {(CONTROL, "nobody"): 1}


# -- who gets no connection --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "material",
    [
        Issuer().material(Role.GATEWAY, trusts=(ISSUER,)),
        ISSUER.material(Role.GATEWAY, ends_in=-60.0),
        Issuer(ends_in=-60.0).material(Role.GATEWAY, trusts=(ISSUER,)),
    ],
    ids=["foreign CA", "expired", "expired foreign CA"],
)
async def test_a_caller_whose_certificate_is_not_good_reaches_nothing(
    server: Served, material: Material
) -> None:
    assert await code_of(server.ask(material, CONTROL)) is UNAVAILABLE
    assert server.echo.heard == []


async def test_a_caller_without_a_certificate_or_without_tls_reaches_nothing(server: Served) -> None:
    bare = grpc.ssl_channel_credentials(WORKER.authorities)
    options = (*CLIENT_OPTIONS, (TARGET_NAME, WORKER_NAME))
    async with grpc.aio.secure_channel(server.address, bare, options=options) as channel:
        assert await code_of(ask(channel, CONTROL)) is UNAVAILABLE
    async with grpc.aio.insecure_channel(server.address, options=CLIENT_OPTIONS) as channel:
        assert await code_of(ask(channel, CONTROL)) is UNAVAILABLE
    assert server.echo.heard == []


@pytest.mark.parametrize(
    "material",
    [
        GATEWAY,
        Issuer().material(Role.WORKER, trusts=(ISSUER,)),
        ISSUER.material(Role.WORKER, ends_in=-60.0),
    ],
    ids=["a gateway", "foreign CA", "expired"],
)
async def test_nobody_who_is_no_worker_is_taken_for_one(material: Material) -> None:
    async with served(Given(material)) as running:
        assert await code_of(running.ask(GATEWAY, CONTROL)) is UNAVAILABLE
        assert running.echo.heard == []


@contextlib.asynccontextmanager
async def slow_way(address: str, seconds: float) -> AsyncIterator[str]:
    """A port that leads to `address`, where each connection waits first."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(seconds)
        host, _, port = address.rpartition(":")
        there, back = await asyncio.open_connection(host, int(port))
        try:
            await asyncio.gather(copy(reader, back), copy(there, writer), return_exceptions=True)
        finally:
            for each in (writer, back):
                each.close()

    way = await asyncio.start_server(carry, "127.0.0.1", 0)
    try:
        yield f"127.0.0.1:{way.sockets[0].getsockname()[1]}"
    finally:
        way.close()


async def test_a_handshake_with_a_busy_worker_is_waited_for(server: Served) -> None:
    """An attempt that is given up after a fifth of a second would be followed by another one, and another one."""
    async with slow_way(server.address, 0.6) as address, SecureChannels(Given(GATEWAY))(address) as channel:
        assert await ask(channel, CONTROL) == b"hello"


# -- what changes while it runs ----------------------------------------------------------------------------------------


async def test_a_port_without_material_refuses_everybody_until_there_is_some() -> None:
    source = Given()
    async with served(source) as running:
        assert await code_of(running.ask(GATEWAY, CONTROL)) is UNAVAILABLE
        async with grpc.aio.insecure_channel(running.address, options=CLIENT_OPTIONS) as channel:
            assert await code_of(ask(channel, CONTROL)) is UNAVAILABLE
        source.material = WORKER
        assert await running.ask(GATEWAY, CONTROL) == b"hello"


async def test_a_channel_before_any_material_is_refused_with_the_reason(tmp_path: Path) -> None:
    with pytest.raises(MaterialMissing, match=r"tls\.crt"):
        SecureChannels(MountedMaterial(tmp_path))("127.0.0.1:1")


async def test_new_connections_get_the_new_certificate_and_open_streams_go_on(server: Served) -> None:
    del server
    other = Issuer()
    source = Given(WORKER)
    async with served(source) as running, running.channel(GATEWAY) as old:
        stream = old.stream_stream(f"/{CONTROL}/Written")()
        await stream.write(b"before")
        assert await stream.read() == b"before"
        source.material = other.material(Role.WORKER)
        assert await code_of(running.ask(GATEWAY, CONTROL)) is UNAVAILABLE
        assert await running.ask(other.material(Role.GATEWAY), CONTROL) == b"hello"
        await stream.write(b"after")
        assert await stream.read() == b"after"
        stream.cancel()


async def test_material_that_is_gone_leaves_a_port_what_it_had() -> None:
    source = Given(WORKER)
    async with served(source) as running:
        assert await running.ask(GATEWAY, CONTROL) == b"hello"
        source.material = None
        assert await running.ask(GATEWAY, CONTROL) == b"hello"


async def test_a_channel_made_with_older_material_is_told_from_a_current_one() -> None:
    source = Given(GATEWAY)
    channels = SecureChannels(source)
    async with channels("127.0.0.1:1") as before:
        assert channels.is_current(before)
        source.material = ISSUER.material(Role.GATEWAY)
        async with channels("127.0.0.1:1") as after:
            assert not channels.is_current(before)
            assert channels.is_current(after)


async def test_many_connections_while_the_files_change_all_succeed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The library asks from threads of its own; what it gets is whole each time, and no key is in any log line."""
    mount = Mount(tmp_path)
    materials = [ISSUER.material(Role.WORKER) for _ in range(20)]
    mount.put(WORKER)
    with caplog.at_level(logging.DEBUG):
        async with served(MountedMaterial(tmp_path)) as running:

            async def call_often() -> int:
                return sum([await running.ask(GATEWAY, CONTROL) == b"hello" for _ in range(10)])

            async with asyncio.TaskGroup() as group:
                callers = [group.create_task(call_often()) for _ in range(4)]
                for material in materials:
                    mount.put(material)
                    await asyncio.sleep(0.01)
            assert sum(caller.result() for caller in callers) == 40
    told = str([record.__dict__ for record in caplog.records])
    assert "certificate read" in told
    assert is_secret_free(told, WORKER, GATEWAY, *materials)

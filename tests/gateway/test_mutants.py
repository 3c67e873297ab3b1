"""The safety rules switched off one at a time: the harm that each prevents must then be visible to the tests' instruments.

A mutant that changes nothing means that a test elsewhere proves nothing, or that the trap in the library is gone.
"""

import asyncio
from typing import Any

import aiohttp
import openai
import pytest
from aiohttp.client_proto import ResponseHandler

from noctaya.gateway import app, connector, exchange, openai_errors
from noctaya.gateway.errors import ConnectFailed, UpstreamBroken
from noctaya.gateway.routing import RouteTable
from noctaya.gateway.service import Endpoint
from noctaya.gateway.upstream import Answer, Outbound, Upstream
from tests.gateway.fake_engine import fake_engine
from tests.gateway.fake_worker import fake_worker
from tests.gateway.raw_client import ask, request
from tests.gateway.raw_engine import Heard, raw_engine, resetting
from tests.gateway.running import CHAT, gateway, until_async, until_cut
from tests.gateway.services import KEY, endpoint, message, update


async def test_a_gateway_that_replays_is_caught_by_counting_at_the_engines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    honest = Upstream.open

    async def replaying(self: Upstream, to: Endpoint, request: Outbound) -> Answer:
        try:
            return await honest(self, to, request)
        except UpstreamBroken as error:
            raise ConnectFailed("a lie: bytes were sent") from error

    monkeypatch.setattr(Upstream, "open", replaying)
    async with fake_worker() as worker, fake_engine() as first, fake_engine() as second:
        first.dies_after = second.dies_after = -1
        ends = [endpoint(first.port, pod="first"), endpoint(second.port, pod="second")]
        worker.serve(message(endpoints=ends, activation_timeout_ms=300))
        async with gateway(worker.address) as running, running.openai() as client:
            with pytest.raises(openai.InternalServerError):
                await client.chat.completions.create(model=KEY, messages=CHAT)
            assert len(first.requests) + len(second.requests) > 1


async def test_a_broken_stream_that_is_not_cut_looks_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.SanicReply, "abort", lambda self: None)
    async with fake_worker() as worker, fake_engine() as engine:
        engine.dies_after = 1
        worker.serve(message(endpoints=[endpoint(engine.port)]))
        async with gateway(worker.address) as running, aiohttp.ClientSession() as session:
            async with running.post(session) as response:
                with pytest.raises(AssertionError, match="looks whole"):
                    await until_cut(response)


async def test_a_disconnect_after_a_long_body_goes_unnoticed_when_reading_is_not_resumed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Sanic pauses the transport at 64 KiB; the day this fails the workaround in `app` can go."""

    async def no_resume(self: Any) -> bytes:
        stream = self._request.stream
        piece: bytes | None = await stream.read() if stream.request_body else None
        if piece is None:
            raise StopAsyncIteration
        return piece

    monkeypatch.setattr(app._Body, "__anext__", no_resume)
    async with fake_worker() as worker:
        worker.serve(message(activation_timeout_ms=1500))
        async with gateway(worker.address) as running, aiohttp.ClientSession() as session:
            # A body that ends exactly where Sanic pauses: nothing follows it that would resume reading.
            asking = asyncio.create_task(_read_all(running.post(session, body={"padding": "x" * 262_144})))
            await worker.until(lambda: worker.demand(KEY) == 1)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

            async def is_free() -> bool:
                queue = await running.queue(KEY)
                return queue == {} or queue["pending"] == 0

            with pytest.raises(TimeoutError):
                await until_async(is_free, 0.5)


async def test_a_pool_that_gives_out_soiled_connections_hands_one_clients_answer_to_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The day this fails, aiohttp looks itself and `connector` can shrink."""
    monkeypatch.setattr(connector.EngineConnector, "_get", aiohttp.TCPConnector._get)

    async def late(heard: Heard, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(heard.length)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        await writer.drain()
        await asyncio.sleep(0.02)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 6\r\n\r\npoison")

    async with fake_worker() as worker, raw_engine(late) as engine:
        worker.serve(message(endpoints=[endpoint(engine.port)], health_path="", http_keep_alive=True))
        async with gateway(worker.address) as running:
            heard = []
            for _ in range(3):
                heard.append((await ask(running.port, request())).body)
                await asyncio.sleep(0.05)
            assert b"poison" in heard


async def test_a_garbled_chunk_leaves_its_reader_waiting_when_aiohttp_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The day this fails, aiohttp tells its reader and `connector` can shrink."""
    monkeypatch.setattr(connector._Connection, "connection_lost", ResponseHandler.connection_lost)
    first = (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n1\r\n.\r\n"
    )
    async with fake_worker() as worker, raw_engine(resetting(first, then=b"zz\r\n")) as engine:
        worker.serve(message(endpoints=[endpoint(engine.port)], health_path=""))
        async with gateway(worker.address) as running, aiohttp.ClientSession() as session:
            async with running.post(session) as response:
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.5):
                        await response.read()


async def test_without_the_hold_a_cold_request_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_hold(self: Any, request: exchange.Admitted, heart: Any) -> Any:
        raise openai_errors.cold_start(request.service.key)

    monkeypatch.setattr(exchange.Exchange, "_hold", no_hold)
    async with fake_worker() as worker:
        worker.serve(message())
        async with gateway(worker.address) as running, running.openai() as client:
            with pytest.raises(openai.InternalServerError):
                await client.chat.completions.create(model=KEY, messages=CHAT)
            assert worker.wakes == []


def test_a_table_that_ignores_epochs_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RouteTable, "_objection", lambda self, update, held: None)
    table = RouteTable()
    table.apply(update(message(), epoch=5))
    table.apply(update(epoch=4))
    assert [known.epoch for known in table.known()] == [4]
    assert len(table) == 0


async def _read_all(answering: Any) -> bytes:
    async with answering as response:
        data: bytes = await response.read()
        return data

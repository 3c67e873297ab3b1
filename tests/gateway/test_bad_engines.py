"""Engines that answer as no engine should: the client gets a real error, within a bound, and nothing of the engine's insides."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from noctaya.gateway.settings import UpstreamSettings
from tests.gateway.fake_worker import FakeWorker, fake_worker
from tests.gateway.raw_client import ask, connection, listen, request
from tests.gateway.raw_engine import RawEngine, Script, dripping, raw_engine, resetting, saying, silent
from tests.gateway.running import RunningGateway, gateway, until_cut
from tests.gateway.services import endpoint, message

OK = b"HTTP/1.1 200 OK\r\n"
SSE = OK + b"content-type: text/event-stream\r\n"
CHUNK = SSE + b"transfer-encoding: chunked\r\n\r\n9\r\ndata: 1\n\n\r\n"
LONG = b'{"model": "ai/tiny", "padding": "' + b"x" * 3_000_000 + b'"}'
QUICK = UpstreamSettings(connect_seconds=0.2, idle_seconds=0.2)


@asynccontextmanager
async def served(script: Script, **more: Any) -> AsyncIterator[tuple[RunningGateway, RawEngine, FakeWorker]]:
    """A gateway before one such engine, warm."""
    upstream = more.pop("upstream", UpstreamSettings())
    async with fake_worker() as worker, raw_engine(script) as engine:
        worker.serve(message(endpoints=[endpoint(engine.port)], health_path="", **more))
        async with gateway(worker.address, upstream=upstream) as running:
            yield running, engine, worker


NOT_HTTP = {
    "another protocol": b"SSH-2.0-OpenSSH\r\n",
    "nothing": b"",
    "a switch of protocols": b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
    "a status below 100": b"HTTP/1.1 099 Odd\r\ncontent-length: 2\r\n\r\n{}",
    "a status above 599": b"HTTP/1.1 600 Odd\r\ncontent-length: 2\r\n\r\n{}",
    "length and chunks": OK + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    "two lengths": OK + b"content-length: 2\r\ncontent-length: 3\r\n\r\n{}",
    "more than its length": OK + b"content-length: 1\r\n\r\n{}",
    "half a head": OK + b"content-le",
    "a head without end": OK + b"x-long: " + b"y" * 40_000 + b"\r\n\r\n",
    "a length and no body": OK + b"content-length: 2\r\n\r\n",
    "chunks and no chunk": OK + b"transfer-encoding: chunked\r\n\r\n",
}


@pytest.mark.parametrize("answer", NOT_HTTP.values(), ids=NOT_HTTP.keys())
async def test_what_is_no_whole_answer_before_its_first_byte_is_502(
    answer: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with served(saying(answer)) as (running, engine, _):
        heard = await ask(running.port, request())
        assert (heard.status, heard.code) == (502, "upstream_error")
        assert str(engine.port).encode() not in heard.body, "the pod's address is nobody's business"
        assert b"SSH" not in heard.body
        assert len(engine.ids) == 1
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


async def test_unusual_answers_that_http_allows_pass() -> None:
    allowed = {
        b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\n\r\n"
        + OK
        + b"content-length: 2\r\n\r\n{}": (200, b"{}"),
        b"HTTP/1.1 204 No Content\r\n\r\n": (204, b""),
        b"HTTP/1.1 429 Busy\r\nretry-after: 7\r\ncontent-length: 2\r\n\r\n{}": (429, b"{}"),
        OK + b"x-latin: caf\xe9\r\ncontent-length: 2\r\n\r\n{}": (200, b"{}"),
    }
    for answer, (status, body) in allowed.items():
        async with served(saying(answer)) as (running, _, _):
            heard = await ask(running.port, request())
            assert (heard.status, heard.body) == (status, body)
            if b"x-latin" in answer:
                assert b"x-latin: caf\xe9" in heard.head, "bytes that we do not understand pass as they are"
            if status == 200:
                assert b"content-type: application/octet-stream" in heard.head
            if status == 429:
                assert b"retry-after: 7" in heard.head, "the engine's own"


async def test_an_answer_without_length_ends_with_its_connection() -> None:
    async with (
        served(saying(OK + b"\r\n{}")) as (running, _, _),
        connection(running.port) as (reader, writer),
    ):
        writer.write(request(more=b"connection: close\r\n"))
        heard = await listen(reader, 5)
        assert heard.body == b"2\r\n{}\r\n0\r\n\r\n"


async def test_an_engine_that_refuses_before_it_has_read_the_body_is_heard() -> None:
    answer = b"HTTP/1.1 413 Too Large\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}"
    async with served(saying(answer, reads=False, closes=False)) as (running, engine, _):
        heard = await ask(running.port, request(LONG))
        assert (heard.status, heard.body) == (413, b"{}")
        assert len(engine.ids) == 1


async def test_long_bodies_reach_the_engine_whole() -> None:
    async with served(saying(OK + b"content-length: 2\r\n\r\n{}")) as (running, engine, _):
        assert (await ask(running.port, request(LONG))).status == 200
        assert b"content-length: %d" % len(LONG) in engine.heads[0].lower()


@pytest.mark.parametrize(
    "script",
    [silent(), silent(reads=False), dripping(OK + b"x-never: " + b"y" * 10_000, 0.02)],
    ids=["takes it and says nothing", "never reads the body", "a head byte by byte"],
)
async def test_an_engine_that_does_not_begin_its_answer_in_time_is_504(script: Script) -> None:
    async with served(script, upstream=QUICK) as (running, engine, _):
        heard = await ask(running.port, request(LONG))
        assert (heard.status, heard.code) == (504, "upstream_timeout")
        assert len(engine.ids) == 1
        assert (await running.admin("/debug/queue"))[1]["body_bytes"] == 0


async def test_an_engine_that_falls_silent_in_a_stream_is_cut_off_with_an_error_event() -> None:
    async def stalls(heard: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(heard.length)
        writer.write(CHUNK)
        await reader.readexactly(1)

    async with served(stalls, upstream=QUICK) as (running, engine, _), aiohttp.ClientSession() as session:
        async with running.post(session) as response:
            received = await until_cut(response)
        assert received.startswith(b"data: 1\n\n")
        assert b'"code":"upstream_timeout"' in received
        assert engine.gone == 1


async def test_slow_bytes_are_still_an_answer() -> None:
    body = b"data: " + b"x" * 40 + b"\n\n"
    slow = dripping(body, 0.01, first=SSE + b"content-length: %d\r\n\r\n" % len(body))
    async with served(slow, upstream=QUICK) as (running, _, _):
        assert (await ask(running.port, request())).body == body, "longer than any deadline, but never silent"


BREAKS = {
    "a reset mid-chunk": resetting(CHUNK + b"20\r\ndata"),
    "an end mid-chunk": saying(CHUNK + b"20\r\ndata"),
    "an end without the last chunk": saying(CHUNK),
    "a chunk size that is none": resetting(CHUNK, then=b"zz\r\n"),
    "less than its length": saying(SSE + b"content-length: 100\r\n\r\ndata: 1\n\n"),
}


@pytest.mark.parametrize("script", BREAKS.values(), ids=BREAKS.keys())
async def test_an_answer_that_breaks_after_its_first_byte_never_looks_whole(script: Script) -> None:
    async with served(script) as (running, engine, _), aiohttp.ClientSession() as session:
        async with running.post(session) as response:
            assert response.status == 200
            received = await until_cut(response)
        assert b"[DONE]" not in received
        assert len(engine.ids) == 1


async def _after_the_first_heartbeat(script: Script, **headers: str) -> bytes:
    async with fake_worker() as worker, raw_engine(script) as engine:
        asleep: dict[str, Any] = {"health_path": "", "heartbeat_interval_ms": 30}
        worker.serve(message(**asleep))
        async with gateway(worker.address) as running, aiohttp.ClientSession() as session:
            async with running.post(session, headers=headers) as response:
                await response.content.readuntil(b"\n\n")
                worker.serve(message(endpoints=[endpoint(engine.port)], **asleep))
                received = await until_cut(response)
            assert len(engine.ids) == 1
            return received


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (
            b"HTTP/1.1 500 X\r\ncontent-type: application/json\r\n\r\n" + b"[" * 60_000,
            b"answered with status 500",
        ),
        (
            b'HTTP/1.1 429 X\r\n\r\n{"error": {"message": "slow down", "type": "t", "code": "c"}}',
            b'"slow down","type":"t"',
        ),
        (b'HTTP/1.1 404 X\r\n\r\n{"error": "no such adapter"}', b"no such adapter"),
        (b"HTTP/1.1 404 X\r\n\r\n\xff\xfe", b"answered with status 404"),
        (OK + b'content-type: application/json\r\n\r\n{"choices": []}', b"answered with status 200"),
        (SSE + b"content-encoding: gzip\r\n\r\n" + gzip.compress(b"data: 1\n\n"), b"compressed"),
        (b"nonsense\r\n\r\n", b"not valid HTTP"),
    ],
    ids=[
        "500 nested deeply",
        "429",
        "404 as text",
        "404 as noise",
        "200 and no stream",
        "compressed",
        "no HTTP",
    ],
)
async def test_whatever_comes_instead_of_a_stream_after_a_heartbeat_is_one_error_event(
    answer: bytes, told: bytes
) -> None:
    received = await _after_the_first_heartbeat(saying(answer))
    events = [event for event in received.split(b"\n\n") if event and not event.startswith(b": ")]
    assert len(events) == 1
    assert events[0].startswith(b'data: {"error":')
    assert told in events[0]


async def test_a_held_stream_asks_its_engine_for_nothing_compressed() -> None:
    """Its head may be out before the engine's, and could not say so any more."""
    async with (
        fake_worker() as worker,
        raw_engine(saying(SSE + b"content-length: 14\r\n\r\ndata: [DONE]\n\n")) as engine,
    ):
        worker.serve(message(health_path=""))
        worker.on_wake = lambda wake: worker.serve(message(endpoints=[endpoint(engine.port)], health_path=""))
        async with gateway(worker.address) as running, aiohttp.ClientSession() as session:
            for _ in range(2):
                async with running.post(session, headers={"accept-encoding": "gzip"}) as response:
                    await response.read()
        assert [b"accept-encoding: gzip" in head.lower() for head in engine.heads] == [False, True]


async def test_the_waterfall_fits_before_a_stream_that_told_its_length() -> None:
    async with (
        fake_worker() as worker,
        raw_engine(saying(SSE + b"content-length: 14\r\n\r\ndata: [DONE]\n\n")) as engine,
    ):
        worker.serve(message(health_path=""))
        worker.on_wake = lambda wake: worker.serve(message(endpoints=[endpoint(engine.port)], health_path=""))
        async with gateway(worker.address) as running, aiohttp.ClientSession() as session:
            async with running.post(session, headers={"x-noctaya-trace": "1"}) as response:
                received = await response.read()
            assert received.startswith(b": cold-start {")
            assert received.endswith(b"data: [DONE]\n\n")


async def test_bytes_that_an_engine_sends_after_its_answer_never_become_the_next_clients_answer() -> None:
    poison = OK + b"content-length: 6\r\n\r\npoison"

    async def late(heard: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(heard.length)
        writer.write(OK + b"content-length: 2\r\n\r\n{}")
        await writer.drain()
        await asyncio.sleep(0.02)
        writer.write(poison)

    async with served(late, http_keep_alive=True) as (running, engine, _):
        for _ in range(5):
            heard = await ask(running.port, request())
            assert heard.body != b"poison"
            await asyncio.sleep(0.05)
        assert len(engine.ids) == 5

"""Clients that send slowly, much, or not at all: they cost what they are allowed to cost, for as long as they are allowed to."""

import asyncio
import contextlib
import time
import tracemalloc
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest

from noctaya.gateway import body as bodies
from noctaya.gateway import strict_http
from noctaya.gateway.settings import AdmissionSettings, HttpSettings
from tests.gateway.fake_engine import fake_engine
from tests.gateway.fake_worker import fake_worker
from tests.gateway.raw_client import ask, connection, listen, one_answer, request
from tests.gateway.raw_engine import raw_engine, saying
from tests.gateway.running import CHAT, RunningGateway, gateway, until_async, words
from tests.gateway.services import KEY, endpoint, message
from tests.gateway.test_keys import RIGHT

HEAD = b"POST /ai/tiny/v1/completions HTTP/1.1\r\nhost: x\r\n"


def http(**more: Any) -> HttpSettings:
    return HttpSettings(host="127.0.0.1", port=0, **more)


async def _drip(writer: asyncio.StreamWriter, data: bytes, seconds: float = 0.03) -> None:
    with contextlib.suppress(ConnectionError):
        for byte in data:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(seconds)


async def test_a_head_that_comes_byte_by_byte_is_408_at_its_deadline() -> None:
    async with (
        fake_worker() as worker,
        gateway(worker.address, http=http(head_timeout_seconds=0.3)) as running,
        connection(running.port) as (reader, writer),
    ):
        begun = time.monotonic()
        dripping = asyncio.create_task(_drip(writer, HEAD * 10))
        heard = await listen(reader, 5)
        dripping.cancel()
        assert (heard.status, heard.code) == (408, "request_timeout")
        # A byte that was on its way when the gateway hung up is answered with a reset; the answer has been read by then.
        assert heard.end in {"closed", "reset"}
        assert time.monotonic() - begun < 3


async def test_a_second_head_on_the_same_connection_has_the_same_deadline_even_after_an_upgrade() -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        worker.serve(message(endpoints=[endpoint(engine.port)]))
        async with (
            gateway(worker.address, http=http(head_timeout_seconds=0.3)) as running,
            connection(running.port) as (reader, writer),
        ):
            writer.write(request(more=b"upgrade: websocket\r\n"))
            assert (await one_answer(reader)).status == 200
            dripping = asyncio.create_task(_drip(writer, HEAD * 10))
            assert (await listen(reader, 5)).status == 408
            dripping.cancel()


@pytest.mark.parametrize(
    "kind", [b"content-length: 100000\r\n\r\n", b"transfer-encoding: chunked\r\n\r\n5\r\nhello"]
)
async def test_a_body_without_end_is_408_and_its_connection_is_cut_off(
    kind: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strict_http, "LEFTOVER_SECONDS", 0.2)
    async with fake_worker() as worker:
        worker.serve(message())
        async with (
            gateway(worker.address, http=http(body_timeout_seconds=0.2)) as running,
            connection(running.port) as (reader, writer),
        ):
            writer.write(HEAD + kind)
            dripping = asyncio.create_task(_drip(writer, b"x" * 1000))
            heard = await listen(reader, 5)
            dripping.cancel()
            # A byte on its way as the gateway hung up is answered with a reset, after the answer.
            assert heard.status == 408
            assert heard.end in {"closed", "reset"}
            assert b"connection: close" in heard.head or kind.startswith(b"content-length")
            assert await running.queue(KEY) == {}
            assert worker.wakes == []


async def test_a_refused_request_cannot_pin_its_connection_with_its_body(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(strict_http, "LEFTOVER_SECONDS", 0.2)
    async with fake_worker(open_namespaces=()) as worker:
        worker.serve(message(auth_required=True, keys=[{"hmac_sha256": RIGHT}]))
        async with gateway(worker.address) as running, connection(running.port) as (reader, writer):
            writer.write(HEAD + b"content-length: 100000\r\n\r\n")
            dripping = asyncio.create_task(_drip(writer, b"x" * 1000))
            heard = await listen(reader, 5)
            dripping.cancel()
            assert (heard.status, heard.end) == (401, "closed")


@pytest.mark.parametrize("megabytes", [1, 40])
async def test_a_client_that_sends_all_before_it_reads_still_hears_its_refusal(megabytes: int) -> None:
    async with fake_worker() as worker:
        worker.serve(message(max_body_bytes=1000))
        async with gateway(worker.address) as running, connection(running.port) as (reader, writer):
            size = megabytes * 1024 * 1024
            writer.write(HEAD + b"content-length: %d\r\n\r\n" % size)
            for _ in range(size // 65_536):
                writer.write(b"x" * 65_536)
                await writer.drain()
            assert (await one_answer(reader)).status == 413


async def test_a_body_that_is_announced_and_not_sent_takes_no_memory_from_others() -> None:
    memory = AdmissionSettings(max_bytes=100_000, max_bytes_per_service=100_000)
    async with fake_worker() as worker, fake_engine() as engine, contextlib.AsyncExitStack() as stack:
        worker.serve(message(endpoints=[endpoint(engine.port)]))
        running = await stack.enter_async_context(gateway(worker.address, admission=memory))
        for path in (b"/ai/tiny/v1/completions", b"/v1/completions"):
            for _ in range(3):
                _, writer = await stack.enter_async_context(connection(running.port))
                writer.write(request(b"{", path=path, length=b"90000"))
                await writer.drain()

        async def three_wait() -> bool:
            return bool((await running.admin("/debug/queue"))[1]["body_bytes"] == 6)

        await until_async(three_wait)
        async with running.openai() as client:
            assert await words(client, KEY) == "Good night!"
        for path in (b"/ai/tiny/v1/completions", b"/v1/completions"):
            heard = await ask(running.port, request(b"{", path=path, length=b"100000"))
            assert heard.status in {429, 503}, "what cannot fit now is refused before it is sent"


async def test_a_body_in_tiny_pieces_takes_the_memory_that_is_counted() -> None:
    """A list of the pieces would take fifty bytes for every two. Other threads of this process allocate too: not counted."""
    pieces, taken = 30_000, 0
    ours = [tracemalloc.Filter(True, file) for file in (__file__, str(bodies.__file__))]

    async def tiny() -> AsyncIterator[bytes]:
        nonlocal taken
        tracemalloc.start()
        for number in range(pieces):
            yield b"%02d" % (number % 100)
        found = tracemalloc.take_snapshot().filter_traces(ours)
        tracemalloc.stop()
        taken = sum(trace.size for trace in found.traces)

    assert len(await bodies.collect(tiny(), 10**6, lambda size: None)) == 2 * pieces
    assert taken < 2 * pieces * 3


async def _counts(running: RunningGateway, size: int) -> bool:
    return bool((await running.admin("/debug/queue"))[1]["body_bytes"] == size)


@pytest.mark.parametrize("size", [65_536, 1_000_000, 8_000_000])
async def test_a_held_body_counts_with_its_size_until_the_engine_has_answered(size: int) -> None:
    async with (
        fake_worker() as worker,
        raw_engine(saying(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")) as engine,
    ):
        worker.serve(message(health_path=""))
        async with gateway(worker.address) as running, connection(running.port) as (reader, writer):
            body = b'{"padding": "' + b"x" * size + b'"}'
            writer.write(request(body, path=b"/ai/tiny/v1/completions"))
            await worker.until(lambda: len(worker.wakes) == 1)
            assert (await running.admin("/debug/queue"))[1]["body_bytes"] == len(body)
            worker.serve(message(endpoints=[endpoint(engine.port)], health_path=""))
            assert (await one_answer(reader)).status == 200
            assert (await running.admin("/debug/queue"))[1]["body_bytes"] == 0


async def test_more_held_bodies_than_fit_are_refused_and_the_rest_is_kept() -> None:
    memory = AdmissionSettings(max_bytes=3_000_000, max_bytes_per_service=2_500_000)
    async with fake_worker() as worker, contextlib.AsyncExitStack() as stack:
        worker.serve(message(), message("ai/other"))
        running = await stack.enter_async_context(gateway(worker.address, admission=memory))
        body = b'{"padding": "' + b"x" * 1_000_000 + b'"}'
        for number in range(2):
            _, writer = await stack.enter_async_context(connection(running.port))
            writer.write(request(body, path=b"/ai/tiny/v1/completions"))
            await until_async(lambda number=number: _counts(running, (number + 1) * len(body)))
        full = await ask(running.port, request(body, path=b"/ai/tiny/v1/completions"))
        assert (full.status, full.code) == (429, "queue_full")
        full = await ask(running.port, request(body, path=b"/ai/other/v1/completions"))
        assert (full.status, full.code) == (503, "overloaded")
        assert b"retry-after: 10" in full.head


async def test_a_client_that_sends_on_and_on_during_its_hold_is_cut_off_and_frees_its_place() -> None:
    """Reading would stop at a full buffer, and with it the notice that the client has left."""
    async with fake_worker() as worker:
        worker.serve(message())
        async with gateway(worker.address) as running, connection(running.port) as (reader, writer):
            writer.write(request())
            await worker.until(lambda: worker.demand(KEY) == 1)
            writer.write(b"x" * 500_000)
            assert (await listen(reader, 5)).end in {"closed", "reset"}

            async def is_free() -> bool:
                told = await running.queue(KEY)
                return not told or told["places"] == 0

            await until_async(is_free)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_client_that_reads_nothing_is_cut_off_wherever_its_answer_stands(stream: bool) -> None:
    size = 8_000_000
    kind = b"text/event-stream" if stream else b"application/json"
    answer = b"HTTP/1.1 200 OK\r\ncontent-type: %b\r\ncontent-length: %d\r\n\r\n" % (kind, size) + b"x" * size
    async with fake_worker() as worker, raw_engine(saying(answer)) as engine:
        worker.serve(message(endpoints=[endpoint(engine.port)], health_path=""))
        async with gateway(worker.address, http=http(client_stall_seconds=0.3)) as running:
            async with connection(running.port) as (reader, writer):
                reader._transport.pause_reading()  # type: ignore[attr-defined]
                writer.write(request())

                async def is_over() -> bool:
                    return await running.queue(KEY) == {} and bool(engine.ids)

                await until_async(is_over)
            _, metrics = await running.admin("/metrics")
            assert 'code="499",namespace="ai",service="tiny"} 1.0' in metrics


async def test_a_client_that_leaves_between_two_heartbeats_is_no_defect_of_ours(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with fake_worker() as worker:
        worker.serve(message(heartbeat_interval_ms=10))
        async with gateway(worker.address) as running, aiohttp.ClientSession() as session:
            for _ in range(10):
                async with running.post(session, body={"messages": CHAT}) as response:
                    await response.content.readuntil(b"\n\n")

            async def all_left() -> bool:
                return not (await running.queue(KEY)).get("places")

            await until_async(all_left)
            _, metrics = await running.admin("/metrics")
            assert 'code="499",namespace="ai",service="tiny"} 10.0' in metrics
    assert not [record for record in caplog.records if record.levelname == "ERROR"]

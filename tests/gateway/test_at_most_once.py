"""No request reaches an engine twice, whatever the engines do: counted where it matters, at the engines."""

import asyncio
import contextlib
from collections import Counter
from typing import Any

import aiohttp
import pytest

from noctaya.gateway.settings import UpstreamSettings
from tests.gateway.fake_worker import fake_worker
from tests.gateway.raw_client import connection, listen, request
from tests.gateway.raw_engine import Close, Script, dripping, raw_engine, resetting, saying, silent
from tests.gateway.running import gateway, until, until_async
from tests.gateway.services import endpoint, message

OK = b"HTTP/1.1 200 OK\r\n"
WHOLE = OK + b"content-length: 2\r\n\r\n{}"


def closing_after(answers: int) -> Script:
    """Answers so many requests on one connection, then closes it without a word when the next one arrives."""
    left = answers

    async def script(heard: Any, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal left
        await reader.readexactly(heard.length)
        if not left:
            raise Close
        left -= 1
        writer.write(WHOLE)

    return script


SCRIPTS: dict[str, Script] = {
    "well": saying(WHOLE, closes=False),
    "closes after its answer": saying(WHOLE),
    "closes kept connections": closing_after(3),
    "resets before it reads": resetting(reads=False),
    "resets after it has read": resetting(),
    "resets in its head": resetting(OK),
    "resets in its body": resetting(OK + b"content-length: 9\r\n\r\n{"),
    "answers before it reads": saying(WHOLE, reads=False),
    "closes with nothing said": saying(b""),
    "talks nonsense": saying(b"nonsense\r\n\r\n"),
    "is silent": silent(),
    "is silent and does not read": silent(reads=False),
    "drips": dripping(OK + b"x: " + b"y" * 10_000, 0.01),
    "is busy": saying(b"HTTP/1.1 503 Busy\r\nretry-after: 1\r\ncontent-length: 2\r\n\r\n{}"),
    "redirects": saying(b"HTTP/1.1 307 There\r\nlocation: /v1/again\r\ncontent-length: 0\r\n\r\n"),
    "wants a key": saying(b"HTTP/1.1 401 Who\r\nwww-authenticate: Basic\r\ncontent-length: 0\r\n\r\n"),
    "wants it later": saying(b"HTTP/1.1 425 Early\r\ncontent-length: 0\r\n\r\n"),
}


@pytest.mark.parametrize("script", SCRIPTS.values(), ids=SCRIPTS.keys())
async def test_no_request_reaches_an_engine_twice(script: Script) -> None:
    upstream = UpstreamSettings(connect_seconds=0.15, idle_seconds=0.15)
    async with fake_worker() as worker, raw_engine(script) as first, raw_engine(script) as second:
        common: dict[str, Any] = {
            "endpoints": [endpoint(first.port, pod="first"), endpoint(second.port, pod="second")],
            "health_path": "",
            "activation_timeout_ms": 400,
        }
        worker.serve(message("ai/fresh", **common), message("ai/kept", http_keep_alive=True, **common))
        async with gateway(worker.address, upstream=upstream) as running, aiohttp.ClientSession() as session:

            async def one(number: int, model: str) -> None:
                long = 400_000 if number % 4 == 0 else 1
                body = {"model": model, "stream": number % 3 == 0, "padding": "x" * long}
                headers = {"x-request-id": f"{model}-{number}"}
                with contextlib.suppress(aiohttp.ClientError):
                    async with running.post(
                        session, body=body, headers=headers, allow_redirects=False
                    ) as response:
                        await response.read()

            for begin in range(0, 12, 4):
                numbers = range(begin, begin + 4)
                await asyncio.gather(*(one(n, model) for n in numbers for model in ("ai/fresh", "ai/kept")))
        assert [name for name, times in Counter(first.ids + second.ids).items() if times > 1] == []
        assert first.ids or second.ids


MOMENTS = {"in the head": 40, "before the body": None, "in the body": 0.5, "when all is sent": 1.0}


@pytest.mark.parametrize("moment", MOMENTS.values(), ids=MOMENTS.keys())
async def test_a_client_that_vanishes_while_it_sends_costs_nothing_and_reaches_nothing(
    moment: float | None,
) -> None:
    async with fake_worker() as worker, raw_engine(silent()) as engine:
        worker.serve(message(endpoints=[endpoint(engine.port)], health_path=""), message("ai/cold"))
        async with gateway(worker.address) as running:
            for path in (b"/ai/tiny/v1/completions", b"/v1/completions", b"/ai/cold/v1/completions"):
                data = request(b'{"model": "ai/tiny", "padding": "' + b"x" * 100_000 + b'"}', path=path)
                head = data.index(b"\r\n\r\n") + 4
                upto = (
                    head
                    if moment is None
                    else 40
                    if moment == 40
                    else head + int((len(data) - head) * moment)
                )
                async with connection(running.port) as (_, writer):
                    writer.write(data[:upto])
                    await writer.drain()
                    await asyncio.sleep(0.05)
                    writer.transport.abort()

            async def nothing_inside() -> bool:
                told = (await running.admin("/debug/queue"))[1]
                return not told["body_bytes"] and not any(s["places"] for s in told["services"].values())

            await until_async(nothing_inside)
            arrived = 2 if moment == 1.0 else 0
            assert len(engine.ids) == arrived
            assert len(worker.wakes) == (1 if moment == 1.0 else 0)
            await until(lambda: engine.gone == arrived)
            if moment == 1.0:
                _, metrics = await running.admin("/metrics")
                assert 'code="499",namespace="ai",service="tiny"} 2.0' in metrics


async def test_a_client_that_closes_only_its_half_has_left() -> None:
    async with fake_worker() as worker, raw_engine(silent()) as engine:
        worker.serve(message(endpoints=[endpoint(engine.port)], health_path=""))
        async with gateway(worker.address) as running, connection(running.port) as (reader, writer):
            writer.write(request())
            await until(lambda: len(engine.ids) == 1)
            writer.write_eof()
            assert (await listen(reader, 5)).data == b""
            await until(lambda: engine.gone == 1)

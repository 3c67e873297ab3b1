"""Forwarding: at most once, to an endpoint that lives, with the right headers, and never a broken answer that looks whole."""

import asyncio
import json
import socket

import aiohttp
import openai
import pytest

from noctaya.gateway.settings import UpstreamSettings
from tests.gateway.fake_engine import fake_engine
from tests.gateway.fake_worker import fake_worker
from tests.gateway.running import CHAT, gateway, until, until_async, until_cut, words
from tests.gateway.services import KEY, SECRET, endpoint, message
from tests.gateway.test_keys import RIGHT


def closed_port() -> int:
    """A port where nobody listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


async def test_a_request_moves_on_from_an_endpoint_that_cannot_be_reached() -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        worker.serve(
            message(endpoints=[endpoint(closed_port(), pod="dead"), endpoint(engine.port, pod="alive")])
        )
        async with gateway(worker.address) as running, running.openai() as client:
            for _ in range(8):
                assert await words(client, KEY) == "Good night!"
            assert len(engine.requests) == 8
            assert worker.wakes == []


async def test_a_request_whose_only_endpoint_is_gone_is_held_until_there_is_another() -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        worker.serve(message(endpoints=[endpoint(closed_port(), pod="dead")]))
        async with gateway(worker.address) as running, running.openai() as client:
            asking = asyncio.create_task(words(client, KEY))
            await worker.until(lambda: len(worker.wakes) == 1)
            worker.serve(message(endpoints=[endpoint(engine.port, pod="alive")]))
            assert await asking == "Good night!"


async def test_a_terminating_pod_gets_nothing_new() -> None:
    async with fake_worker() as worker, fake_engine() as old, fake_engine() as new:
        worker.serve(message(endpoints=[endpoint(old.port, pod="old", terminating=True)]))
        async with gateway(worker.address) as running, running.openai() as client:
            asking = asyncio.create_task(words(client, KEY))
            await worker.until(lambda: len(worker.wakes) == 1)
            worker.serve(
                message(
                    endpoints=[endpoint(old.port, pod="old", terminating=True), endpoint(new.port, pod="new")]
                )
            )
            assert await asking == "Good night!"
            assert (len(old.requests), old.probes) == (0, 0)


@pytest.mark.parametrize("keep_alive", [True, False])
@pytest.mark.parametrize("stream", [True, False])
async def test_an_engine_that_dies_before_it_answers_is_502_and_the_request_is_not_sent_again(
    stream: bool, keep_alive: bool
) -> None:
    async with fake_worker() as worker, fake_engine() as first, fake_engine() as second:
        ends = [endpoint(first.port, pod="first"), endpoint(second.port, pod="second")]
        worker.serve(message(endpoints=ends, http_keep_alive=keep_alive))
        async with gateway(worker.address) as running, running.openai() as client:
            await words(client, KEY)
            first.dies_after = second.dies_after = -1
            before = len(first.requests) + len(second.requests)
            with pytest.raises(openai.InternalServerError) as caught:
                await client.chat.completions.create(model=KEY, messages=CHAT, stream=stream)
            assert (caught.value.status_code, caught.value.code) == (502, "upstream_error")
            assert len(first.requests) + len(second.requests) == before + 1


async def test_a_stream_that_breaks_ends_with_an_error_event_and_a_cut() -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        engine.dies_after = 2
        worker.serve(message(endpoints=[endpoint(engine.port)]))
        async with (
            gateway(worker.address) as running,
            running.openai() as client,
            aiohttp.ClientSession() as session,
        ):
            async with running.post(session) as response:
                received = await until_cut(response)
            *_, last = [event for event in received.split(b"\n\n") if event]
            assert json.loads(last.removeprefix(b"data: "))["error"]["code"] == "upstream_error"
            assert b"[DONE]" not in received
            with pytest.raises(openai.APIError, match="broke off"):
                await words(client, KEY)
            assert len(engine.requests) == 2
            _, metrics = await running.admin("/metrics")
            assert 'code="200_broken",namespace="ai",service="tiny"} 2.0' in metrics


async def test_a_client_that_leaves_mid_stream_stops_the_engine_at_once() -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        engine.pause.clear()
        worker.serve(message(endpoints=[endpoint(engine.port)]))
        async with gateway(worker.address) as running, aiohttp.ClientSession() as session:
            async with running.post(session, body={"padding": "x" * 200_000}) as response:
                await response.content.readuntil(b"\n\n")
            await until(lambda: engine.gone == 1, 2.0)

            async def is_free() -> bool:
                return await running.queue(KEY) == {}

            await until_async(is_free)


async def test_a_client_that_leaves_while_the_engine_thinks_stops_it_too() -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        engine.think.clear()
        worker.serve(message(endpoints=[endpoint(engine.port)]))
        async with gateway(worker.address) as running, running.openai() as client:
            asking = asyncio.create_task(client.chat.completions.create(model=KEY, messages=CHAT))
            await until(lambda: len(engine.requests) == 1)
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)
            await until(lambda: engine.gone == 1, 2.0)


@pytest.mark.parametrize("stream", [True, False])
async def test_a_slow_client_slows_the_engine_down(stream: bool) -> None:
    """Backpressure end to end: an engine that has far more to say than the sockets hold gets stuck."""
    total, sent = 64 * 1024 * 1024, 0

    async def pour(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        kind = b"text/event-stream" if stream else b"application/json"
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n" % (kind, total))
        try:
            while sent < total:
                writer.write(b"x" * 65_536)
                await writer.drain()
                sent += 65_536
        except ConnectionError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(pour, "127.0.0.1", 0)
    async with fake_worker() as worker, server:
        worker.serve(message(endpoints=[endpoint(server.sockets[0].getsockname()[1])], health_path=""))
        async with gateway(worker.address) as running, aiohttp.ClientSession(read_bufsize=1024) as session:
            async with running.post(session):
                await until(lambda: sent > 0)
                before = -1
                while before != sent:
                    before = sent
                    await asyncio.sleep(0.2)
                assert 0 < sent < total / 2


async def test_the_engine_gets_path_query_host_and_whence() -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        worker.serve(message(endpoints=[endpoint(engine.port)], hostnames=["chat.example.com"]))
        async with gateway(worker.address) as running, aiohttp.ClientSession() as session:
            for path, host in (
                ("/ai/tiny/v1/chat/completions", "any"),
                ("/v1/chat/completions", "tiny.ai.svc"),
            ):
                async with session.post(
                    f"{running.url}{path}?beta=a%20b",
                    json={"stream": False},
                    headers={
                        "host": host,
                        "x-request-id": "id-7",
                        "x-forwarded-for": "6.6.6.6",
                        "authorization": "Bearer x",
                    },
                ) as response:
                    assert response.status == 200
                    assert response.headers["x-request-id"] == "id-7"
                    assert response.headers["content-length"] == str(len(await response.read()))
                seen = engine.headers[-1]
                assert engine.paths[-1] == "/v1/chat/completions?beta=a%20b"
                assert seen["host"] == host
                assert (seen["x-request-id"], seen["x-forwarded-for"]) == ("id-7", "127.0.0.1")
                assert seen["authorization"] == "Bearer x", (
                    "a service without keys of ours gets what the client sent"
                )


async def test_a_checked_key_ends_at_the_gateway() -> None:
    async with fake_worker(open_namespaces=()) as worker, fake_engine() as engine:
        assert SECRET
        worker.serve(
            message(endpoints=[endpoint(engine.port)], auth_required=True, keys=[{"hmac_sha256": RIGHT}])
        )
        async with gateway(worker.address) as running, running.openai(key="sk-right") as client:
            assert await words(client, KEY) == "Good night!"
            assert "authorization" not in engine.headers[0]


async def test_every_name_of_a_model_reaches_the_engine_as_the_one_that_it_knows() -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        worker.serve(
            message(endpoints=[endpoint(engine.port)], served_model_name="org/Tiny-1B", aliases=["small"])
        )
        async with gateway(worker.address) as running, running.openai() as client:
            for name in (KEY, "small", "tiny", "org/Tiny-1B"):
                await words(client, name, extra_body={"seed": 7})
            assert [body["model"] for body in engine.requests] == ["org/Tiny-1B"] * 4
            assert all(body["seed"] == 7 for body in engine.requests)


async def test_requests_after_a_stream_never_meet_its_dead_connection() -> None:
    """llama.cpp's habit: the connection ends right after a streamed answer, unannounced."""
    seen = 0

    async def close_after_stream(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal seen
        while True:
            try:
                head = await reader.readuntil(b"\r\n\r\n")
            except asyncio.IncompleteReadError:
                break
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            body = await reader.readexactly(length)
            seen += 1
            if b'"stream": true' in body or b'"stream":true' in body:
                writer.write(
                    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 14\r\n\r\ndata: [DONE]\n\n"
                )
                await writer.drain()
                break
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}")
        writer.close()

    server = await asyncio.start_server(close_after_stream, "127.0.0.1", 0)
    async with fake_worker() as worker, server:
        ends = [endpoint(server.sockets[0].getsockname()[1])]
        worker.serve(message(endpoints=ends, health_path="", http_keep_alive=True))
        async with gateway(worker.address) as running, aiohttp.ClientSession() as session:
            for number in range(30):
                async with running.post(session, body={"stream": number % 2 == 0}) as response:
                    assert response.status == 200
                    await response.read()
            assert seen == 30


async def test_a_plain_answer_that_breaks_is_cut_short_of_its_length() -> None:
    async def break_off(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(break_off, "127.0.0.1", 0)
    async with fake_worker() as worker, server:
        worker.serve(message(endpoints=[endpoint(server.sockets[0].getsockname()[1])], health_path=""))
        async with gateway(worker.address) as running, aiohttp.ClientSession() as session:
            async with running.post(session, body={"stream": False}) as response:
                assert response.status == 200
                assert await until_cut(response) == b"{"


async def test_a_silent_engine_is_504() -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        engine.think.clear()
        worker.serve(message(endpoints=[endpoint(engine.port)]))
        upstream = UpstreamSettings(idle_seconds=0.1)
        async with gateway(worker.address, upstream=upstream) as running, running.openai() as client:
            with pytest.raises(openai.InternalServerError) as caught:
                await words(client, KEY)
            assert (caught.value.status_code, caught.value.code) == (504, "upstream_timeout")

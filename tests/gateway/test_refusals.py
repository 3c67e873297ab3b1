"""Refusals as the real client sees them; none of them wakes anything."""

import asyncio
import json
from collections.abc import AsyncIterator

import aiohttp
import openai
import pytest

from noctaya.gateway.settings import AdmissionSettings, HttpSettings
from tests.gateway.fake_engine import fake_engine
from tests.gateway.fake_worker import fake_worker
from tests.gateway.running import CHAT, gateway, until, words
from tests.gateway.services import KEY, endpoint, message
from tests.gateway.test_keys import RIGHT


async def test_an_unknown_model_is_404_and_wakes_nothing() -> None:
    async with fake_worker() as worker:
        worker.serve(message())
        async with gateway(worker.address) as running:
            for path, model in (("/v1", "ai/nobody"), ("/v1", "nobody"), ("/ai/nobody/v1", "any")):
                async with running.openai(path) as client:
                    with pytest.raises(openai.NotFoundError) as caught:
                        await words(client, model)
                    assert caught.value.code == "model_not_found"
                    assert caught.value.type == "invalid_request_error"
            assert worker.wakes == []
            assert not worker.is_wanted(KEY)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/ai/tiny/v1/chat/completions"])
@pytest.mark.parametrize(
    "body", [b"not json", b"", b"[1]", b'"text"', b'{"model": "ai/tiny", "stream": "yes"}', b'{"model": 7}']
)
async def test_a_body_that_is_not_the_json_it_should_be_is_400_and_wakes_nothing(
    path: str, body: bytes
) -> None:
    async with fake_worker() as worker:
        worker.serve(message())
        async with gateway(worker.address) as running, aiohttp.ClientSession() as session:
            headers = {"content-type": "application/json"}
            async with session.post(running.url + path, data=body, headers=headers) as response:
                assert response.status == 400
                assert (await response.json())["error"]["type"] == "invalid_request_error"
            assert worker.wakes == []


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/", 404),
        ("GET", "/favicon.ico", 404),
        ("POST", "/reset_prefix_cache", 404),
        ("GET", "/ai/tiny/metrics", 404),
        ("POST", "/ai/tiny/v1/embeddings", 404),
        ("GET", "/v1/chat/completions", 405),
        ("DELETE", "/ai/tiny/v1/chat/completions", 405),
        ("GET", "/metrics", 404),
        ("GET", "/noctaya/queue", 404),
        ("GET", "/healthz", 200),
        ("OPTIONS", "/v1/chat/completions", 204),
    ],
)
async def test_only_inference_paths_reach_or_wake_a_model(method: str, path: str, status: int) -> None:
    async with fake_worker() as worker:
        worker.serve(message(inference_paths=["/v1/chat/completions"]))
        async with gateway(worker.address) as running, aiohttp.ClientSession() as session:
            data = json.dumps({"model": KEY}) if method == "POST" else None
            async with session.request(method, running.url + path, data=data) as response:
                assert response.status == status
                if status >= 400:
                    assert set((await response.json())["error"]) == {"message", "type", "param", "code"}
            assert worker.wakes == []


async def test_a_key_is_checked_before_the_body_is_sent() -> None:
    async with fake_worker(open_namespaces=()) as worker:
        worker.serve(message(auth_required=True, keys=[{"hmac_sha256": RIGHT}]))
        async with gateway(worker.address) as running:
            for path in ("/v1/chat/completions", "/ai/tiny/v1/chat/completions"):
                reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
                writer.write(f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n\r\n".encode())
                assert (await reader.readline()).startswith(b"HTTP/1.1 401")
                writer.close()
            assert worker.wakes == []


async def test_wrong_missing_and_useless_keys_raise_the_clients_own_exceptions() -> None:
    async with fake_worker(open_namespaces=()) as worker:
        worker.serve(
            message(auth_required=True, keys=[{"hmac_sha256": RIGHT}]),
            message("ai/unlocked"),
            message("ai/keyless", auth_required=True),
        )
        async with gateway(worker.address) as running, running.openai(key="sk-wrong") as client:
            with pytest.raises(openai.AuthenticationError):
                await words(client, KEY)
        async with gateway(worker.address) as running, running.openai(key="sk-right") as client:
            with pytest.raises(openai.PermissionDeniedError):
                await words(client, "ai/unlocked")
            with pytest.raises(openai.InternalServerError) as caught:
                await words(client, "ai/keyless")
            assert caught.value.code == "authentication_unavailable"
            assert worker.wakes == []


async def test_a_full_queue_is_429_with_retry_after_and_a_place_that_frees_is_used() -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        engine.think.clear()
        worker.serve(message(max_queue=2, endpoints=[endpoint(engine.port)]))
        async with gateway(worker.address) as running, running.openai() as client:
            inside = [asyncio.create_task(words(client, KEY)) for _ in range(2)]
            await until(lambda: len(engine.requests) == 2)
            with pytest.raises(openai.RateLimitError) as caught:
                await words(client, KEY)
            assert caught.value.response.headers["retry-after"] == "5"
            inside[0].cancel()
            await until(lambda: engine.gone == 1)
            engine.think.set()
            assert await words(client, KEY) == "Good night!"
            assert await inside[1] == "Good night!"


@pytest.mark.parametrize("is_chunked", [True, False])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/ai/tiny/v1/chat/completions"])
async def test_a_body_over_the_limit_is_413(path: str, is_chunked: bool) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(20):
            yield b"x" * 100

    async with fake_worker() as worker:
        worker.serve(message())
        http = HttpSettings(host="127.0.0.1", port=0, max_body_bytes=1000)
        async with gateway(worker.address, http=http) as running, aiohttp.ClientSession() as session:
            data = pieces() if is_chunked else b"x" * 2000
            headers = {"content-type": "application/json"}
            async with session.post(running.url + path, data=data, headers=headers) as response:
                assert response.status == 413
                assert (await response.json())["error"]["code"] == "request_too_large"
            assert (await running.admin("/debug/queue"))[1]["body_bytes"] == 0


async def test_a_full_memory_is_503() -> None:
    async with fake_worker() as worker:
        worker.serve(message())
        admission = AdmissionSettings(max_bytes=500, max_bytes_per_service=500)
        async with gateway(worker.address, admission=admission) as running, running.openai() as client:
            with pytest.raises(openai.InternalServerError) as caught:
                await words(client, KEY, extra_body={"padding": "x" * 1000})
            assert (caught.value.status_code, caught.value.code) == (503, "overloaded")


async def test_a_client_that_never_finishes_its_body_is_cut_off() -> None:
    async with fake_worker() as worker:
        worker.serve(message())
        http = HttpSettings(host="127.0.0.1", port=0, body_timeout_seconds=0.1)
        async with gateway(worker.address, http=http) as running:
            reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
            writer.write(b"POST /ai/tiny/v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 100\r\n\r\n{")
            assert (await reader.readline()).startswith(b"HTTP/1.1 408")
            writer.close()
            assert worker.wakes == []


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"GET /v1/models HTTP/1.1\r\nhost: x\r\nx-long: " + b"y" * 20_000 + b"\r\n\r\n", b"431"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"POST /v1/x HTTP/1.1\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n", b"400"),
        (b"POST /ai/tiny/v1/x HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", b"400"),
    ],
)
async def test_a_request_that_http_does_not_allow_is_refused_in_the_same_shape(
    raw: bytes, status: bytes
) -> None:
    async with fake_worker() as worker:
        worker.serve(message())
        async with gateway(worker.address) as running:
            reader, writer = await asyncio.open_connection("127.0.0.1", running.port)
            writer.write(raw)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 " + status)
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            assert "error" in json.loads(await reader.readexactly(length))
            writer.close()


async def test_browsers_may_call_from_origins_that_were_named() -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        worker.serve(message(endpoints=[endpoint(engine.port)]))
        http = HttpSettings(host="127.0.0.1", port=0, cors_origins=("https://app.example",))
        async with gateway(worker.address, http=http) as running, aiohttp.ClientSession() as session:
            for origin, allowed in (("https://app.example", True), ("https://evil.example", False)):
                headers = {"origin": origin, "access-control-request-method": "POST"}
                async with session.options(running.url + "/v1/chat/completions", headers=headers) as response:
                    assert response.status == 204
                    assert ("access-control-allow-methods" in response.headers) is allowed
                async with running.post(session, headers={"origin": origin}) as response:
                    assert (response.headers.get("access-control-allow-origin") == origin) is allowed
                    await response.read()


async def test_the_refusal_of_one_request_leaves_the_connection_fit_for_the_next() -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        worker.serve(message(endpoints=[endpoint(engine.port)]))
        connector = aiohttp.TCPConnector(limit=1)
        async with gateway(worker.address) as running, aiohttp.ClientSession(connector=connector) as session:
            for _ in range(3):
                async with running.post(
                    session, body={"model": "ai/nobody", "padding": "x" * 5000}
                ) as response:
                    assert response.status == 404
                    await response.read()
                async with running.post(session, body={"messages": CHAT}) as response:
                    assert b"[DONE]" in await response.read()

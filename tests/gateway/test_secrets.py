"""No key, Authorization header or body leaves the gateway by a door that is not its own: logs, errors, traces, /debug, engines."""

import json
import logging
from collections.abc import Iterator
from io import StringIO
from typing import Any

import aiohttp
import openai
import pytest

from noctaya.telemetry import JsonFormatter
from tests.gateway.fake_engine import fake_engine
from tests.gateway.fake_worker import fake_worker
from tests.gateway.raw_client import ask, request
from tests.gateway.raw_engine import raw_engine, saying
from tests.gateway.running import gateway, words
from tests.gateway.services import KEY, endpoint, message
from tests.gateway.test_keys import OLD, RIGHT

SECRETS = ("sk-right", "sk-wrong", "sk-query", "PROMPT", "Bearer")


@pytest.fixture
def log() -> Iterator[StringIO]:
    """Everything that this process logs, debug included, as a log store would get it."""
    told = StringIO()
    handler = logging.StreamHandler(told)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield told
    root.removeHandler(handler)
    root.setLevel(level)


def locked(key: str = KEY, *digests: bytes, **more: Any) -> Any:
    return message(key, auth_required=True, keys=[{"hmac_sha256": digest} for digest in digests], **more)


async def test_neither_keys_nor_bodies_are_told_to_anybody(log: StringIO) -> None:
    echo = {"error": {"message": "bad input: PROMPT", "type": "t", "code": "c"}}
    body = json.dumps(echo).encode()
    refusing = saying(b"HTTP/1.1 400 Bad\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
    async with (
        fake_worker(open_namespaces=()) as worker,
        raw_engine(refusing) as refusal,
        raw_engine(saying(b"PROMPT\r\n\r\n")) as noise,
    ):
        quick = {"heartbeat_interval_ms": 20, "health_path": ""}
        worker.serve(
            locked("ai/cold", RIGHT, **quick),
            locked("ai/noise", RIGHT, endpoints=[endpoint(noise.port)], health_path=""),
            locked("ai/late", RIGHT, activation_timeout_ms=50),
        )
        async with gateway(worker.address) as running, aiohttp.ClientSession() as session:
            told = ""
            for key, model in (
                ("sk-right", "ai/noise"),
                ("sk-right", "ai/late"),
                ("sk-wrong", "ai/cold"),
                ("sk-right", "PROMPT"),
            ):
                async with running.post(
                    session,
                    body={"model": model, "messages": "PROMPT"},
                    headers={"authorization": f"Bearer {key}", "x-noctaya-trace": "1"},
                ) as response:
                    told += str(response.headers) + (await response.text()).replace("model 'PROMPT'", "")
            async with running.post(
                session,
                body={"model": "ai/cold", "prompt": "PROMPT"},
                headers={"authorization": "Bearer sk-right"},
            ) as response:
                await response.content.readuntil(b"\n\n")
                told += json.dumps((await running.admin("/debug/queue"))[1])
                worker.serve(locked("ai/cold", RIGHT, endpoints=[endpoint(refusal.port)], **quick))
                with pytest.raises(aiohttp.ClientPayloadError):
                    await response.read()
            bad = request(b"PROMPT", more=b"authorization: Bearer sk-right\r\n")
            told += (await ask(running.port, bad)).data.decode()
            bad = request(more=b"authorization : Bearer sk-right\r\n")
            told += (await ask(running.port, bad)).data.decode()
            bad = request(path=b"/nowhere?api-key=sk-query")
            told += (await ask(running.port, bad)).data.decode()
            told += (await running.admin("/metrics"))[1]
    told = told.replace('Bearer realm="noctaya"', "").replace("'Authorization: Bearer KEY'", "")
    logged = log.getvalue()
    assert "answer cut" in logged
    for secret in SECRETS:
        assert secret not in told, secret
        assert secret not in logged, secret


async def test_a_key_is_rotated_without_a_request_lost_and_the_old_one_ends_with_its_digest() -> None:
    async with fake_worker(open_namespaces=()) as worker, fake_engine() as engine:
        ends = [endpoint(engine.port)]
        worker.serve(locked(KEY, OLD, endpoints=ends))
        async with (
            gateway(worker.address) as running,
            running.openai(key="sk-old") as old,
            running.openai(key="sk-right") as new,
        ):
            assert await words(old, KEY) == "Good night!"
            with pytest.raises(openai.AuthenticationError):
                await words(new, KEY)
            worker.serve(locked(KEY, OLD, RIGHT, endpoints=ends))
            await worker.until_applied()
            assert await words(old, KEY) == await words(new, KEY) == "Good night!"
            worker.serve(locked(KEY, RIGHT, endpoints=ends))
            await worker.until_applied()
            assert await words(new, KEY) == "Good night!"
            with pytest.raises(openai.AuthenticationError):
                await words(old, KEY)


async def test_the_key_of_one_model_never_reaches_the_engine_of_another() -> None:
    """An open model may belong to somebody else; whoever calls both with one client must not hand over the key."""
    async with fake_worker(open_namespaces=("public",)) as worker, fake_engine() as engine:
        worker.serve(locked(KEY, RIGHT), message("public/open", endpoints=[endpoint(engine.port)]))
        async with gateway(worker.address) as running:
            for key in ("sk-right", "the-engines-own"):
                async with running.openai(key=key) as client:
                    assert await words(client, "public/open") == "Good night!"
        assert "authorization" not in engine.headers[0]
        assert engine.headers[1]["authorization"] == "Bearer the-engines-own"


async def test_what_a_client_claims_of_its_origin_is_not_passed_on() -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        worker.serve(message(endpoints=[endpoint(engine.port)]))
        async with gateway(worker.address) as running:
            claims = b"forwarded: for=6.6.6.6\r\nx-real-ip: 6.6.6.6\r\nx-forwarded-for: 6.6.6.6\r\nx-forwarded-port: 6\r\n"
            assert (await ask(running.port, request(more=claims))).status == 200
        assert "6.6.6.6" not in str(engine.headers[0])
        assert "x-forwarded-port" not in engine.headers[0]

"""Held requests: silence until the first heartbeat, then a stream that never lies; a client that leaves frees its place."""

import asyncio
import json
import time
from typing import Any

import aiohttp
import openai
import pytest

from noctaya.gateway.settings import HoldSettings
from noctaya.wire import control
from tests.gateway.fake_engine import fake_engine
from tests.gateway.fake_worker import fake_worker
from tests.gateway.running import CHAT, gateway, until, until_async, until_cut, words
from tests.gateway.services import KEY, endpoint, message

BEAT = 0.1


def asleep(**more: Any) -> "control.Service":
    return message(**({"heartbeat_interval_ms": round(BEAT * 1000)} | more))


async def test_a_quick_wake_keeps_the_engines_real_status() -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        engine.refuse_with = 400
        worker.serve(message())
        worker.on_wake = lambda wake: worker.serve(message(endpoints=[endpoint(engine.port)]))
        async with gateway(worker.address) as running, running.openai() as client:
            with pytest.raises(openai.BadRequestError, match="too many tokens"):
                await words(client, KEY)


async def test_nothing_is_sent_before_the_first_heartbeat_and_then_one_each_interval() -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        worker.serve(asleep())
        async with gateway(worker.address) as running, aiohttp.ClientSession() as session:
            begun = time.monotonic()
            async with running.post(session) as response:
                assert response.status == 200
                assert response.headers["content-type"].startswith("text/event-stream")
                beats = []
                for _ in range(4):
                    assert await response.content.readuntil(b"\n\n") == b": heartbeat\n\n"
                    beats.append(time.monotonic() - begun)
                assert beats[0] >= BEAT
                assert beats[3] < 4 * BEAT + 0.5
                worker.serve(asleep(endpoints=[endpoint(engine.port)]))
                rest = await response.content.read()
            assert rest.endswith(b"data: [DONE]\n\n")
            assert b"Good" in rest


@pytest.mark.parametrize("mode", [control.CHUNK, control.COMMENT, control.PROGRESS])
async def test_the_openai_client_reads_through_heartbeats_of_every_kind(
    mode: "control.HeartbeatMode",
) -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        worker.serve(asleep(heartbeat_mode=mode))
        async with gateway(worker.address) as running, running.openai() as client:
            asking = asyncio.create_task(words(client, KEY))
            await worker.until(lambda: len(worker.wakes) == 1)
            await asyncio.sleep(2.5 * BEAT)
            worker.serve(asleep(heartbeat_mode=mode, endpoints=[endpoint(engine.port)]))
            assert await asking == "Good night!"


async def test_progress_heartbeats_tell_phase_and_time() -> None:
    async with fake_worker() as worker:
        worker.serve(asleep(heartbeat_mode=control.PROGRESS, phase="Loading"))
        async with gateway(worker.address) as running, aiohttp.ClientSession() as session:
            async with running.post(session) as response:
                beat = await response.content.readuntil(b"\n\n")
            told = json.loads(beat.removeprefix(b": progress "))
            assert told["phase"] == "Loading"
            assert told["elapsed_ms"] >= BEAT * 1000


@pytest.mark.parametrize("stream", [True, False])
async def test_a_model_that_does_not_wake_in_time_is_503_with_retry_after(stream: bool) -> None:
    async with fake_worker() as worker:
        worker.serve(message(activation_timeout_ms=150, problem="ImagePullFailed"))
        async with gateway(worker.address) as running, running.openai() as client:
            with pytest.raises(openai.InternalServerError, match="ImagePullFailed") as caught:
                await client.chat.completions.create(model=KEY, messages=CHAT, stream=stream)
            assert caught.value.status_code == 503
            assert caught.value.code == "activation_timeout"
            assert caught.value.response.headers["retry-after"] == "10"
            assert await running.queue(KEY) == {} or (await running.queue(KEY))["pending"] == 0


async def test_without_heartbeats_a_stream_keeps_its_status_to_the_end() -> None:
    async with fake_worker() as worker:
        worker.serve(asleep(heartbeat_mode=control.OFF, queue_timeout_ms=300))
        async with gateway(worker.address) as running, running.openai() as client:
            with pytest.raises(openai.InternalServerError):
                await words(client, KEY)


async def test_a_timeout_after_the_first_heartbeat_is_an_error_event_and_a_cut() -> None:
    async with fake_worker() as worker:
        worker.serve(asleep(activation_timeout_ms=250))
        async with (
            gateway(worker.address) as running,
            running.openai() as client,
            aiohttp.ClientSession() as session,
        ):
            async with running.post(session) as response:
                assert response.status == 200
                with pytest.raises(aiohttp.ClientPayloadError):
                    await response.read()
            with pytest.raises(openai.APIError, match="did not become ready"):
                await words(client, KEY)


async def test_an_engines_refusal_after_the_first_heartbeat_is_its_own_error_as_an_event() -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        engine.refuse_with = 400
        worker.serve(asleep())
        async with (
            gateway(worker.address) as running,
            aiohttp.ClientSession() as session,
            running.post(session) as response,
        ):
            await response.content.readuntil(b"\n\n")
            worker.serve(asleep(endpoints=[endpoint(engine.port)]))
            received = await until_cut(response)
            frame = received[received.index(b"data: ") :]
            assert json.loads(frame.removeprefix(b"data: "))["error"]["message"] == "too many tokens"
            assert b"[DONE]" not in received


@pytest.mark.parametrize("size", [10, 60_000, 100_000, 262_144, 1_000_000])
async def test_a_client_that_leaves_frees_its_place_at_once_and_its_demand_after_the_linger(
    size: int,
) -> None:
    linger = 0.4
    async with fake_worker() as worker:
        worker.serve(message())
        hold = HoldSettings(lease_linger_seconds=linger)
        async with gateway(worker.address, hold=hold) as running, aiohttp.ClientSession() as session:

            async def ask() -> None:
                async with running.post(session, body={"padding": "x" * size}):
                    raise AssertionError("nothing can have answered")

            asking = asyncio.create_task(ask())
            await worker.until(lambda: worker.demand(KEY) == 1)
            asking.cancel()
            left = time.monotonic()
            await asyncio.gather(asking, return_exceptions=True)

            async def is_free() -> bool:
                queue = await running.queue(KEY)
                return queue == {} or (queue["places"], queue["pending"]) == (0, 0)

            await until_async(is_free)
            assert worker.is_wanted(KEY)
            await worker.until(lambda: not worker.is_wanted(KEY))
            assert time.monotonic() - left >= linger
            assert (await running.admin("/debug/queue"))[1]["body_bytes"] == 0


async def test_in_reject_mode_a_cold_request_is_503_and_the_model_wakes_all_the_same() -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        worker.serve(message(cold_start_mode=control.REJECT, activation_timeout_ms=60_000))
        async with gateway(worker.address) as running, running.openai() as client:
            with pytest.raises(openai.InternalServerError) as caught:
                await words(client, KEY)
            assert (caught.value.code, caught.value.response.headers["retry-after"]) == ("model_cold", "10")
            await worker.until(lambda: len(worker.wakes) == 1)
            assert 55_000 < worker.wakes[0].service.lease_remaining_ms <= 60_000
            await worker.until(lambda: worker.is_wanted(KEY) and worker.demand(KEY) == 0)
            worker.serve(message(cold_start_mode=control.REJECT, endpoints=[endpoint(engine.port)]))
            await worker.until_applied()
            assert await words(client, KEY) == "Good night!"


async def test_a_request_whose_model_is_deleted_is_told_so() -> None:
    async with fake_worker() as worker:
        worker.serve(message())
        worker.on_wake = lambda wake: worker.remove(KEY)
        hold = HoldSettings(lease_linger_seconds=0.05)
        async with gateway(worker.address, hold=hold) as running, running.openai() as client:
            with pytest.raises(openai.InternalServerError, match="removed"):
                await words(client, KEY)
            await worker.until(lambda: not worker.is_wanted(KEY))


async def test_a_pod_is_used_as_soon_as_it_answers_before_the_api_calls_it_ready() -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        engine.is_healthy = False
        worker.serve(message(endpoints=[endpoint(engine.port, ready=False)]))
        async with gateway(worker.address) as running, running.openai() as client:
            asking = asyncio.create_task(words(client, KEY))
            await until(lambda: engine.probes >= 2)
            assert not asking.done()
            engine.is_healthy = True
            assert await asking == "Good night!"


async def test_the_first_waiter_may_leave_without_harm_to_the_others() -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        engine.is_healthy = False
        worker.serve(message(endpoints=[endpoint(engine.port, ready=False)]))
        async with gateway(worker.address) as running, running.openai() as client:
            first = asyncio.create_task(words(client, KEY))
            await worker.until(lambda: worker.demand(KEY) == 1)
            second = asyncio.create_task(words(client, KEY))
            await worker.until(lambda: worker.demand(KEY) == 2)
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            engine.is_healthy = True
            assert await second == "Good night!"


async def test_a_client_that_asks_gets_the_waterfall_right_before_the_first_byte() -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        worker.serve(asleep())
        headers = {"x-noctaya-trace": "1"}
        async with gateway(worker.address) as running, aiohttp.ClientSession() as session:
            async with running.post(session, headers=headers) as response:
                await response.content.readuntil(b"\n\n")
                worker.serve(asleep(endpoints=[endpoint(engine.port)]))
                rest = (await response.content.read()).decode()
            comments = [event for event in rest.split("\n\n") if not event.startswith(": heartbeat")]
            told = json.loads(comments[0].removeprefix(": cold-start "))
            assert told["clock"] > 0
            assert told["wake_ack"] <= told["first_byte"]
            assert comments[1].startswith("data: ")
            assert "x-noctaya-trace" not in engine.headers[0]

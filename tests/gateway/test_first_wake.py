"""The path that everything hangs on: a request for a sleeping model wakes it and gets its answer."""

import asyncio
import json
from typing import Any

import pytest

from tests.gateway.fake_engine import FakeEngine, fake_engine
from tests.gateway.fake_worker import FakeWorker, fake_worker
from tests.gateway.running import CHAT, gateway, words
from tests.gateway.services import KEY, endpoint, message


def wakes_into(worker: FakeWorker, engine: FakeEngine, **more: Any) -> None:
    """A wake makes the engine's pod appear, as KEDA, the kubelet and the worker would do together."""
    worker.on_wake = lambda wake: worker.serve(
        message(endpoints=[endpoint(engine.port)], phase="Ready", **more)
    )


async def test_a_streaming_request_to_a_sleeping_model_is_answered() -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        worker.serve(message())
        wakes_into(worker, engine)
        async with gateway(worker.address) as running, running.openai() as client:
            raw = await client.chat.completions.with_raw_response.create(
                model=KEY, messages=CHAT, stream=True
            )
            stream: Any = raw.parse()
            assert "".join([chunk.choices[0].delta.content async for chunk in stream]) == "Good night!"
            moments = json.loads(raw.headers["x-noctaya-cold-start"])
            assert next(iter(moments)) == "arrival"
            assert {"demand", "endpoint", "probe", "forwarded", "first_byte"} <= set(moments)
            assert len(engine.requests) == 1


async def test_a_plain_request_to_a_sleeping_model_is_answered() -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        worker.serve(message())
        wakes_into(worker, engine)
        async with gateway(worker.address) as running, running.openai() as client:
            answer = await client.chat.completions.create(model=KEY, messages=CHAT)
            assert answer.choices[0].message.content == "Good night!"


async def test_twenty_first_requests_make_one_wake_and_twenty_answers() -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        worker.serve(message())
        async with gateway(worker.address) as running, running.openai() as client:
            asked = [
                asyncio.create_task(client.chat.completions.create(model=KEY, messages=CHAT))
                for _ in range(20)
            ]
            await worker.until(lambda: worker.demand(KEY) == 20)
            assert len(worker.wakes) == 1
            worker.serve(message(endpoints=[endpoint(engine.port)]))
            answers = await asyncio.gather(*asked)
            assert [answer.choices[0].message.content for answer in answers] == ["Good night!"] * 20
            assert len(engine.requests) == 20
            await worker.until(lambda: not worker.is_wanted(KEY))
            assert len(worker.wakes) == 1


@pytest.mark.parametrize("stream", [True, False])
async def test_a_warm_request_wakes_nothing_and_carries_no_cold_start_header(stream: bool) -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        worker.serve(message(endpoints=[endpoint(engine.port)]))
        async with gateway(worker.address) as running, running.openai() as client:
            raw = await client.chat.completions.with_raw_response.create(
                model=KEY, messages=CHAT, stream=stream
            )
            assert raw.headers["x-engine"] == "fake"
            assert "x-noctaya-cold-start" not in raw.headers
            assert worker.wakes == []
            assert engine.probes == 0


async def test_a_model_wakes_ten_times_in_a_row() -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        worker.serve(message())
        wakes_into(worker, engine)
        async with gateway(worker.address) as running, running.openai() as client:
            for number in range(10):
                assert await words(client, KEY) == "Good night!"
                await worker.until(lambda: not worker.is_wanted(KEY))
                worker.serve(message())
                await worker.until_applied()
                assert len(worker.wakes) == number + 1

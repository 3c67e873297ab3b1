"""A thousand held streams: each gets its heartbeats on time, and all are answered."""

import asyncio
import time
from typing import Any

from tests.gateway.fake_worker import fake_worker
from tests.gateway.raw_client import connection, request
from tests.gateway.raw_engine import raw_engine, saying
from tests.gateway.running import gateway, until
from tests.gateway.services import endpoint, message

STREAMS = 1000
BEAT = 1.0
LATE_SECONDS = 0.5
"""Beyond what the loop itself was late, which clients, gateway and engine share here. `bench/` holds the goal: 0.25 s at the
99th percentile."""


async def test_a_thousand_held_streams_get_their_heartbeats_on_time_and_then_their_answers() -> None:
    ask = request(b'{"model": "ai/tiny", "stream": true}')
    beats: list[float] = []
    """Time between two heartbeats of a stream, less what it should be."""
    loop_lags: list[float] = []

    async def one(port: int) -> bytes:
        async with connection(port) as (reader, writer):
            writer.write(ask)
            await reader.readuntil(b": heartbeat\n\n\r\n")
            begun = time.monotonic()
            for number in (1, 2):
                await reader.readuntil(b": heartbeat\n\n\r\n")
                beats.append(abs(time.monotonic() - begun - number * BEAT))
            return await reader.readuntil(b"\r\n0\r\n\r\n")

    async def watch_loop() -> None:
        while True:
            begun = time.monotonic()
            await asyncio.sleep(0.01)
            loop_lags.append(time.monotonic() - begun - 0.01)

    answer = (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 14\r\n\r\ndata: [DONE]\n\n"
    )
    asleep: dict[str, Any] = {
        "heartbeat_interval_ms": round(BEAT * 1000),
        "max_queue": STREAMS,
        "activation_timeout_ms": 60_000,
        "health_path": "",
    }
    async with fake_worker() as worker, raw_engine(saying(answer)) as engine:
        worker.serve(message(**asleep))
        async with gateway(worker.address) as running:
            watching = asyncio.create_task(watch_loop())
            asking = []
            for number in range(STREAMS):
                asking.append(asyncio.create_task(one(running.port)))
                if number % 20 == 19:
                    await asyncio.sleep(0.02)  # a burst would measure the client's own start
            await until(lambda: len(beats) == 2 * STREAMS, 40)
            assert len(worker.wakes) == 1
            worker.serve(message(endpoints=[endpoint(engine.port)], **asleep))
            async with asyncio.timeout(30):
                answers = await asyncio.gather(*asking)
            watching.cancel()
        assert all(b"data: [DONE]" in got for got in answers)
        assert len(engine.ids) == STREAMS
        # A beat is a difference of two readings, either of which may come late.
        assert sorted(beats)[int(len(beats) * 0.99)] < LATE_SECONDS + 2 * max(loop_lags)

"""The end of a gateway: answers finish, the rest is told, demand goes last, nothing is left."""

import asyncio
import time

import aiohttp
import openai
import pytest

from noctaya.gateway.settings import DrainSettings, HttpSettings
from tests.gateway.fake_engine import fake_engine
from tests.gateway.fake_worker import fake_worker
from tests.gateway.raw_client import connection, listen, one_answer, request
from tests.gateway.running import gateway, until, until_cut, words
from tests.gateway.services import KEY, endpoint, message


async def test_while_load_balancers_notice_it_is_not_ready_and_still_accepts() -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        worker.serve(message(endpoints=[endpoint(engine.port)]))
        drain = DrainSettings(propagation_seconds=30.0, limit_seconds=30.0)
        async with gateway(worker.address, drain=drain) as running, running.openai() as client:
            running.stop.set()
            await asyncio.sleep(0)
            assert (await running.admin("/readyz"))[0] == 503
            assert await words(client, KEY) == "Good night!"


async def test_a_running_stream_is_finished_and_nothing_new_is_accepted() -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        engine.pause.clear()
        worker.serve(message(endpoints=[endpoint(engine.port)]))
        drain = DrainSettings(propagation_seconds=0.0, limit_seconds=30.0)
        async with gateway(worker.address, drain=drain) as running, aiohttp.ClientSession() as session:
            async with running.post(session) as response:
                await response.content.readuntil(b"\n\n")
                running.stop.set()
                await asyncio.sleep(0.05)
                with pytest.raises(aiohttp.ClientConnectorError):
                    async with aiohttp.ClientSession() as other, running.post(other):
                        raise AssertionError("the listener is closed")
                assert worker.byes == 0, "demand is withdrawn last"
                engine.pause.set()
                assert (await response.content.read()).endswith(b"data: [DONE]\n\n")
            assert running.task is not None
            async with asyncio.timeout(2):
                await running.task
            assert worker.byes == 1


async def test_an_idle_keep_alive_connection_does_not_hold_the_end_up() -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        worker.serve(message(endpoints=[endpoint(engine.port)]))
        drain = DrainSettings(propagation_seconds=0.0, limit_seconds=30.0)
        async with gateway(worker.address, drain=drain) as running, running.openai() as client:
            await words(client, KEY)
            begun = time.monotonic()
            running.stop.set()
            assert running.task is not None
            await running.task
            assert time.monotonic() - begun < 3


async def test_at_the_limit_streams_get_an_error_event_and_held_requests_a_503() -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        engine.pause.clear()
        worker.serve(message(endpoints=[endpoint(engine.port)]), message("ai/cold"))
        drain = DrainSettings(propagation_seconds=0.0, limit_seconds=0.2)
        async with gateway(worker.address, drain=drain) as running, aiohttp.ClientSession() as session:
            async with running.openai() as client, running.post(session) as response:
                await response.content.readuntil(b"\n\n")
                held = asyncio.create_task(words(client, "ai/cold"))
                await worker.until(lambda: worker.demand("ai/cold") == 1)
                running.stop.set()
                received = await until_cut(response)
                assert b'"code":"shutting_down"' in received
                with pytest.raises(openai.InternalServerError) as caught:
                    await held
                assert caught.value.code == "shutting_down"
            assert running.task is not None
            await running.task
            await until(lambda: engine.gone == 1)


async def test_a_second_signal_ends_at_once() -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        engine.pause.clear()
        worker.serve(message(endpoints=[endpoint(engine.port)]))
        drain = DrainSettings(propagation_seconds=60.0, limit_seconds=60.0)
        async with gateway(worker.address, drain=drain) as running, aiohttp.ClientSession() as session:
            async with running.post(session) as response:
                await response.content.readuntil(b"\n\n")
                reading = asyncio.create_task(until_cut(response))
                running.stop.set()
                running.hurry.set()
                assert running.task is not None
                async with asyncio.timeout(3):
                    await running.task
                assert b"shutting_down" in await reading
            assert worker.byes == 1


async def test_answers_that_are_given_while_it_drains_ask_for_a_new_connection() -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        worker.serve(message(endpoints=[endpoint(engine.port)]))
        drain = DrainSettings(propagation_seconds=30.0, limit_seconds=30.0)
        async with (
            gateway(worker.address, drain=drain) as running,
            connection(running.port) as (reader, writer),
        ):
            writer.write(request())
            assert b"connection: keep-alive" in (await one_answer(reader)).head
            running.stop.set()
            await asyncio.sleep(0)
            writer.write(request())
            heard = await listen(reader, 5)
            assert (heard.status, heard.end) == (200, "closed")
            assert b"connection: close" in heard.head


@pytest.mark.parametrize("upto", [40, 90, -1])
async def test_a_request_that_is_still_being_sent_when_the_signal_comes_is_answered(upto: int) -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        worker.serve(message(endpoints=[endpoint(engine.port)]))
        drain = DrainSettings(propagation_seconds=0.0, limit_seconds=30.0)
        async with (
            gateway(worker.address, drain=drain) as running,
            connection(running.port) as (reader, writer),
        ):
            data = request()
            writer.write(data[:upto])
            await writer.drain()
            await asyncio.sleep(0.05)
            running.stop.set()
            await asyncio.sleep(0.1)
            writer.write(data[upto:])
            assert (await one_answer(reader)).status == 200
            assert len(engine.requests) == 1


async def test_a_held_request_that_wakes_during_the_drain_is_answered() -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        worker.serve(message())
        drain = DrainSettings(propagation_seconds=0.0, limit_seconds=30.0)
        async with gateway(worker.address, drain=drain) as running, running.openai() as client:
            asking = asyncio.create_task(words(client, KEY))
            await worker.until(lambda: worker.demand(KEY) == 1)
            running.stop.set()
            await asyncio.sleep(0.1)
            assert worker.byes == 0
            worker.serve(message(endpoints=[endpoint(engine.port)]))
            assert await asking == "Good night!"


async def test_a_head_that_never_ends_does_not_hold_the_end_up_beyond_its_deadline() -> None:
    async with fake_worker() as worker:
        drain = DrainSettings(propagation_seconds=0.0, limit_seconds=60.0)
        http = HttpSettings(host="127.0.0.1", port=0, head_timeout_seconds=0.3)
        async with gateway(worker.address, drain=drain, http=http) as running:
            async with connection(running.port) as (reader, writer):
                writer.write(b"POST /v1/compl")
                await writer.drain()
                await asyncio.sleep(0.05)
                running.stop.set()
                assert (await listen(reader, 5)).status == 408
                assert running.task is not None
                async with asyncio.timeout(5):
                    await running.task

"""The control link over real sockets: routes survive workers, demand reaches the owner, the end is announced."""

import asyncio

import openai
import pytest

from noctaya.wire import control
from tests.gateway.fake_engine import fake_engine
from tests.gateway.fake_worker import FakeWorker, fake_worker
from tests.gateway.running import gateway, until, until_async, words
from tests.gateway.services import KEY, endpoint, message


async def test_a_held_request_survives_a_worker_restart() -> None:
    async with fake_engine() as engine:
        worker = FakeWorker()
        await worker.start()
        worker.serve(message())
        async with gateway(worker.address) as running, running.openai() as client:
            asking = asyncio.create_task(words(client, KEY))
            await worker.until(lambda: len(worker.wakes) == 1)
            await worker.stop()
            reborn = FakeWorker()
            reborn.epoch = 2
            reborn.serve(message())
            await reborn.start(worker.port)
            await reborn.until(lambda: reborn.demand(KEY) == 1)
            assert [(known.shard, known.epoch) for known in reborn.hellos[0].known] == [(7, 1)]
            assert reborn.hellos[0].boot_id == worker.hellos[0].boot_id
            reborn.serve(message(endpoints=[endpoint(engine.port)]))
            assert await asking == "Good night!"
            assert len(engine.requests) == 1
        await reborn.stop()


async def test_a_wake_that_no_worker_has_confirmed_is_told_to_the_next_one() -> None:
    first = FakeWorker()
    first.acks = None
    await first.start()
    first.serve(message())
    async with gateway(first.address) as running, running.openai() as client:
        asking = asyncio.create_task(words(client, KEY))
        await first.until(lambda: len(first.wakes) == 1)
        await first.stop()
        second = FakeWorker()
        await second.start(first.port)
        await second.until(lambda: len(second.wakes) == 1)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
    await second.stop()


async def test_without_any_worker_warm_requests_are_served_as_before() -> None:
    async with fake_engine() as engine:
        worker = FakeWorker()
        await worker.start()
        worker.serve(message(endpoints=[endpoint(engine.port)]))
        async with gateway(worker.address) as running, running.openai() as client:
            await worker.stop()
            assert await words(client, KEY) == "Good night!"
            status, told = await running.admin("/readyz")
            assert status == 200
            assert "no worker is linked" in told["problems"][0]


async def test_an_older_epoch_is_refused_and_changes_nothing() -> None:
    async with fake_worker() as worker:
        worker.epoch = 5
        worker.serve(message())
        async with gateway(worker.address) as running, running.openai() as client:
            worker.epoch = 4
            worker.remove(KEY)
            await worker.until(lambda: any(answer.WhichOneof("kind") == "nack" for answer in worker.answers))
            nack = worker.answers[-1].nack
            assert (nack.reason, nack.epoch) == (control.Nack.STALE_EPOCH, 5)
            assert [model.id async for model in client.models.list()] == [KEY]


async def test_every_update_is_confirmed_with_its_position() -> None:
    async with fake_worker() as worker:
        worker.serve(message())
        async with gateway(worker.address):
            worker.serve(message(phase="Loading"))
            await worker.until_applied()
            assert (worker.answers[-1].ack.shard, worker.answers[-1].ack.epoch) == (7, 1)


async def test_an_owner_that_stays_silent_is_passed_over_to_the_other_workers() -> None:
    async with fake_worker("w0") as owner, fake_worker("w1") as other:
        owner.acks, owner.epoch = None, 2
        owner.serve(message())
        other.epoch = 1
        async with gateway(owner.address, other.address) as running, running.openai() as client:
            await owner.until_applied()
            await other.until(lambda: len(other.answers) >= 1)
            asking = asyncio.create_task(words(client, KEY))
            await owner.until(lambda: len(owner.wakes) == 1)
            assert other.wakes == []
            await other.until(lambda: len(other.wakes) == 1)
            assert other.wakes[0].wake_id == owner.wakes[0].wake_id
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)


async def test_workers_that_a_worker_names_are_linked_and_a_second_link_to_one_of_them_is_cut() -> None:
    async with fake_worker("w0") as contact, fake_worker("w0") as same, fake_worker("w1") as other:
        contact.workers = {same.address: "w0", other.address: "w1"}
        async with gateway(contact.address) as running:

            async def only_the_listed() -> bool:
                told = (await running.admin("/debug/queue"))[1]["workers"]
                return bool(told == {same.address: "w0", other.address: "w1"})

            await until_async(only_the_listed)


async def test_full_reports_keep_coming_and_sequences_rise() -> None:
    async with fake_worker() as worker:
        worker.serve(message(activation_timeout_ms=60_000))
        async with gateway(worker.address) as running, running.openai() as client:
            asking = asyncio.create_task(words(client, KEY))
            await worker.until(lambda: len(worker.reports) >= 4)
            sequences = [report.sequence for report in worker.reports] + [
                wake.sequence for wake in worker.wakes
            ]
            assert len(set(sequences)) == len(sequences)
            assert [report.sequence for report in worker.reports] == sorted(
                report.sequence for report in worker.reports
            )
            assert worker.wakes[0].service.epoch_known == 1
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)


async def test_a_short_warm_request_is_seen_by_the_owner() -> None:
    """Keeps a model that has traffic awake, although no report falls into any of its requests."""
    async with fake_worker() as worker, fake_engine() as engine:
        worker.serve(message(endpoints=[endpoint(engine.port)]))
        async with gateway(worker.address) as running, running.openai() as client:
            await words(client, KEY)
            await worker.until(
                lambda: any(service.name == "tiny" for r in worker.reports for service in r.services)
            )
            await worker.until(lambda: not worker.is_wanted(KEY))


async def test_a_gateway_that_ends_says_bye() -> None:
    async with fake_worker() as worker:
        async with gateway(worker.address):
            pass
        assert worker.byes == 1


async def test_a_gateway_without_routes_is_not_ready() -> None:
    async with gateway("127.0.0.1:1", ready=False) as running, running.openai() as client:
        status, told = await running.admin("/readyz")
        assert (status, "no routes yet" in told["problems"]) == (503, True)
        assert (await running.admin("/healthz"))[0] == 200
        with pytest.raises(openai.NotFoundError):
            await words(client, KEY)


async def test_a_port_that_speaks_no_control_protocol_is_dialled_again_without_harm() -> None:
    dials = 0

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal dials
        dials += 1
        writer.write(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        writer.close()
        del reader

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server, fake_worker() as worker:
        worker.serve(message())
        port = server.sockets[0].getsockname()[1]
        async with gateway(f"127.0.0.1:{port}", worker.address):
            await until(lambda: dials >= 2)


async def test_a_worker_that_welcomes_and_tells_no_shard_makes_no_gateway_ready() -> None:
    async with fake_worker() as worker:
        worker.acts = False
        async with gateway(worker.address, ready=False) as running:
            await worker.until(lambda: bool(worker.reports))
            await asyncio.sleep(0.1)  # twice the time after which some shards would do
            assert (await running.admin("/readyz"))[0] == 503
            worker.serve(message())
            await running.until_ready()

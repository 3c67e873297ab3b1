"""Workers that lie, babble or are old: the gateway keeps its last good routes, its policy and its life."""

import asyncio
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc
import openai
import pytest

from noctaya.gateway.routing import Applied, RouteTable
from noctaya.gateway.settings import GatewaySettings
from noctaya.gateway.state import GatewayState
from noctaya.wire import control
from tests.gateway.fake_engine import fake_engine
from tests.gateway.fake_worker import fake_worker
from tests.gateway.running import gateway, until_async, words
from tests.gateway.services import FLEET, KEY, SECRET, endpoint, message, update


async def _babbler(first: bytes, *rest: bytes) -> tuple[grpc.aio.Server, str]:
    """A server that answers a link with these bytes, then waits."""

    async def link(requests: AsyncIterator[bytes], context: Any) -> AsyncIterator[bytes]:
        del context
        yield first
        for more in rest:
            yield more
        async for _ in requests:
            pass

    handler: Any = grpc.stream_stream_rpc_method_handler(link)
    server = grpc.aio.server()
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("noctaya.control.v1.Control", {"Link": handler}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    return server, f"127.0.0.1:{port}"


WELCOME = control.WorkerMessage(
    welcome=control.Welcome(
        fleet=FLEET,
        worker="babbler",
        key_digest_secret=SECRET,
        policy=control.FleetPolicy(open_namespaces=["*"]),
    )
).SerializeToString()
SHARD = control.WorkerMessage(shard=update(message("ai/other"), shard=9)).SerializeToString()


@pytest.mark.parametrize(
    "said",
    [
        (b"\xff\xff\xff garbage",),
        (b"",),
        (SHARD,),
        (WELCOME, b"\xff\xff garbage"),
        (WELCOME, b""),
        (WELCOME, SHARD, b"\x0a\xff"),
    ],
    ids=["garbage", "nothing", "no welcome", "garbage later", "an empty message", "a cut message"],
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
async def test_a_peer_that_babbles_does_not_end_the_gateway(said: tuple[bytes, ...]) -> None:
    server, address = await _babbler(*said)
    try:
        async with fake_worker() as worker, fake_engine() as engine:
            worker.serve(message(endpoints=[endpoint(engine.port)]))
            async with gateway(worker.address, address) as running, running.openai() as client:
                await asyncio.sleep(0.2)
                assert await words(client, KEY) == "Good night!"
                assert running.task is not None
                assert not running.task.done()
    finally:
        await server.stop(0)


async def test_addresses_that_are_none_are_dialled_in_vain_and_harm_nobody() -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        worker.serve(message(endpoints=[endpoint(engine.port)]))
        nonsense = {"": "a", ":::": "b", "host": "c", "x" * 3000: "d", "unix:/nowhere": "e", "a b:1": "f"}
        worker.workers = nonsense | {worker.address: "worker-0"}
        async with gateway(worker.address) as running, running.openai() as client:
            await asyncio.sleep(0.1)
            assert await words(client, KEY) == "Good night!"


async def test_a_worker_of_a_replaced_fleet_changes_neither_routes_nor_policy() -> None:
    """It may be partitioned away and know nothing of its end; its policy may open what is closed now."""
    async with (
        fake_worker("new", open_namespaces=()) as new,
        fake_worker("old") as old,
        fake_engine() as engine,
    ):
        old.serve(message(endpoints=[endpoint(engine.port)]))
        new.fleet = "fleet-2"
        new.serve(message(endpoints=[endpoint(engine.port)]))
        await new.stop()
        async with gateway(old.address, new.address) as running, running.openai() as client:
            assert await words(client, KEY) == "Good night!"
            await new.start(new.port)

            async def is_closed() -> bool:
                try:
                    await words(client, KEY)
                except (openai.AuthenticationError, openai.PermissionDeniedError):
                    return True
                return False

            await until_async(is_closed)
            await old.stop()
            await old.start(old.port)
            before = len(old.hellos)
            await old.until(lambda: len(old.hellos) > before)
            await old.until(lambda: any(answer.HasField("nack") for answer in old.answers))
            assert await is_closed()


def test_a_service_that_two_shards_tell_belongs_to_the_latest_and_leaves_no_trace_in_the_other() -> None:
    """Another fleet may count its shards differently: what was held goes on until it is told anew, elsewhere."""
    table = RouteTable()
    table.apply(update(message(hostnames=["one.example"], aliases=["one"]), shard=1))
    table.apply(update(message(hostnames=["two.example"], aliases=["two"]), shard=2, fleet="fleet-2"))
    assert table.by_hostname("one.example") is None
    assert table.by_name("one") == []
    table.apply(update(shard=1, fleet="fleet-2"))
    assert table.by_hostname("two.example") is table.get(KEY) is not None
    assert len(table) == 1
    table.apply(update(shard=2, fleet="fleet-2", version=2))
    assert table.by_hostname("two.example") is None
    assert len(table) == 0
    assert list(table.keyless_namespaces()) == []


async def test_an_endpoint_whose_address_is_none_is_passed_over() -> None:
    async with fake_worker() as worker, fake_engine() as engine:
        odd = [
            control.Endpoint(
                address=address, port=port, pod=f"odd-{number}", pod_uid=f"odd-{number}", ready=True
            )
            for number, (address, port) in enumerate([("127.0.0.1", 70_000), ("no host/x?", 80), ("[::", 80)])
        ]
        worker.serve(message(endpoints=[*odd, endpoint(engine.port)]))
        async with gateway(worker.address) as running, running.openai() as client:
            for _ in range(6):
                assert await words(client, KEY) == "Good night!"


def test_ten_thousand_services_are_taken_without_a_long_stall() -> None:
    """A fleet's 128 shards come one by one; between two the loop is free. Even all in one stays bounded."""
    state = GatewayState(GatewaySettings(), time.monotonic)
    services = [
        message(f"ns-{n % 50}/model-{n}", aliases=[f"m{n}"], keys=[{"hmac_sha256": b"%032d" % n}])
        for n in range(10_000)
    ]
    costs = []
    for shard in range(128):
        part = services[shard::128]
        begun = time.process_time()
        assert isinstance(state.take(update(*part, shard=shard)), Applied)
        costs.append(time.process_time() - begun)
    assert len(state.routes) == 10_000
    assert sorted(costs)[-5] < 0.1, "a collection of garbage may fall into the worst of them"
    begun = time.process_time()
    assert isinstance(state.take(update(*services[:128], shard=0, version=2)), Applied)
    assert time.process_time() - begun < 0.25

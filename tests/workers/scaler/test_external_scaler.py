"""The ExternalScaler over a real connection, as KEDA uses it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import grpc
import grpc.aio
import pytest

from noctaya.wire import externalscaler_grpc
from noctaya.workers.demand import Demand, Known, Unknown
from noctaya.workers.permission import Permission
from noctaya.workers.pushes import Pushes
from noctaya.workers.recency import HOLD, Recency
from noctaya.workers.scaler import SCALER_OPTIONS, ExternalScaler
from tests.workers.clients import Keda, keda, until

KEY = "ai/qwen"


class World:
    """What the scaler asks about, turned by hand."""

    def __init__(self) -> None:
        self.demand: Demand = Known(0)
        self.permission = Permission.ACT
        self.known: bool | None = True
        self.replicas = 0
        self.now = 1000.0


@asynccontextmanager
async def serving(
    world: World,
    *,
    stream_seconds: float = 900.0,
    options: tuple[tuple[str, int], ...] = SCALER_OPTIONS,
    recency: Recency | None = None,
    drain_spread_seconds: float = 0.05,
) -> AsyncIterator[tuple[ExternalScaler, Keda]]:
    scaler = ExternalScaler(
        demand=lambda key, now: world.demand,
        permission=lambda shard: world.permission,
        is_known=lambda key: world.known,
        pushes=Pushes(lambda key: False),
        replicas=lambda key: world.replicas,
        stream_seconds=stream_seconds,
        drain_spread_seconds=drain_spread_seconds,
        recency=recency,
        clock=lambda: world.now,
    )
    server = grpc.aio.server(options=options)
    externalscaler_grpc.add_ExternalScalerServicer_to_server(scaler, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    running = asyncio.create_task(scaler.run())
    try:
        async with keda(port) as client:
            yield scaler, client
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await server.stop(0.1)


async def refused(call: Callable[[], object]) -> grpc.StatusCode:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call()  # type: ignore[misc]
    return caught.value.code()


async def test_the_target_is_answered_whatever_this_worker_knows_or_may() -> None:
    world = World()
    world.permission, world.known, world.demand = Permission.NONE, None, Unknown()
    async with serving(world) as (_, client):
        spec = await client.spec(targetValue="2.5")
        assert (spec.metricName, spec.targetSize, spec.targetSizeFloat) == ("pending", 3, 2.5)


async def test_bad_metadata_is_invalid_for_every_call() -> None:
    async with serving(World()) as (_, client):
        assert await refused(lambda: client.spec(targetValue="0")) is grpc.StatusCode.INVALID_ARGUMENT
        assert await refused(lambda: client.metric(metric="cpu")) is grpc.StatusCode.INVALID_ARGUMENT


async def test_values_are_told_in_both_fields() -> None:
    world = World()
    async with serving(world) as (_, client):
        value = await client.metric()
        assert (value.metricName, value.metricValue, value.metricValueFloat) == ("pending", 0, 0.0)
        assert await client.is_active() is False
        world.demand = Known(7)
        value = await client.metric()
        assert (value.metricValue, value.metricValueFloat) == (7, 7.0)
        assert await client.is_active() is True


async def test_what_is_not_known_or_not_ours_is_unavailable_and_a_stranger_is_not_found() -> None:
    world = World()
    async with serving(world) as (_, client):
        world.demand = Unknown()
        assert await refused(client.is_active) is grpc.StatusCode.UNAVAILABLE
        assert await refused(client.metric) is grpc.StatusCode.UNAVAILABLE
        world.demand, world.permission = Known(0), Permission.NONE
        assert await refused(client.is_active) is grpc.StatusCode.UNAVAILABLE
        world.permission, world.known = Permission.ACT, None
        assert await refused(client.is_active) is grpc.StatusCode.UNAVAILABLE
        world.known = False
        assert await refused(client.is_active) is grpc.StatusCode.NOT_FOUND


async def test_of_a_model_that_is_awake_an_owner_that_does_not_know_tells_what_keeps_it_so() -> None:
    world = World()
    async with serving(world) as (_, client):
        world.demand, world.replicas = Unknown(), 2
        assert await client.is_active() is True
        spec, value = await client.spec(), await client.metric()
        assert value.metricValueFloat == 2 * spec.targetSizeFloat


async def test_a_poll_between_two_requests_finds_the_service_active_and_its_demand_honest() -> None:
    world, recency = World(), Recency()
    async with serving(world, recency=recency) as (_, client):
        recency.ended(KEY, world.now)
        assert await client.is_active(**{HOLD: "5"})
        assert (await client.metric()).metricValue == 0
        assert not await client.is_active()
        world.now += 5
        assert not await client.is_active(**{HOLD: "5"})


async def test_a_stream_says_true_on_an_edge_and_never_false() -> None:
    world = World()
    async with serving(world) as (scaler, client), client.stream() as stream:
        await until(lambda: scaler.stream_count == 1)
        scaler.push(scaler.pushes.rose(KEY, world.now))
        await until(lambda: stream.values == [True])
        scaler.pushes.fell(KEY)
        scaler.push(scaler.pushes.rose(KEY, world.now + 20))
        await until(lambda: stream.values == [True, True])


async def test_a_stream_that_opens_on_demand_says_true_at_once() -> None:
    world = World()
    world.demand = Known(1)
    async with serving(world) as (scaler, client), client.stream() as stream:
        await until(lambda: stream.values == [True])
        assert scaler.pushes.next_at(world.now) == world.now + 3.0, "it is re-asserted"


async def test_a_stream_that_opens_on_demand_of_another_workers_shard_says_true_and_is_followed_up() -> None:
    """KEDA opened it here, so that nobody else would tell it."""
    world = World()
    world.permission, world.demand = Permission.NONE, Unknown(seen=1)
    async with serving(world) as (scaler, client), client.stream() as stream, client.stream("other"):
        await until(lambda: stream.values == [True])
        assert scaler.pushes.next_at(world.now) == world.now + 3.0, "it is re-asserted"


async def test_a_stream_that_opens_on_demand_before_the_services_were_listed_is_told() -> None:
    """A worker that has just started: the gateways may have reported before its first list came."""
    world = World()
    world.known, world.demand = None, Known(1)
    async with serving(world) as (_, client), client.stream() as stream:
        await until(lambda: stream.values == [True])


async def test_a_stream_that_opens_without_demand_or_for_a_stranger_stays_silent() -> None:
    world = World()
    async with serving(world) as (scaler, client):
        async with client.stream() as quiet:
            await until(lambda: scaler.stream_count == 1)
            world.demand, world.known = Known(1), False
            async with client.stream("stranger") as strange:
                await until(lambda: scaler.stream_count == 2)
                assert (quiet.values, strange.values) == ([], [])


async def test_a_client_that_goes_is_forgotten() -> None:
    async with serving(World()) as (scaler, client):
        async with client.stream():
            await until(lambda: scaler.stream_count == 1)
        await until(lambda: scaler.stream_count == 0)
        assert not scaler.pushes.has_stream(KEY)


async def test_streams_end_with_ok_on_drain() -> None:
    async with serving(World()) as (scaler, client), client.stream() as stream, client.stream() as other:
        await until(lambda: scaler.stream_count == 2)
        await scaler.drain()
        await until(lambda: stream.ended and other.ended)
        assert (stream.ended, other.ended) == (grpc.StatusCode.OK, grpc.StatusCode.OK)
        assert await client.is_active() is False


async def test_a_push_while_streams_wait_for_their_turn_to_end_is_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("noctaya.workers.scaler.random.uniform", lambda low, high: high)  # the last in turn
    async with serving(World(), drain_spread_seconds=0.6) as (scaler, client), client.stream() as stream:
        await until(lambda: scaler.stream_count == 1)
        draining = asyncio.create_task(scaler.drain())
        await asyncio.sleep(0.02)
        scaler.push(scaler.pushes.rose(KEY, 2000.0))
        await draining
        await until(lambda: stream.ended)
        assert (stream.values, stream.ended) == ([True], grpc.StatusCode.OK)


async def test_streams_end_with_ok_after_their_time() -> None:
    async with serving(World(), stream_seconds=0.05) as (_, client), client.stream() as stream:
        await until(lambda: stream.ended)
        assert stream.ended is grpc.StatusCode.OK


async def test_an_aged_connection_takes_no_new_call_but_keeps_its_stream() -> None:
    """`grpc.max_connection_age_ms` without a grace is what moves KEDA to new workers; an error on the stream would cost it."""
    options = (*SCALER_OPTIONS[:-1], ("grpc.max_connection_age_ms", 150))
    async with serving(World(), options=options) as (scaler, client), client.stream() as stream:
        await until(lambda: scaler.stream_count == 1)
        await asyncio.sleep(0.4)
        assert await client.is_active() is False
        assert stream.ended is None
        scaler.push(scaler.pushes.rose(KEY, 2000.0))
        await until(lambda: stream.values == [True])

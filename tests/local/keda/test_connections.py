"""C1 to C5 of keda.md section 8 over real gRPC: one connection per address, no deadlines, look-ups only after a loss."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing, asynccontextmanager

import pytest

from noctaya.local.keda.channels import Channels, Resolve
from noctaya.local.keda.errors import ScalerFailed
from noctaya.local.keda.ports import MetricSpec, Reference
from noctaya.local.keda.settings import KedaSettings
from tests.local.keda.grpc_scaler import GrpcScaler

REFERENCE = Reference("ai", "model", {"scalerAddress": "x", "targetValue": "2"})
QUICK = KedaSettings(reconnect_first_seconds=0.1, reconnect_most_seconds=0.2, resolve_apart_seconds=0.2)


async def comes_true(claim: Callable[[], bool], within_seconds: float = 10.0) -> None:
    async with asyncio.timeout(within_seconds):
        while not claim():  # noqa: ASYNC110 (the claim is about a peer, which has no event to give)
            await asyncio.sleep(0.01)


@pytest.fixture
async def scaler() -> AsyncIterator[GrpcScaler]:
    made = GrpcScaler()
    await made.start()
    yield made
    await made.stop()


@asynccontextmanager
async def channels(
    resolve: Resolve = lambda _: [], settings: KedaSettings = QUICK
) -> AsyncIterator[Channels]:
    """Channels in a TaskGroup of their own, which is cancelled at the end as the operator's is."""
    ready: asyncio.Future[Channels] = asyncio.get_running_loop().create_future()

    async def live() -> None:
        async with asyncio.TaskGroup() as tasks:
            ready.set_result(Channels(resolve, settings, tasks))
            await asyncio.Event().wait()

    task = asyncio.create_task(live())
    try:
        yield await ready
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_the_whole_contract_crosses_the_wire(scaler: GrpcScaler) -> None:
    scaler.value, scaler.active = 2.25, True
    async with channels() as pool:
        at = pool.at(f"localhost:{scaler.port}")
        assert await at.metric_specs(REFERENCE) == [MetricSpec("pending", 1500)]
        assert await at.metrics(REFERENCE, "pending") == [2250]
        scaler.value = 0.0
        assert await at.metrics(REFERENCE, "pending") == [7000]
        assert await at.is_active(REFERENCE) is True


async def test_c1_all_scaledobjects_of_one_address_share_one_connection_that_opens_lazily(
    scaler: GrpcScaler,
) -> None:
    async with channels() as pool:
        address = f"127.0.0.1:{scaler.port}"
        assert pool.at(address) is pool.at(address)
        assert scaler.peers == set()
        at = pool.at(address)
        await asyncio.gather(*(at.is_active(REFERENCE) for _ in range(50)))
        assert len(scaler.peers) == 1


async def test_c2_a_name_is_called_round_robin_over_its_addresses_and_a_newcomer_is_not_noticed() -> None:
    scalers = [GrpcScaler() for _ in range(3)]
    await scalers[0].start("127.0.0.1")
    for number, one in enumerate(scalers[1:], start=2):
        await one.start(f"127.0.0.{number}", scalers[0].port)
    ips = ["127.0.0.1", "127.0.0.2"]
    try:
        async with channels(lambda host: list(ips)) as pool:
            at = pool.at(f"noctaya-scaler.noctaya-system.svc:{scalers[0].port}")
            await at.is_active(REFERENCE)
            await comes_true(lambda: len(at.ready_targets()) == 2)
            before = [len(one.calls) for one in scalers]
            for _ in range(20):
                await at.is_active(REFERENCE)
            assert [len(one.calls) - was for one, was in zip(scalers, before, strict=True)] == [10, 10, 0]
            ips.append("127.0.0.3")
            await asyncio.sleep(0.5)
            assert len(at.ready_targets()) == 2
            # A loss brings a look-up, which finds the newcomer; the survivor keeps its connection.
            await scalers[0].stop()
            ips.remove("127.0.0.1")
            survivors = {f"ipv4:127.0.0.{number}:{scalers[0].port}" for number in (2, 3)}
            await comes_true(lambda: set(at.ready_targets()) == survivors)
            for _ in range(4):
                await at.is_active(REFERENCE)
            assert scalers[2].calls == ["IsActive"] * 2
            assert len(scalers[1].peers) == 1
    finally:
        for one in scalers:
            await one.stop()


async def test_c2_a_look_up_may_be_a_coroutine_and_a_name_without_addresses_is_unavailable_until_it_has_some(
    scaler: GrpcScaler,
) -> None:
    ips: list[str] = []

    async def resolve(host: str) -> list[str]:
        assert host == "scaler.test"
        return list(ips)

    async with channels(resolve) as pool:
        at = pool.at(f"scaler.test:{scaler.port}")
        with pytest.raises(ScalerFailed, match="no addresses") as failure:
            await at.is_active(REFERENCE)
        assert failure.value.code == "UNAVAILABLE"
        ips.append("127.0.0.1")
        await comes_true(lambda: bool(at.ready_targets()))
        assert await at.is_active(REFERENCE) is False


async def test_c3_while_nobody_listens_calls_and_streams_fail_at_once_and_later_the_connection_returns(
    scaler: GrpcScaler,
) -> None:
    async with channels() as pool:
        at = pool.at(f"127.0.0.1:{scaler.port}")
        await at.is_active(REFERENCE)
        await scaler.stop()
        started = time.monotonic()
        for _ in range(3):
            with pytest.raises(ScalerFailed) as failure:
                await at.is_active(REFERENCE)
            assert failure.value.code == "UNAVAILABLE"
        with pytest.raises(ScalerFailed):
            async with aclosing(at.stream(REFERENCE)) as stream:
                await anext(stream)
        assert time.monotonic() - started < 2
        again = GrpcScaler()
        await again.start(port=scaler.port)
        try:
            await comes_true(lambda: bool(at.ready_targets()))
            assert await at.is_active(REFERENCE) is False
        finally:
            await again.stop()


async def test_c4_a_server_that_never_answers_is_waited_for_without_a_deadline(scaler: GrpcScaler) -> None:
    scaler.hangs = True
    async with channels() as pool:
        call = asyncio.create_task(pool.at(f"127.0.0.1:{scaler.port}").is_active(REFERENCE))
        await comes_true(lambda: scaler.calls == ["IsActive"])
        await asyncio.sleep(0.2)
        assert not call.done()
        call.cancel()
        await asyncio.wait([call])


async def test_c5_the_reference_carries_name_namespace_and_the_whole_metadata(scaler: GrpcScaler) -> None:
    async with channels() as pool:
        await pool.at(f"127.0.0.1:{scaler.port}").metric_specs(REFERENCE)
    assert scaler.metadata == [{"scalerAddress": "x", "targetValue": "2"}]


async def test_a_stream_delivers_ends_with_ok_and_is_cancelled_at_the_server_when_it_is_closed(
    scaler: GrpcScaler,
) -> None:
    async with channels() as pool:
        at = pool.at(f"127.0.0.1:{scaler.port}")
        async with aclosing(at.stream(REFERENCE)) as stream:
            scaler.pushes.put_nowait(True)
            assert await anext(stream) is True
            scaler.stream_ends = True
            scaler.pushes.put_nowait(False)
            assert await anext(stream) is False
            with pytest.raises(StopAsyncIteration):
                await anext(stream)
        scaler.stream_ends = False
        async with aclosing(at.stream(REFERENCE)) as stream:
            scaler.pushes.put_nowait(True)
            await anext(stream)
        await comes_true(lambda: scaler.cancelled_streams == 1 and scaler.open_streams == 0)


async def test_an_address_that_leaves_the_name_keeps_its_open_stream_until_that_ends() -> None:
    old, new = GrpcScaler(), GrpcScaler()
    await old.start("127.0.0.1")
    await new.start("127.0.0.2", old.port)
    ips = ["127.0.0.1"]
    try:
        async with channels(lambda host: list(ips)) as pool:
            at = pool.at(f"scaler.test:{old.port}")
            async with aclosing(at.stream(REFERENCE)) as stream:
                old.pushes.put_nowait(True)
                assert await anext(stream) is True
                ips[:] = ["127.0.0.2"]
                at.connection_lost()
                await comes_true(lambda: any("127.0.0.2" in target for target in at.ready_targets()))
                await at.is_active(REFERENCE)
                assert new.calls == ["IsActive"]
                old.pushes.put_nowait(False)
                assert await anext(stream) is False
    finally:
        await old.stop()
        await new.stop()


@pytest.mark.parametrize("address", ["scaler", "scaler:http", ":9090"])
async def test_an_address_without_host_or_port_is_unavailable(address: str) -> None:
    async with channels() as pool:
        with pytest.raises(ScalerFailed, match="is not host:port"):
            await pool.at(address).is_active(REFERENCE)

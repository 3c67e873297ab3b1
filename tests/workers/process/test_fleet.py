"""Several whole workers against the embedded API server: they share the shards, hand them over, and take them from the dead."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from noctaya.api.names import SHARD_COUNT, shard_of
from noctaya.kube import ClusterConfig
from noctaya.kube.clock import boottime
from noctaya.kube.objects import Secret
from noctaya.kube.resources import CONFIGMAPS, LEASES, SCALEDOBJECTS, SECRETS
from noctaya.leader.certificate_reading import LEAF_SECRETS
from noctaya.leader.lease_names import SHARDMAP, shard_lease
from noctaya.wire import peer, peer_grpc
from noctaya.wire.identity import Role
from noctaya.wire.material import AUTHORITIES, CERTIFICATE, KEY, Material
from noctaya.wire.mutual_tls import SecureChannels
from noctaya.workers.control_security import WorkerTlsSettings
from noctaya.workers.main import serve
from noctaya.workers.permission import Permission
from noctaya.workers.settings import KubeSettings, PodSettings, TenureSettings
from noctaya.workers.worker import Worker
from tests.faults import FaultProxy
from tests.wire.fleet_material import Given
from tests.workers.clients import Gateway, gateway, keda
from tests.workers.clients import until as eventually
from tests.workers.process.test_worker import gateway_pod, settings, worker
from tests.workers.reconcile.cluster import SYSTEM, Cluster, running, until

QUICK = TenureSettings(renew_every_seconds=0.5, self_deadline_seconds=1.5, fence_after_seconds=2.2)
"""The protocol at about a quarter of its durations."""
QWEN = shard_of("ai", "qwen")


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with running(tmp_path) as found:
        yield found


def member(tmp_path: Path, name: str) -> Any:
    pod = PodSettings(namespace=SYSTEM, name=name, ip="127.0.0.1")
    return worker(settings(tmp_path, pod=pod, tenure=QUICK))


def owned(*workers: Worker) -> list[int]:
    return sorted(shard for one in workers for shard in one.ownership.owned())


def is_whole(*workers: Worker) -> bool:
    return owned(*workers) == list(range(SHARD_COUNT))


async def test_a_lone_worker_owns_every_shard(cluster: Cluster, tmp_path: Path) -> None:
    async with member(tmp_path, "w0") as first:
        await eventually(lambda: is_whole(first))
        assert all(first.ownership.permission(shard) is Permission.ACT for shard in range(SHARD_COUNT))
    record = await cluster.client.get(LEASES, SYSTEM, shard_lease(QWEN))
    assert record["spec"]["leaseTransitions"] == 1
    map_ = await cluster.client.get(CONFIGMAPS, SYSTEM, SHARDMAP)
    assert map_["data"]["leaderEpoch"] == "1"


async def test_three_workers_share_the_shards_and_the_one_who_leaves_gives_its_own_away(
    cluster: Cluster, tmp_path: Path
) -> None:
    async with member(tmp_path, "w0") as first, member(tmp_path, "w1") as second:
        async with member(tmp_path, "w2") as third:
            workers = (first, second, third)
            await eventually(
                lambda: is_whole(*workers) and min(len(one.ownership.owned()) for one in workers) >= 42, 30.0
            )
            epochs = {shard: third.ownership.epoch(shard) for shard in third.ownership.owned()}
        await eventually(lambda: is_whole(first, second))
        for shard, epoch in epochs.items():
            heir = first if shard in first.ownership.owned() else second
            assert heir.ownership.epoch(shard) == epoch + 1


@asynccontextmanager
async def killable(tmp_path: Path, name: str) -> AsyncIterator[tuple[Worker, asyncio.Task[None]]]:
    """A worker whose task a test may cancel: it ends then without a word to anybody, as one that is killed."""
    pod = PodSettings(namespace=SYSTEM, name=name, ip="127.0.0.1")
    started: asyncio.Future[Worker] = asyncio.get_running_loop().create_future()
    chosen = settings(tmp_path, pod=pod, tenure=QUICK)
    task = asyncio.create_task(serve(chosen, asyncio.Event(), started=started.set_result))
    try:
        yield await started, task
    finally:
        task.cancel()
        await asyncio.wait([task])


async def test_what_a_killed_worker_owned_is_taken_over_under_later_epochs(
    cluster: Cluster, tmp_path: Path
) -> None:
    async with member(tmp_path, "w0") as first, killable(tmp_path, "w1") as (second, task):
        await eventually(lambda: is_whole(first, second) and len(second.ownership.owned()) >= 64, 30.0)
        epochs = {shard: second.ownership.epoch(shard) for shard in second.ownership.owned()}
        task.cancel()
        await asyncio.wait([task])
        await eventually(lambda: is_whole(first))
        assert all(first.ownership.epoch(shard) > epoch for shard, epoch in epochs.items())
        await eventually(lambda: first.place.leading.planner.is_leading)


async def test_keda_may_ask_any_worker_and_hears_the_owner(cluster: Cluster, tmp_path: Path) -> None:
    await gateway_pod(cluster)
    await cluster.runtime()
    await cluster.service()
    async with member(tmp_path, "w0") as first, member(tmp_path, "w1") as second:
        await eventually(lambda: is_whole(first, second) and len(second.ownership.owned()) >= 64, 30.0)
        await until(lambda: cluster.get(SCALEDOBJECTS))
        owner, other = (first, second) if QWEN in first.ownership.owned() else (second, first)
        async with gateway(owner.ports["control"]) as client, keda(other.ports["scaler"]) as scaler:
            await client.hello()
            await client.report(qwen=3)
            await eventually(lambda: owner.intake.book.is_known(boottime()))
            assert not other.intake.book.is_known(boottime())
            assert (await scaler.metric()).metricValue == 3
            assert await scaler.is_active() is True
            await client.report()
            await eventually(lambda: owner.intake.book.seen("ai/qwen", boottime()) == 0)
            assert (await scaler.metric()).metricValue == 0


async def test_gateways_learn_every_workers_address_from_the_first_one(
    cluster: Cluster, tmp_path: Path
) -> None:
    async with member(tmp_path, "w0") as first, gateway(first.ports["control"]) as client:
        await client.hello()
        async with member(tmp_path, "w1") as second:
            wanted = {
                "w0": f"127.0.0.1:{first.ports['control']}",
                "w1": f"127.0.0.1:{second.ports['control']}",
            }
            await eventually(lambda: client.workers() == wanted)
        await eventually(lambda: set(client.workers()) == {"w0"})


async def test_a_fleet_whose_leases_and_map_are_all_deleted_recovers_under_another_id(
    cluster: Cluster, tmp_path: Path
) -> None:
    await cluster.runtime()
    await cluster.service()
    async with member(tmp_path, "w0") as first, member(tmp_path, "w1") as second:
        await eventually(lambda: is_whole(first, second) and len(second.ownership.owned()) >= 64, 30.0)
        await until(lambda: status_epoch(cluster))
        before, fleet = await status_epoch(cluster), first.ownership.fleet
        for lease in (await cluster.client.list(LEASES, SYSTEM)).items:
            await cluster.client.delete(LEASES, SYSTEM, lease["metadata"]["name"])
        await cluster.client.delete(CONFIGMAPS, SYSTEM, SHARDMAP)
        await eventually(lambda: first.ownership.fleet == second.ownership.fleet != fleet, 30.0)
        await eventually(lambda: is_whole(first, second), 60.0)
        owner = first if QWEN in first.ownership.owned() else second
        assert owner.ownership.epoch(QWEN) > before
        await cluster.service("other")
        await until(lambda: cluster.get(SCALEDOBJECTS, "other"))


async def status_epoch(cluster: Cluster) -> int:
    return int((await cluster.status()).get("shardEpoch", 0))


@pytest.mark.parametrize(
    ("data", "is_mended"),
    [
        ({"desired": "{"}, True),
        ({"generation": "-4"}, True),
        ({"shards": "64"}, False),
        ({"hash": "crc32"}, False),
    ],
)
async def test_a_map_written_by_hand_is_refused_and_the_last_good_one_stays_in_force(
    cluster: Cluster, tmp_path: Path, data: dict[str, str], is_mended: bool
) -> None:
    async with member(tmp_path, "w0") as first:
        await eventually(lambda: is_whole(first) and first.place.leading.planner.is_leading)
        generation = first.place.leading.planner.map.generation
        await cluster.client.patch(CONFIGMAPS, SYSTEM, SHARDMAP, {"data": data})

        async def is_whole_again() -> bool:
            found = await cluster.client.get(CONFIGMAPS, SYSTEM, SHARDMAP)
            return bool(int(found["data"]["generation"]) > generation)

        if is_mended:
            await until(is_whole_again)
        else:
            await eventually(
                lambda: "ShardMapRefused" in {problem.name for problem in first.problems.current()}
            )
            await asyncio.sleep(1.0)  # in which a leader that writes what is not its own would have written
            found = await cluster.client.get(CONFIGMAPS, SYSTEM, SHARDMAP)
            assert data.items() <= found["data"].items()
        assert is_whole(first)


async def test_without_the_api_server_shards_stay_owned_and_nothing_is_changed(
    cluster: Cluster, tmp_path: Path
) -> None:
    await gateway_pod(cluster)
    await cluster.runtime()
    await cluster.service()
    async with FaultProxy(ClusterConfig.load(str(tmp_path / "kubeconfig"))) as proxy:
        way = await proxy.client("worker")
        pod = PodSettings(namespace=SYSTEM, name="w0", ip="127.0.0.1")
        chosen = settings(
            tmp_path,
            pod=pod,
            tenure=QUICK,
            kube=KubeSettings(kubeconfig=str(way.kubeconfig(tmp_path / "way"))),
        )
        async with worker(chosen) as first, gateway(first.ports["control"]) as client:
            await eventually(lambda: is_whole(first))
            await until(lambda: cluster.get(SCALEDOBJECTS))
            await client.hello()
            await client.report(qwen=2)
            async with keda(first.ports["scaler"]) as scaler:
                assert await scaler.is_active() is True
                fault = way.black_hole()
                await eventually(lambda: first.ownership.permission(QWEN) is Permission.GROW)
                assert is_whole(first)
                await client.report(qwen=2)
                assert await scaler.is_active() is True
                await client.report()
                await eventually(lambda: first.intake.book.seen("ai/qwen", boottime()) == 0)
                with pytest.raises(grpc.aio.AioRpcError) as caught:
                    await scaler.is_active()
                assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
                way.lift(fault)
                await eventually(lambda: first.ownership.permission(QWEN) is Permission.ACT, 30.0)
                await client.report()
                await eventually(lambda: is_whole(first))


async def test_a_fleet_gives_itself_certificates_and_lets_nobody_in_without_one(
    cluster: Cluster, tmp_path: Path
) -> None:
    """The leader makes the Secrets, workers find theirs in the API before any is mounted, and each call asks for a role."""
    tls = WorkerTlsSettings(directory=str(tmp_path / "not-mounted-yet"))
    async with AsyncExitStack() as stack:
        first, second = [
            await stack.enter_async_context(
                worker(
                    settings(
                        tmp_path,
                        pod=PodSettings(namespace=SYSTEM, name=name, ip="127.0.0.1"),
                        tenure=QUICK,
                        tls=tls,
                    )
                )
            )
            for name in ("w0", "w1")
        ]
        await eventually(lambda: is_whole(first, second) and len(second.ownership.owned()) >= 64, 30.0)
        await eventually(lambda: not list(first.security.problems()) + list(second.security.problems()), 30.0)
        probe = second.place.incarnation
        assert await first.place.peers.probe(probe, f"127.0.0.1:{second.ports['control']}")
        of_gateway = await cluster.client.get(SECRETS, SYSTEM, LEAF_SECRETS[Role.GATEWAY], into=Secret)
        material = Material(*(of_gateway.data[entry] for entry in (CERTIFICATE, KEY, AUTHORITIES)))
        with_certificate = SecureChannels(Given(material))
        async with gateway(first.ports["control"], open_channel=with_certificate) as client:
            await client.hello()
            await eventually(lambda: client.welcome)
        async with with_certificate(f"127.0.0.1:{first.ports['control']}") as channel:
            stub: Any = peer_grpc.PeerStub(channel)
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await stub.Tell(peer.Note(), timeout=5)
            assert refused.value.code() is grpc.StatusCode.PERMISSION_DENIED
        async with gateway(first.ports["control"]) as stranger:
            with pytest.raises(grpc.aio.AioRpcError):
                await insist(stranger)
            assert stranger.welcome is None


async def insist(stranger: Gateway) -> None:
    """Say Hello until the connection that is never made is known to have failed."""
    while True:
        await stranger.hello()
        await asyncio.sleep(0.1)

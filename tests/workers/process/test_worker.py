"""A whole worker against the embedded API server: from an applied service to a pushed wake, and through its own end."""

from __future__ import annotations

import asyncio
import hmac
import itertools
import json
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest

from noctaya.api.names import shard_of
from noctaya.kube.clock import boottime
from noctaya.kube.errors import Call, Forbidden
from noctaya.kube.reflector import WatchEnded
from noctaya.kube.resources import CONFIGMAPS, DEPLOYMENTS, LEASES, PODS, SCALEDOBJECTS, SECRETS
from noctaya.wire import control
from noctaya.workers import publisher
from noctaya.workers.founding import ShardMapMismatch
from noctaya.workers.listening import PortInUse
from noctaya.workers.main import serve
from noctaya.workers.objects import LLMService
from noctaya.workers.pushes import Cause
from noctaya.workers.routes import route_of
from noctaya.workers.settings import (
    AdminSettings,
    ControlSettings,
    DemandSettings,
    KubeSettings,
    PodSettings,
    ScalerSettings,
    WorkerSettings,
)
from noctaya.workers.worker import Worker
from tests.ports import free_port
from tests.workers.clients import gateway, keda
from tests.workers.clients import until as eventually
from tests.workers.reconcile.cluster import SYSTEM, Cluster, running, until


def settings(tmp_path: Path, **changes: Any) -> WorkerSettings:
    port = free_port()
    chosen: dict[str, Any] = {
        "pod": PodSettings(namespace=SYSTEM, name="w0", uid="uid0uid0-0"),
        "kube": KubeSettings(kubeconfig=str(tmp_path / "kubeconfig")),
        "scaler": ScalerSettings(
            host="127.0.0.1", port=port, probe_address=f"127.0.0.1:{port}", drain_spread_seconds=0.1
        ),
        "control": ControlSettings(host="127.0.0.1", port=0, drain_seconds=0.2),
        "admin": AdminSettings(host="127.0.0.1", port=0),
    }
    return WorkerSettings(**(chosen | changes))


@asynccontextmanager
async def worker(chosen: WorkerSettings) -> AsyncIterator[Worker]:
    """A worker that listens; drained on leaving."""
    stop, found = asyncio.Event(), asyncio.get_running_loop().create_future()
    async with asyncio.TaskGroup() as group:
        task = group.create_task(serve(chosen, stop, started=found.set_result))
        done, _ = await asyncio.wait({task, found}, return_when=asyncio.FIRST_COMPLETED)
        if task in done:
            task.result()
        try:
            yield found.result()
        finally:
            stop.set()


@dataclass
class Admin:
    port: int

    async def get(self, path: str) -> tuple[int, str]:
        async with (
            aiohttp.ClientSession() as session,
            session.get(f"http://127.0.0.1:{self.port}{path}") as response,
        ):
            return response.status, await response.text()


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with running(tmp_path) as found:
        yield found


async def gateway_pod(cluster: Cluster, name: str = "g0") -> None:
    """A gateway whose container runs, for the API."""
    labels = {"app.kubernetes.io/name": "noctaya", "app.kubernetes.io/component": "gateway"}
    spec = {"containers": [{"name": "gateway", "image": "noctaya"}]}
    await cluster.client.create(PODS, SYSTEM, {"metadata": {"name": name, "labels": labels}, "spec": spec})
    container = {
        "name": "gateway",
        "image": "noctaya",
        "imageID": "",
        "ready": True,
        "restartCount": 0,
        "containerID": f"local://{name}",
        "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}},
    }
    status = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True"}],
        "containerStatuses": [container],
    }
    await cluster.client.patch(PODS, SYSTEM, name, {"status": status}, subresource="status")


async def test_a_request_for_a_sleeping_model_becomes_a_push(cluster: Cluster, tmp_path: Path) -> None:
    await gateway_pod(cluster)
    async with worker(settings(tmp_path)) as running_worker:
        ports = running_worker.ports
        await cluster.runtime()
        await cluster.service(endpoint={"hostnames": ["qwen.example.com"], "maxQueue": 7})
        await until(lambda: cluster.get(SCALEDOBJECTS))
        async with gateway(ports["control"]) as client, keda(ports["scaler"]) as scaler:
            await client.hello()
            await client.report()
            route = await eventually(lambda: client.service("ai/qwen"))
            assert (list(route.hostnames), route.max_queue, route.health_path) == (
                ["qwen.example.com"],
                7,
                "/health",
            )
            assert not route.auth_required
            assert await scaler.is_active() is False
            async with scaler.stream() as stream:
                await eventually(lambda: running_worker.scaler.stream_count == 1)
                await client.wake("qwen", wake_id=4)
                await eventually(lambda: stream.values)
                assert client.wake_acks() == {4: True}
                value = await scaler.metric()
                assert (value.metricValue, value.metricValueFloat) == (1, 1.0)
                await client.report()
                await eventually(lambda: running_worker.intake.book.seen("ai/qwen", 0) == 0)
                assert (await scaler.metric()).metricValue == 0
            status, body = await Admin(ports["admin"]).get("/readyz")
            assert status == 200, body
            _, metrics = await Admin(ports["admin"]).get("/metrics")
            assert 'noctaya_scaler_pushes_total{cause="edge"} 1.0' in metrics
            assert "noctaya_scaler_gateway_members 1.0" in metrics
            _, view = await Admin(ports["admin"]).get("/debug/demand")
            assert json.loads(view)["known"] is True


async def test_pods_become_endpoints_as_soon_as_they_have_an_address(
    cluster: Cluster, tmp_path: Path
) -> None:
    async with (
        worker(settings(tmp_path)) as running_worker,
        gateway(running_worker.ports["control"]) as client,
    ):
        await cluster.runtime()
        await cluster.service()
        await client.hello()
        await eventually(lambda: client.service("ai/qwen"))
        labels = {
            "app.kubernetes.io/managed-by": "noctaya",
            "serving.noctaya.io/llmservice": "qwen",
            "serving.noctaya.io/runtime": "vllm",
        }
        spec = {"containers": [{"name": "serving", "image": "vllm"}]}
        await cluster.client.create(PODS, "ai", {"metadata": {"name": "p", "labels": labels}, "spec": spec})
        await cluster.pod_status("p", {"phase": "Running", "podIP": "10.0.0.9"})
        route = await eventually(lambda: (found := client.service("ai/qwen")) and found.endpoints and found)
        (endpoint,) = route.endpoints
        assert (endpoint.address, endpoint.port, endpoint.ready, endpoint.terminating) == (
            "10.0.0.9",
            8000,
            False,
            False,
        )
        await cluster.pod_status("p", {"conditions": [{"type": "Ready", "status": "True"}]})
        await eventually(lambda: (found := client.service("ai/qwen")) and found.endpoints[0].ready)
        updates = client.updates(shard_of("ai", "qwen"))
        assert updates[0].base_version == 0
        assert all(update.base_version == before.version for before, update in itertools.pairwise(updates))


async def test_a_pod_gets_nothing_new_from_the_moment_at_which_no_replica_is_wanted(
    cluster: Cluster, tmp_path: Path
) -> None:
    """Before its deletion is seen: a request that is sent to it would die with it."""
    async with (
        worker(settings(tmp_path)) as running_worker,
        gateway(running_worker.ports["control"]) as client,
    ):
        await cluster.runtime()
        await cluster.service()
        await client.hello()
        await until(lambda: cluster.get(DEPLOYMENTS))
        await cluster.scale(1)
        labels = {
            "app.kubernetes.io/managed-by": "noctaya",
            "serving.noctaya.io/llmservice": "qwen",
            "serving.noctaya.io/runtime": "vllm",
        }
        spec = {"containers": [{"name": "serving", "image": "vllm"}]}
        await cluster.client.create(PODS, "ai", {"metadata": {"name": "p", "labels": labels}, "spec": spec})
        status = {
            "phase": "Running",
            "podIP": "10.0.0.9",
            "conditions": [{"type": "Ready", "status": "True"}],
        }
        await cluster.pod_status("p", status)
        await eventually(lambda: (found := client.service("ai/qwen")) and found.endpoints)
        await cluster.scale(0)
        await eventually(lambda: (found := client.service("ai/qwen")) and found.endpoints[0].terminating)
        await cluster.scale(1)
        await eventually(lambda: (found := client.service("ai/qwen")) and not found.endpoints[0].terminating)


async def test_client_keys_reach_gateways_as_digests_only_and_missing_ones_lock_out(
    cluster: Cluster, tmp_path: Path
) -> None:
    async with (
        worker(settings(tmp_path)) as running_worker,
        gateway(running_worker.ports["control"]) as client,
    ):
        await cluster.runtime()
        await cluster.service(endpoint={"authentication": {"secretRef": {"name": "callers", "key": "keys"}}})
        await client.hello()
        route = await eventually(lambda: client.service("ai/qwen"))
        assert route.auth_required
        assert list(route.keys) == []
        secret = {
            "metadata": {"name": "callers", "labels": {"serving.noctaya.io/client-keys": "true"}},
            "stringData": {"keys": "alice s3cret\n"},
            "data": {"keys": "YWxpY2UgczNjcmV0Cg=="},
        }
        await cluster.client.create(SECRETS, "ai", secret)
        route = await eventually(lambda: (found := client.service("ai/qwen")) and found.keys and found)
        assert route.keys[0].name == "alice"
        assert b"s3cret" not in route.SerializeToString()
        assert client.welcome is not None
        assert route.keys[0].hmac_sha256 == hmac.digest(client.welcome.key_digest_secret, b"s3cret", "sha256")


async def test_a_worker_leaves_the_lease_free_and_ends_keda_streams_with_ok(
    cluster: Cluster, tmp_path: Path
) -> None:
    chosen = settings(tmp_path)
    async with keda(chosen.scaler.port) as scaler:
        async with worker(chosen) as running_worker:
            await eventually(running_worker.is_synced)
            stream_context = scaler.stream()
            stream = await stream_context.__aenter__()
            await eventually(lambda: running_worker.scaler.stream_count == 1)
            await eventually(lambda: running_worker.ownership.permission(0).value == "act")
        await eventually(lambda: stream.ended)
        assert stream.ended is grpc.StatusCode.OK
        await stream_context.__aexit__(None, None, None)
    for name in ("noctaya-leader", "noctaya-worker-w0"):
        lease = await cluster.client.get(LEASES, SYSTEM, name)
        assert lease["spec"].get("holderIdentity", "") == ""
        assert lease["spec"]["leaseTransitions"] == 1


async def test_a_request_that_comes_as_the_model_is_put_to_sleep_wakes_it_again(
    cluster: Cluster, tmp_path: Path
) -> None:
    """The last push was a moment ago and counted for the replicas that are going: without another, KEDA's poll decides."""
    await gateway_pod(cluster)
    async with worker(settings(tmp_path)) as running_worker:
        await cluster.runtime()
        await cluster.service()
        await until(lambda: cluster.get(SCALEDOBJECTS))
        async with (
            gateway(running_worker.ports["control"]) as client,
            keda(running_worker.ports["scaler"]) as scaler,
            scaler.stream() as stream,
        ):
            await client.hello()
            await eventually(lambda: running_worker.scaler.stream_count == 1)
            await client.wake("qwen")
            await eventually(lambda: stream.values == [True])
            await cluster.scale(1)
            deployments = running_worker.stores.deployments
            await eventually(lambda: (found := deployments.get("ai", "qwen")) and found.spec.replicas == 1)
            await client.report()
            await client.wake("qwen")
            await eventually(lambda: running_worker.intake.book.seen("ai/qwen", 0) == 1)
            await asyncio.sleep(1.0)  # until the policy's gap between two edges is over
            assert stream.values == [True]
            await cluster.scale(0)
            await eventually(lambda: stream.values == [True, True])
            assert running_worker.scaler.pushed[Cause.EDGE] == 2, (
                "at once, and not when a re-assertion is due"
            )


async def test_a_worker_that_leaves_lets_the_next_one_act_before_its_streams_have_ended(
    cluster: Cluster, tmp_path: Path
) -> None:
    port = free_port()
    slow = ScalerSettings(
        host="127.0.0.1", port=port, probe_address=f"127.0.0.1:{port}", drain_spread_seconds=30.0
    )
    leaving = asyncio.Event()
    first_chosen = settings(
        tmp_path, pod=PodSettings(namespace=SYSTEM, name="w1", uid="uid1uid1-1"), scaler=slow
    )
    first_started = asyncio.get_running_loop().create_future()
    first = asyncio.create_task(serve(first_chosen, leaving, started=first_started.set_result))
    ports = (await first_started).ports
    try:
        async with (
            worker(settings(tmp_path)) as second,
            keda(ports["scaler"]) as scaler,
            scaler.stream(),
            scaler.stream("other"),
            scaler.stream("third"),
        ):
            await eventually(lambda: first_started.result().scaler.stream_count == 3)
            await eventually(lambda: first_started.result().ownership.permission(0).value == "act")
            leaving.set()
            await eventually(lambda: second.ownership.permission(0).value == "act", 5.0)
            assert not first.done()
    finally:
        leaving.set()
        await asyncio.wait_for(first, 10.0)


async def test_while_the_gateways_cannot_be_listed_zero_is_not_told(cluster: Cluster, tmp_path: Path) -> None:
    """RBAC refuses pods from some moment on: a gateway that starts then may hold requests that nobody knows of."""
    await gateway_pod(cluster)
    patient = settings(tmp_path, demand=DemandSettings(stale_after_seconds=60.0))
    async with worker(patient) as running_worker:
        await cluster.runtime()
        await cluster.service()
        await until(lambda: cluster.get(SCALEDOBJECTS))
        async with (
            gateway(running_worker.ports["control"]) as client,
            keda(running_worker.ports["scaler"]) as scaler,
        ):
            await client.hello()
            await client.report()
            await eventually(lambda: running_worker.intake.book.is_known(boottime()))
            assert await scaler.is_active() is False
            call = Call("list", "pods")
            lost: Any = WatchEnded(Forbidden(call, "HTTP 403 Forbidden"))
            running_worker.stores.gateways._core.on(lost, boottime())
            await eventually(lambda: not running_worker.intake.book.is_known(boottime()))
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await scaler.is_active()
            assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_one_service_whose_route_cannot_be_made_stops_no_other(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def defective(service: LLMService, *rest: Any) -> control.Service:
        if service.name == "odd":
            raise ValueError("Value out of range")
        return route_of(service, *rest)

    monkeypatch.setattr(publisher, "route_of", defective)
    async with (
        worker(settings(tmp_path)) as running_worker,
        gateway(running_worker.ports["control"]) as client,
    ):
        await cluster.runtime()
        await client.hello()
        for name in ("odd", "qwen"):
            await cluster.service(name)
        await eventually(lambda: client.service("ai/qwen"))
        assert client.service("ai/odd") is None


async def test_a_shard_map_of_another_hash_stops_the_start(cluster: Cluster, tmp_path: Path) -> None:
    body = {"metadata": {"name": "noctaya-shardmap"}, "data": {"shards": "64", "hash": "other"}}
    await cluster.client.create(CONFIGMAPS, SYSTEM, body)
    with pytest.raises(ShardMapMismatch, match="found a new fleet"):
        await serve(settings(tmp_path), asyncio.Event())


async def test_a_port_in_use_is_named_with_its_setting(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(PortInUse, match=rf"127\.0\.0\.1:{port}.*NOCTAYA_SCALER__PORT"):
            await serve(
                settings(tmp_path, scaler=ScalerSettings(host="127.0.0.1", port=port)), asyncio.Event()
            )

"""The stand-in as it runs in the embedded cluster: the real client, the embedded API server, and a scaler over gRPC."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from noctaya.kube.client import Client, PatchType
from noctaya.kube.config import ClusterConfig
from noctaya.kube.errors import Invalid, NotFound
from noctaya.kube.resources import CRDS, DEPLOYMENTS, ENDPOINTSLICES, EVENTS, HPAS, NAMESPACES, SCALEDOBJECTS
from noctaya.local.apiserver import ApiServer
from noctaya.local.keda import KedaSettings, KedaStandIn, crds
from noctaya.local.keda.servicenames import ServiceNames
from tests.local.keda.grpc_scaler import GrpcScaler

Json = dict[str, Any]
SETTINGS = KedaSettings(hpa_sync_seconds=0.1)


async def comes_true(claim: Callable[[], Awaitable[bool]], within_seconds: float = 15.0) -> None:
    async with asyncio.timeout(within_seconds):
        while not await claim():  # noqa: ASYNC110 (the claim is about the API server, which is asked)
            await asyncio.sleep(0.02)


DEPLOYMENT: Json = {
    "metadata": {"name": "model", "namespace": "ai"},
    "spec": {
        "replicas": 0,
        "selector": {"matchLabels": {"app": "model"}},
        "template": {
            "metadata": {"labels": {"app": "model"}},
            "spec": {"containers": [{"name": "engine", "image": "pause"}]},
        },
    },
}


def scaledobject(port: int, **changes: Any) -> Json:
    address = f"scaler.test.svc:{port}"
    spec = {
        "scaleTargetRef": {"name": "model"},
        "pollingInterval": 1,
        "cooldownPeriod": 1,
        "maxReplicaCount": 4,
        "triggers": [
            {"type": "external-push", "metadata": {"scalerAddress": address, "metricName": "pending"}}
        ],
        **changes,
    }
    return {"metadata": {"name": "model", "namespace": "ai"}, "spec": spec}


@asynccontextmanager
async def running(stand_in: KedaStandIn) -> AsyncIterator[None]:
    task = asyncio.create_task(stand_in.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()


@pytest.fixture
async def client(tmp_path: Path) -> AsyncIterator[Client]:
    async with ApiServer() as server:
        config = ClusterConfig.load(str(server.kubeconfig(tmp_path / "kubeconfig")))
        async with Client(config) as made:
            for crd in crds():
                await made.create(CRDS, None, crd)
            await made.create(NAMESPACES, None, {"metadata": {"name": "ai"}})
            await made.create(DEPLOYMENTS, "ai", DEPLOYMENT)
            yield made


@pytest.fixture
async def scaler() -> AsyncIterator[GrpcScaler]:
    made = GrpcScaler()
    await made.start()
    yield made
    await made.stop()


async def condition(client: Client, type_: str) -> Json:
    found = await client.get(SCALEDOBJECTS, "ai", "model")
    conditions: list[Json] = found.get("status", {}).get("conditions", [])
    return next((entry for entry in conditions if entry["type"] == type_), {})


async def replicas(client: Client) -> int:
    return int((await client.get(DEPLOYMENTS, "ai", "model"))["spec"]["replicas"])


async def test_a_target_wakes_by_push_grows_by_metrics_and_sleeps_after_its_cooldown(
    client: Client, scaler: GrpcScaler
) -> None:
    async with running(KedaStandIn(client, lambda host: ["127.0.0.1"], SETTINGS)):
        await client.create(SCALEDOBJECTS, "ai", scaledobject(scaler.port))

        async def is_ready() -> bool:
            return (await condition(client, "Ready")).get("status") == "True" and scaler.open_streams == 1

        await comes_true(is_ready)
        hpa = await client.get(HPAS, "ai", "keda-hpa-model")
        assert hpa["spec"]["metrics"][0]["external"]["metric"]["name"] == "s0-pending"
        assert hpa["metadata"]["ownerReferences"][0]["name"] == "model"

        async def has(count: int) -> bool:
            return await replicas(client) == count

        scaler.active, scaler.value = True, 1.0
        scaler.pushes.put_nowait(True)
        await comes_true(lambda: has(1))
        deployment = await client.get(DEPLOYMENTS, "ai", "model")
        managers = {entry["manager"] for entry in deployment["metadata"]["managedFields"]}
        assert "keda" in managers
        # No controllers run here: the Deployment's status is ours to say.
        status = {"status": {"replicas": 1, "readyReplicas": 1}}
        await client.patch(DEPLOYMENTS, "ai", "model", status, PatchType.MERGE, subresource="status")
        scaler.value = 4.0
        await comes_true(lambda: has(3))
        scaler.active, scaler.value = False, 0.0
        await comes_true(lambda: has(0))
        assert (await condition(client, "Active"))["reason"] == "ScalerNotActive"
        found = await client.get(SCALEDOBJECTS, "ai", "model")
        assert found["status"]["lastActiveTime"].endswith("Z")

        async def tells() -> bool:
            reasons = {event["reason"] for event in (await client.list(EVENTS, "ai")).items}
            return {"KEDAScalersStarted", "KEDAScaleTargetActivated", "KEDAScaleTargetDeactivated"} <= reasons

        await comes_true(tells)


async def test_without_a_resolver_the_ready_endpoints_of_a_service_are_found(
    client: Client, scaler: GrpcScaler
) -> None:
    endpoints = [
        {"addresses": ["127.0.0.1"], "conditions": {"ready": True}},
        {"addresses": ["127.0.0.9"], "conditions": {"ready": False}},
        {"addresses": ["127.0.0.3"]},
    ]
    metadata = {"name": "scaler-x", "labels": {"kubernetes.io/service-name": "scaler"}}
    body = {"metadata": metadata, "addressType": "IPv4", "endpoints": endpoints, "ports": []}
    await client.create(ENDPOINTSLICES, "ai", body)
    names = ServiceNames(client)
    for host in ("scaler.ai", "scaler.ai.svc", "scaler.ai.svc.cluster.local."):
        assert await names.resolve(host) == ["127.0.0.1", "127.0.0.3"]
    for host in ("scaler", "scaler.ai.pod", "other.ai.svc", "example.com", ".ai.svc"):
        assert await names.resolve(host) == []
    async with running(KedaStandIn(client, settings=SETTINGS)):
        metadata_of_trigger = {"scalerAddress": f"scaler.ai.svc:{scaler.port}"}
        triggers = [{"type": "external-push", "metadata": metadata_of_trigger}]
        await client.create(SCALEDOBJECTS, "ai", scaledobject(scaler.port, triggers=triggers))

        async def has_stream() -> bool:
            return scaler.open_streams == 1

        await comes_true(has_stream)


async def test_a_deleted_scaledobject_goes_with_its_finalizer_and_its_stream_is_cancelled(
    client: Client, scaler: GrpcScaler
) -> None:
    async with running(KedaStandIn(client, lambda host: ["127.0.0.1"], SETTINGS)):
        await client.create(SCALEDOBJECTS, "ai", scaledobject(scaler.port))

        async def streams(count: int) -> bool:
            return scaler.open_streams == count

        await comes_true(lambda: streams(1))
        await client.delete(SCALEDOBJECTS, "ai", "model")

        async def is_gone() -> bool:
            try:
                await client.get(SCALEDOBJECTS, "ai", "model")
            except NotFound:
                return True
            return False

        await comes_true(is_gone)
        await comes_true(lambda: streams(0))
        assert scaler.cancelled_streams == 1


async def test_the_stand_in_starts_before_its_crd_and_serves_what_comes_later(
    client: Client, scaler: GrpcScaler
) -> None:
    await client.delete(CRDS, None, crds()[0]["metadata"]["name"])
    async with running(KedaStandIn(client, lambda host: ["127.0.0.1"], SETTINGS)):
        await client.create(CRDS, None, crds()[0])
        await client.create(SCALEDOBJECTS, "ai", scaledobject(scaler.port))

        async def has_stream() -> bool:
            return scaler.open_streams == 1

        await comes_true(has_stream)


async def test_an_unsupported_trigger_is_named_in_the_ready_condition(client: Client) -> None:
    async with running(KedaStandIn(client, lambda host: [], SETTINGS)):
        triggers = [{"type": "cron", "metadata": {"timezone": "UTC"}}]
        await client.create(SCALEDOBJECTS, "ai", scaledobject(1, triggers=triggers))

        async def is_refused() -> bool:
            return "'cron' is not supported" in (await condition(client, "Ready")).get("message", "")

        await comes_true(is_refused)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"idleReplicaCount": 1}, "idleReplicaCount must be less than minReplicaCount"),
        ({"minReplicaCount": 5}, "minReplicaCount must not exceed maxReplicaCount"),
        ({"pollingInterval": 0}, "spec.pollingInterval"),
        ({"triggers": []}, "spec.triggers"),
        ({"scaleTargetRef": {}}, "spec.scaleTargetRef.name"),
    ],
)
async def test_v2_v5_the_crd_refuses_what_keda_would_refuse_at_admission(
    client: Client, changes: Json, words: str
) -> None:
    with pytest.raises(Invalid, match=words.replace(".", r"\.")):
        await client.create(SCALEDOBJECTS, "ai", scaledobject(1, **changes))

"""The embedded API server with our CRDs, and a reconciler working against it: what component tests begin with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from noctaya.api.crds import crds
from noctaya.kube import Client, ClusterConfig
from noctaya.kube.clock import boottime
from noctaya.kube.errors import NotFound
from noctaya.kube.reflector import WatchSettings
from noctaya.kube.resources import (
    CRDS,
    DEPLOYMENTS,
    EVENTS,
    INFERENCERUNTIMES,
    LLMSERVICES,
    NAMESPACES,
    PODS,
    SCALEDOBJECTS,
    Resource,
)
from noctaya.local.apiserver.server import ApiServer
from noctaya.local.keda import crds as keda_crds
from noctaya.workers.permission import Permission
from noctaya.workers.reconcile import Reconciler
from noctaya.workers.render import Fleet
from noctaya.workers.stores import Stores
from tests.api.samples import inferenceruntime, llmservice

SYSTEM = "noctaya-system"
DEADLINE_SECONDS = 10.0

Object = dict[str, Any]


class Owner:
    """An ownership that tests turn by hand."""

    def __init__(self) -> None:
        self.granted = Permission.ACT
        self.epochs = 7
        self.asked = 0

    def permission(self, shard: int) -> Permission:
        assert 0 <= shard < 128
        self.asked += 1
        return self.granted

    def epoch(self, shard: int) -> int:
        return self.epochs


class Cluster:
    """A client, and the words that tests need."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.owner = Owner()
        self.scaler_reachable = True
        self.conflicts: dict[str, str] = {}
        self.ahead_seconds = 0.0
        """How far the reconciler's clock is ahead."""

    async def install(self, *definitions: Object) -> None:
        for definition in definitions:
            await self.client.create(CRDS, None, definition)

    async def runtime(self, name: str = "vllm", **spec: Any) -> Object:
        return await self.client.create(INFERENCERUNTIMES, None, inferenceruntime(name, **spec))

    async def service(self, name: str = "qwen", **spec: Any) -> Object:
        body = llmservice(name, **({"model": {"source": {"uri": "pvc://weights/qwen"}}} | spec))
        return await self.client.create(LLMSERVICES, "ai", body)

    async def get(self, resource: Resource, name: str = "qwen") -> Object:
        return await self.client.get(resource, "ai", name)

    async def status(self, name: str = "qwen") -> Object:
        found: Object = (await self.get(LLMSERVICES, name)).get("status", {})
        return found

    async def condition(self, type_: str, name: str = "qwen") -> Object:
        conditions = (await self.status(name)).get("conditions", [])
        return next((one for one in conditions if one["type"] == type_), {})

    async def events(self) -> list[str]:
        found = await self.client.list(EVENTS, "ai")
        return [event["reason"] for event in found.items]

    async def scale(self, replicas: int, name: str = "qwen") -> None:
        """As KEDA and the HPA do: through the scale subresource."""
        await self.client.patch(
            DEPLOYMENTS,
            "ai",
            name,
            {"spec": {"replicas": replicas}},
            subresource="scale",
            field_manager="keda",
        )

    async def replicas_seen(self, replicas: int, ready: int, name: str = "qwen", **status: Any) -> None:
        """As the Deployment controller would report."""
        body = {"status": {"replicas": replicas, "readyReplicas": ready, **status}}
        await self.client.patch(DEPLOYMENTS, "ai", name, body, subresource="status")

    async def pod(self, name: str, status: Object, service: str = "qwen") -> None:
        """A pod of the service in a given state."""
        labels = {"app.kubernetes.io/managed-by": "noctaya", "serving.noctaya.io/llmservice": service}
        spec = {"containers": [{"name": "serving", "image": "vllm"}]}
        await self.client.create(PODS, "ai", {"metadata": {"name": name, "labels": labels}, "spec": spec})
        await self.pod_status(name, status)

    async def pod_status(self, name: str, status: Object) -> None:
        await self.client.patch(PODS, "ai", name, {"status": status}, subresource="status")

    async def keda_says(self, status: str, message: str = "", name: str = "qwen") -> None:
        """KEDA's verdict on the ScaledObject."""
        ready = {"type": "Ready", "status": status, "reason": "ScaledObjectReady", "message": message}
        await self.client.patch(
            SCALEDOBJECTS, "ai", name, {"status": {"conditions": [ready]}}, subresource="status"
        )

    async def gateway(self) -> None:
        """A ready pod of the gateway fleet."""
        labels = {"app.kubernetes.io/name": "noctaya", "app.kubernetes.io/component": "gateway"}
        spec = {"containers": [{"name": "gateway", "image": "noctaya"}]}
        await self.client.create(PODS, SYSTEM, {"metadata": {"name": "gw", "labels": labels}, "spec": spec})
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
        await self.client.patch(PODS, SYSTEM, "gw", {"status": status}, subresource="status")

    @asynccontextmanager
    async def reconciling(self) -> AsyncIterator[Reconciler]:
        """A worker's reconcile half, for as long as the block."""
        stores = Stores(self.client, own_namespace=SYSTEM, watch=WatchSettings(not_served_retry_seconds=0.2))
        reconciler = Reconciler(
            stores,
            self.client,
            self.owner,
            Fleet(),
            ready_to_autoscale=lambda: self.scaler_reachable,
            conflicts=self.conflicts.get,
            clock=lambda: boottime() + self.ahead_seconds,
            jitter=lambda: 0.0,
        )
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(stores.run()), group.create_task(reconciler.run(4))]
            try:
                yield reconciler
            finally:
                for task in tasks:
                    task.cancel()


async def until(claim: Callable[[], Any]) -> Any:
    """The first truthy answer of the coroutine function `claim`; objects that do not exist yet count as false."""
    answer: Any = None
    try:
        async with asyncio.timeout(DEADLINE_SECONDS):
            while True:
                try:
                    answer = await claim()
                except NotFound:
                    answer = None
                if answer:
                    return answer
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise AssertionError(f"never true within {DEADLINE_SECONDS} s; last answer: {answer!r}") from None


@asynccontextmanager
async def running(tmp_path: Path, *, with_keda: bool = True) -> AsyncIterator[Cluster]:
    """An API server with our CRDs (and KEDA's), the namespaces `ai` and `noctaya-system`, and nothing else."""
    async with ApiServer() as server:
        config = ClusterConfig.load(str(server.kubeconfig(tmp_path / "kubeconfig")))
        async with Client(config) as client:
            cluster = Cluster(client)
            await cluster.install(*crds(), *(keda_crds() if with_keda else []))
            for name in ("ai", SYSTEM):
                await client.create(NAMESPACES, None, {"metadata": {"name": name}})
            yield cluster

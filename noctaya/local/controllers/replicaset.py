"""ReplicaSets: as many active pods as asked for. Pods are found by their owner reference; strays are not adopted."""

import asyncio
import time

from noctaya.kube.client import PatchType
from noctaya.kube.errors import KubeError, NotFound
from noctaya.kube.events import reference
from noctaya.kube.reflector import Change
from noctaya.kube.resources import PODS, REPLICASETS
from noctaya.local.controllers.expectations import Expectations
from noctaya.local.controllers.loop import Controller
from noctaya.local.controllers.ranking import expendable_first
from noctaya.local.controllers.records import (
    Json,
    Record,
    owner,
    pod_is_active,
    pod_is_ready,
    ready_since,
    seconds_of,
)
from noctaya.local.controllers.view import OWNER, ClusterView

BURST = 50
"""Most pods created or deleted in one look."""
UNMET_PAUSE_SECONDS = 0.5


class ReplicaSetController(Controller):
    """Creates and deletes pods."""

    name = "replicaset"

    def __init__(self, view: ClusterView) -> None:
        super().__init__()
        self._view = view
        self._expectations = Expectations()
        view.replica_sets.subscribe(self._replica_set_changed)
        view.pods.subscribe(self._pod_changed)

    def _replica_set_changed(self, change: Change[Record]) -> None:
        if change.new is not None:
            self.enqueue(change.new.namespace, change.new.name)

    def _pod_changed(self, change: Change[Record]) -> None:
        record = change.new or change.old
        found = record.metadata.controller() if record is not None else None
        if record is not None and found is not None and found.kind == REPLICASETS.kind:
            self.enqueue(record.namespace, found.name)

    async def reconcile(self, namespace: str, name: str) -> float | None:
        replica_set = self._view.replica_sets.get(namespace, name)
        if replica_set is None:
            return None
        pods = self._view.pods.by_index(OWNER, replica_set.uid)
        active = [pod for pod in pods if pod_is_active(pod)]
        known, living = {pod.uid for pod in pods}, {pod.uid for pod in active}
        loop = asyncio.get_running_loop()
        met = self._expectations.are_met(
            replica_set.uid, known.__contains__, living.__contains__, loop.time()
        )
        if met and not replica_set.metadata.is_deleting:
            await self._resize(replica_set, active)
        pause = await self._write_status(replica_set, active)
        return pause if met else UNMET_PAUSE_SECONDS

    async def _resize(self, replica_set: Record, active: list[Record]) -> None:
        missing = int(replica_set.spec.get("replicas", 1)) - len(active)
        if missing > 0:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(min(missing, BURST)):
                    tasks.create_task(self._create(replica_set))
        elif missing < 0:
            async with asyncio.TaskGroup() as tasks:
                for pod in expendable_first(active)[: min(-missing, BURST)]:
                    tasks.create_task(self._delete(replica_set, pod))

    async def _create(self, replica_set: Record) -> None:
        template = replica_set.spec["template"]
        metadata = template.get("metadata") or {}
        body: Json = {
            "apiVersion": PODS.api_version,
            "kind": PODS.kind,
            "metadata": {
                "generateName": f"{replica_set.name}-",
                "namespace": replica_set.namespace,
                "labels": metadata.get("labels") or {},
                "annotations": metadata.get("annotations") or {},
                "ownerReferences": [owner(REPLICASETS, replica_set)],
            },
            "spec": template["spec"],
        }
        try:
            created = await self._view.client.create(PODS, replica_set.namespace, body)
        except KubeError as error:
            self._view.recorder.record(
                reference(REPLICASETS, replica_set), "FailedCreate", str(error), "Warning"
            )
            raise
        found = created["metadata"]
        self._expectations.created(replica_set.uid, found["uid"], asyncio.get_running_loop().time())
        text = f"Created pod: {found['name']}"
        self._view.recorder.record(reference(REPLICASETS, replica_set), "SuccessfulCreate", text)

    async def _delete(self, replica_set: Record, pod: Record) -> None:
        try:
            await self._view.client.delete(PODS, pod.namespace, pod.name, uid=pod.uid)
        except NotFound:
            return
        self._expectations.deleted(replica_set.uid, pod.uid, asyncio.get_running_loop().time())
        text = f"Deleted pod: {pod.name}"
        self._view.recorder.record(reference(REPLICASETS, replica_set), "SuccessfulDelete", text)

    async def _write_status(self, replica_set: Record, active: list[Record]) -> float | None:
        now = time.time()
        least = float(replica_set.spec.get("minReadySeconds") or 0)
        ready = [pod for pod in active if pod_is_ready(pod)]
        waits = [seconds_of(since) + least - now for pod in ready if (since := ready_since(pod))]
        available = sum(1 for wait in waits if wait <= 0) if least else len(ready)
        status: Json = {
            "replicas": len(active),
            "fullyLabeledReplicas": len(active),
            "readyReplicas": len(ready),
            "availableReplicas": available,
            "observedGeneration": replica_set.metadata.generation,
        }
        before = replica_set.status
        if any(before.get(name, 0) != value for name, value in status.items()):
            try:
                await self._view.client.patch(
                    REPLICASETS,
                    replica_set.namespace,
                    replica_set.name,
                    {"status": status},
                    PatchType.MERGE,
                    subresource="status",
                )
            except NotFound:
                return None
        return min((wait for wait in waits if wait > 0), default=None) if least else None

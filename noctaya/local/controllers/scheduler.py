"""Binds pods to the only node, or says why not, as a scheduler does (`PodScheduled=False`, `FailedScheduling`)."""

from datetime import UTC, datetime
from decimal import Decimal

import msgspec

from noctaya.api.quantities import Quantity
from noctaya.kube.client import PatchType
from noctaya.kube.errors import Conflict, NotFound
from noctaya.kube.events import reference
from noctaya.kube.metadata import format_time
from noctaya.kube.reflector import Change
from noctaya.kube.resources import PODS
from noctaya.local.controllers.loop import Controller
from noctaya.local.controllers.placement import NodeState, misfit
from noctaya.local.controllers.records import Json, Record, pod_is_active
from noctaya.local.controllers.settings import ControllerSettings
from noctaya.local.controllers.view import ClusterView

DEFAULT_SCHEDULER = "default-scheduler"
STARTING_PAUSE_SECONDS = 0.2


class Scheduler(Controller):
    """Keyed by pod. Pods of another schedulerName are left to others, as on a cluster."""

    name = "scheduler"

    def __init__(self, view: ClusterView, settings: ControllerSettings) -> None:
        super().__init__()
        self._view = view
        self._settings = settings
        view.pods.subscribe(self._pod_changed)
        view.claims.subscribe(self._world_changed)
        view.nodes.subscribe(self._world_changed)

    def _pod_changed(self, change: Change[Record]) -> None:
        if change.new is not None and is_waiting(change.new):
            self.enqueue(change.new.namespace, change.new.name)
        elif change.new is None or not pod_is_active(change.new):
            self._world_changed(change)  # its resources are free again

    def _world_changed(self, change: Change[Record]) -> None:
        old, new = change.old, change.new
        if (
            old is not None
            and new is not None
            and old.spec == new.spec
            and allocatable_of(old) == allocatable_of(new)
        ):
            if old.status.get("phase") == new.status.get("phase"):
                return  # a heartbeat
        for pod in self._view.pods.items():
            if is_waiting(pod):
                self.enqueue(pod.namespace, pod.name)

    async def reconcile(self, namespace: str, name: str) -> float | None:
        pod = self._view.pods.get(namespace, name)
        node = self._view.nodes.get("", self._settings.node_name)
        if pod is None or not is_waiting(pod):
            return None
        if node is None:
            return STARTING_PAUSE_SECONDS
        problem = self._claims_problem(pod) or self._misfit(pod, node)
        if problem is None:
            await self._bind(pod)
        else:
            await self._refuse(pod, problem)
        return None

    def _misfit(self, pod: Record, node: Record) -> str | None:
        others = [
            other
            for other in self._view.pods.items()
            if other.spec.get("nodeName") and other.status.get("phase") not in {"Succeeded", "Failed"}
        ]
        allocatable = {key: Quantity.parse(str(value)).value for key, value in allocatable_of(node).items()}
        state = NodeState(node.metadata.labels, allocatable)
        if len(others) >= allocatable.get("pods", Decimal(110)):
            return "0/1 nodes are available: 1 Too many pods."
        return misfit(pod, others, state, counts_cpu_and_memory=self._settings.counts_cpu_and_memory)

    def _claims_problem(self, pod: Record) -> str | None:
        for volume in pod.spec.get("volumes") or ():
            if (source := volume.get("persistentVolumeClaim")) is None:
                continue
            claim = self._view.claims.get(pod.namespace, source["claimName"])
            if claim is None:
                return f'0/1 nodes are available: persistentvolumeclaim "{source["claimName"]}" not found.'
            if claim.status.get("phase") != "Bound":
                return "0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims."
        return None

    async def _bind(self, pod: Record) -> None:
        node = self._settings.node_name
        body: Json = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.name, "namespace": pod.namespace, "uid": pod.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        try:
            path = PODS.path(pod.namespace, pod.name, "binding")
            await self._view.client.raw(
                "POST", path, body=msgspec.json.encode(body), content_type="application/json"
            )
        except (NotFound, Conflict):
            return  # gone, or bound already: our store is a moment behind
        text = f"Successfully assigned {pod.namespace}/{pod.name} to {node}"
        self._view.recorder.record(reference(PODS, pod), "Scheduled", text)

    async def _refuse(self, pod: Record, problem: str) -> None:
        conditions = pod.status.get("conditions") or []
        before: Json = next((item for item in conditions if item["type"] == "PodScheduled"), {})
        if before.get("message") == problem:
            return
        self._view.recorder.record(reference(PODS, pod), "FailedScheduling", problem, "Warning")
        condition = {
            "type": "PodScheduled",
            "status": "False",
            "reason": "Unschedulable",
            "message": problem,
            "lastTransitionTime": before.get("lastTransitionTime") or format_time(datetime.now(UTC)),
        }
        others = [item for item in conditions if item["type"] != "PodScheduled"]
        patch = {
            "metadata": {"uid": pod.uid},
            "status": {"phase": "Pending", "conditions": [*others, condition]},
        }
        try:
            await self._view.client.patch(
                PODS, pod.namespace, pod.name, patch, PatchType.MERGE, subresource="status"
            )
        except NotFound:
            return


def is_waiting(pod: Record) -> bool:
    """Whether the pod is ours to place."""
    scheduler = pod.spec.get("schedulerName") or DEFAULT_SCHEDULER
    gated = bool(pod.spec.get("schedulingGates"))
    return (
        not pod.spec.get("nodeName") and pod_is_active(pod) and scheduler == DEFAULT_SCHEDULER and not gated
    )


def allocatable_of(node: Record) -> dict[str, str]:
    """What a node has for pods; empty for anything that is not a node."""
    found: dict[str, str] = node.status.get("allocatable") or {}
    return found

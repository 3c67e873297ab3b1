"""Deployments: keep one ReplicaSet for the current template, size it and the old ones, tell how it goes."""

import time

from noctaya.kube.client import PatchType, Propagation
from noctaya.kube.errors import AlreadyExists, NotFound
from noctaya.kube.events import reference
from noctaya.kube.reflector import Change
from noctaya.kube.resources import DEPLOYMENTS, REPLICASETS
from noctaya.local.controllers.loop import Controller
from noctaya.local.controllers.progress import deadline, deployment_status
from noctaya.local.controllers.records import Json, Record, owner, short_hash
from noctaya.local.controllers.rollout import SetState, next_sizes, read_strategy, surplus_history
from noctaya.local.controllers.view import OWNER, ClusterView

HASH_LABEL = "pod-template-hash"
REVISION = "deployment.kubernetes.io/revision"
DESIRED = "deployment.kubernetes.io/desired-replicas"


class DeploymentController(Controller):
    """Level-based: each look makes at most one step, and the ReplicaSets' changes bring the next look."""

    name = "deployment"

    def __init__(self, view: ClusterView) -> None:
        super().__init__()
        self._view = view
        view.deployments.subscribe(self._deployment_changed)
        view.replica_sets.subscribe(self._replica_set_changed)
        view.pods.subscribe(self._pod_changed)

    def _deployment_changed(self, change: Change[Record]) -> None:
        if change.new is not None:
            self.enqueue(change.new.namespace, change.new.name)

    def _replica_set_changed(self, change: Change[Record]) -> None:
        record = change.new or change.old
        found = record.metadata.controller() if record is not None else None
        if record is not None and found is not None and found.kind == DEPLOYMENTS.kind:
            self.enqueue(record.namespace, found.name)

    def _pod_changed(self, change: Change[Record]) -> None:
        """Only Recreate waits for old pods to be gone."""
        found = change.old.metadata.controller() if change.new is None and change.old is not None else None
        if found is None or change.old is None or found.kind != REPLICASETS.kind:
            return
        replica_set = self._view.replica_sets.get(change.old.namespace, found.name)
        parent = replica_set.metadata.controller() if replica_set is not None else None
        if parent is not None:
            self.enqueue(change.old.namespace, parent.name)

    async def reconcile(self, namespace: str, name: str) -> float | None:
        deployment = self._view.deployments.get(namespace, name)
        if deployment is None or deployment.metadata.is_deleting:
            return None
        owned = self._view.replica_sets.by_index(OWNER, deployment.uid)
        wanted_hash = short_hash(deployment.spec["template"])
        current = next((item for item in owned if item.metadata.labels.get(HASH_LABEL) == wanted_hash), None)
        old = [item for item in owned if item is not current]
        replicas = int(deployment.spec.get("replicas", 1))
        strategy = read_strategy(deployment.spec, replicas)
        if not deployment.spec.get("paused"):
            if current is None:
                await self._create(deployment, wanted_hash, owned)
                return None  # the new ReplicaSet's arrival brings us back
            await self._keep_revision(deployment, current, owned)
        new_state = state_of(current) if current is not None else None
        old_states = [state_of(item) for item in old]
        sizes = self._sizes(deployment, replicas, new_state, old, old_states)
        for set_name, size in sizes.items():
            record = next(item for item in owned if item.name == set_name)
            await self._resize(deployment, record, size, replicas)
        limit = int(deployment.spec.get("revisionHistoryLimit", 10))
        for set_name in surplus_history(old_states, limit):
            await self._forget(namespace, set_name)
        now = time.time()
        status = deployment_status(
            deployment.spec,
            deployment.status,
            deployment.metadata.generation,
            strategy,
            new_state,
            old_states,
            now,
        )
        if status != deployment.status:
            await self._write_status(deployment, status)
        progressing = next((item for item in status["conditions"] if item["type"] == "Progressing"), None)
        due = deadline(deployment.spec, progressing)
        return None if due is None else max(0.1, due - now)

    def _sizes(
        self,
        deployment: Record,
        replicas: int,
        new: SetState | None,
        old: list[Record],
        old_states: list[SetState],
    ) -> dict[str, int]:
        if deployment.spec.get("paused"):
            active = [item for item in [*old_states, *([new] if new else [])] if item.wanted > 0]
            is_single = len(active) == 1 and active[0].wanted != replicas
            return {active[0].name: replicas} if is_single else {}
        left = any(
            pod.status.get("phase") not in {"Succeeded", "Failed"}
            for item in old
            for pod in self._view.pods.by_index(OWNER, item.uid)
        )
        strategy = read_strategy(deployment.spec, replicas)
        return next_sizes(replicas, strategy, new, old_states, old_pods_left=left)

    async def _create(self, deployment: Record, template_hash: str, owned: list[Record]) -> None:
        template = deployment.spec["template"]
        metadata = template.get("metadata") or {}
        labels = {**(metadata.get("labels") or {}), HASH_LABEL: template_hash}
        selector = deployment.spec.get("selector") or {}
        replicas = int(deployment.spec.get("replicas", 1))
        strategy = read_strategy(deployment.spec, replicas)
        in_use = sum(state_of(item).wanted for item in owned)
        # Recreate: nothing new before the old is gone; the next look sizes it.
        size = (
            min(replicas, max(0, replicas + strategy.surge - in_use))
            if not strategy.is_recreate or not in_use
            else 0
        )
        revision = newest_revision(owned) + 1
        body: Json = {
            "apiVersion": REPLICASETS.api_version,
            "kind": REPLICASETS.kind,
            "metadata": {
                "name": f"{deployment.name}-{template_hash}",
                "namespace": deployment.namespace,
                "labels": labels,
                "annotations": {
                    **kept_annotations(deployment),
                    REVISION: str(revision),
                    DESIRED: str(replicas),
                },
                "ownerReferences": [owner(DEPLOYMENTS, deployment)],
            },
            "spec": {
                "replicas": size,
                "minReadySeconds": int(deployment.spec.get("minReadySeconds") or 0),
                "selector": {
                    **selector,
                    "matchLabels": {**(selector.get("matchLabels") or {}), HASH_LABEL: template_hash},
                },
                "template": {**template, "metadata": {**metadata, "labels": labels}},
            },
        }
        try:
            await self._view.client.create(REPLICASETS, deployment.namespace, body)
        except AlreadyExists:
            return  # our store is a moment behind
        await self._set_revision(deployment, revision)
        if size:
            self._tell_scaled(deployment, body["metadata"]["name"], 0, size)

    async def _keep_revision(self, deployment: Record, current: Record, owned: list[Record]) -> None:
        """A template that was used before and is used again becomes the newest revision."""
        others = newest_revision([item for item in owned if item is not current])
        revision = revision_of(current)
        if revision <= others:
            revision = others + 1
            patch = {"metadata": {"annotations": {REVISION: str(revision)}}}
            await self._view.client.patch(
                REPLICASETS, current.namespace, current.name, patch, PatchType.MERGE
            )
        if deployment.metadata.annotations.get(REVISION) != str(revision):
            await self._set_revision(deployment, revision)

    async def _set_revision(self, deployment: Record, revision: int) -> None:
        patch = {"metadata": {"annotations": {REVISION: str(revision)}}}
        await self._view.client.patch(
            DEPLOYMENTS, deployment.namespace, deployment.name, patch, PatchType.MERGE
        )

    async def _resize(self, deployment: Record, replica_set: Record, size: int, desired: int) -> None:
        before = state_of(replica_set).wanted
        patch = {
            "metadata": {
                "resourceVersion": replica_set.metadata.resource_version,
                "annotations": {DESIRED: str(desired)},
            },
            "spec": {"replicas": size},
        }
        await self._view.client.patch(
            REPLICASETS, replica_set.namespace, replica_set.name, patch, PatchType.MERGE
        )
        self._tell_scaled(deployment, replica_set.name, before, size)

    def _tell_scaled(self, deployment: Record, name: str, before: int, size: int) -> None:
        direction = "up" if size > before else "down"
        text = f"Scaled {direction} replica set {name} from {before} to {size}"
        self._view.recorder.record(reference(DEPLOYMENTS, deployment), "ScalingReplicaSet", text)

    async def _forget(self, namespace: str, name: str) -> None:
        try:
            await self._view.client.delete(REPLICASETS, namespace, name, propagation=Propagation.BACKGROUND)
        except NotFound:
            return

    async def _write_status(self, deployment: Record, status: Json) -> None:
        counts = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas")
        patch = {"status": {**dict.fromkeys(counts), **status}}
        await self._view.client.patch(
            DEPLOYMENTS, deployment.namespace, deployment.name, patch, PatchType.MERGE, subresource="status"
        )


def state_of(replica_set: Record) -> SetState:
    """A ReplicaSet as the rollout sees it."""
    return SetState(
        name=replica_set.name,
        wanted=int(replica_set.spec.get("replicas", 1)),
        pods=int(replica_set.status.get("replicas", 0)),
        ready=int(replica_set.status.get("readyReplicas", 0)),
        available=int(replica_set.status.get("availableReplicas", 0)),
        created=replica_set.metadata.creation_timestamp or "",
        revision=revision_of(replica_set),
    )


def revision_of(replica_set: Record) -> int:
    """The number in the revision annotation, 0 without one."""
    text = replica_set.metadata.annotations.get(REVISION, "0")
    return int(text) if text.isdigit() else 0


def newest_revision(replica_sets: list[Record]) -> int:
    """The highest revision, 0 when there is none."""
    return max((revision_of(item) for item in replica_sets), default=0)


def kept_annotations(deployment: Record) -> dict[str, str]:
    """Annotations that a ReplicaSet inherits: all but the ones with a meaning of their own."""
    own = {REVISION, "kubectl.kubernetes.io/last-applied-configuration"}
    return {key: value for key, value in deployment.metadata.annotations.items() if key not in own}

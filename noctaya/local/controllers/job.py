"""Jobs: run a pod to its end, as often as backoffLimit and activeDeadlineSeconds allow; remove finished ones after their TTL."""

import asyncio
import time

from noctaya.kube.client import PatchType, Propagation
from noctaya.kube.errors import NotFound
from noctaya.kube.events import reference
from noctaya.kube.reflector import Change
from noctaya.kube.resources import JOBS, PODS
from noctaya.local.controllers.expectations import Expectations
from noctaya.local.controllers.job_plan import Plan, PodState, end_of, plan
from noctaya.local.controllers.loop import Controller
from noctaya.local.controllers.records import Json, Record, owner, pod_is_ready, seconds_of, wall_time
from noctaya.local.controllers.settings import ControllerSettings
from noctaya.local.controllers.view import OWNER, ClusterView

UNMET_PAUSE_SECONDS = 0.5


class JobController(Controller):
    """Non-indexed Jobs; selectors are implied by ownership."""

    name = "job"

    def __init__(self, view: ClusterView, settings: ControllerSettings) -> None:
        super().__init__()
        self._view = view
        self._settings = settings
        self._expectations = Expectations()
        view.jobs.subscribe(self._job_changed)
        view.pods.subscribe(self._pod_changed)

    def _job_changed(self, change: Change[Record]) -> None:
        if change.new is not None:
            self.enqueue(change.new.namespace, change.new.name)

    def _pod_changed(self, change: Change[Record]) -> None:
        record = change.new or change.old
        found = record.metadata.controller() if record is not None else None
        if record is not None and found is not None and found.kind == JOBS.kind:
            self.enqueue(record.namespace, found.name)

    async def reconcile(self, namespace: str, name: str) -> float | None:
        job = self._view.jobs.get(namespace, name)
        if job is None or job.metadata.is_deleting:
            return None
        records = self._view.pods.by_index(OWNER, job.uid)
        if is_over(job):
            return await self._expire(job)
        now = time.time()
        pods = [state_of(record) for record in records]
        known, active = (
            {record.uid for record in records},
            {record.uid for record, pod in zip(records, pods, strict=True) if pod.is_active},
        )
        loop = asyncio.get_running_loop()
        if not self._expectations.are_met(job.uid, known.__contains__, active.__contains__, loop.time()):
            return UNMET_PAUSE_SECONDS
        started = seconds_of(job.status["startTime"]) if job.status.get("startTime") else now
        if job.spec.get("suspend"):
            step = Plan(delete=tuple(pod.name for pod in pods if pod.is_active))
        else:
            step = plan(job.spec, started, pods, now, self._settings.job_base_seconds)
        by_name = {record.name: record for record in records}
        for pod_name in step.delete:
            await self._delete(job, by_name[pod_name])
        for _ in range(step.create):
            await self._create(job)
        await self._write_status(job, pods, step, started, now)
        return None if step.look_again is None else max(0.05, step.look_again - now)

    async def _create(self, job: Record) -> None:
        template = job.spec["template"]
        metadata = template.get("metadata") or {}
        labels = {
            **(metadata.get("labels") or {}),
            "job-name": job.name,
            "batch.kubernetes.io/job-name": job.name,
            "controller-uid": job.uid,
            "batch.kubernetes.io/controller-uid": job.uid,
        }
        body: Json = {
            "apiVersion": PODS.api_version,
            "kind": PODS.kind,
            "metadata": {
                "generateName": f"{job.name}-",
                "namespace": job.namespace,
                "labels": labels,
                "annotations": metadata.get("annotations") or {},
                "ownerReferences": [owner(JOBS, job)],
            },
            "spec": template["spec"],
        }
        created = await self._view.client.create(PODS, job.namespace, body)
        found = created["metadata"]
        self._expectations.created(job.uid, found["uid"], asyncio.get_running_loop().time())
        self._tell(job, "SuccessfulCreate", f"Created pod: {found['name']}")

    async def _delete(self, job: Record, pod: Record) -> None:
        try:
            await self._view.client.delete(PODS, pod.namespace, pod.name, uid=pod.uid)
        except NotFound:
            return
        self._expectations.deleted(job.uid, pod.uid, asyncio.get_running_loop().time())
        self._tell(job, "SuccessfulDelete", f"Deleted pod: {pod.name}")

    async def _write_status(
        self, job: Record, pods: list[PodState], step: Plan, started: float, now: float
    ) -> None:
        at = wall_time(now)
        active = [pod for pod in pods if pod.is_active and pod.name not in step.delete]
        status: Json = {
            "active": len(active) + step.create or None,
            "ready": sum(1 for pod in active if pod.is_ready),
            "succeeded": sum(1 for pod in pods if pod.phase == "Succeeded") or None,
            "failed": sum(1 for pod in pods if pod.phase == "Failed") or None,
            "terminating": sum(1 for pod in pods if pod.is_deleting) or None,
            "startTime": None if job.spec.get("suspend") else wall_time(started),
        }
        if step.verdict:
            kinds = (
                ["SuccessCriteriaMet", "Complete"]
                if step.verdict == "Complete"
                else ["FailureTarget", "Failed"]
            )
            status["conditions"] = [
                {
                    "type": kind,
                    "status": "True",
                    "reason": step.reason,
                    "message": step.message,
                    "lastProbeTime": at,
                    "lastTransitionTime": at,
                }
                for kind in kinds
            ]
            if step.verdict == "Complete":
                status["completionTime"] = at
                self._tell(job, "Completed", "Job completed")
            else:
                self._tell(job, step.reason, step.message, "Warning")
        if any(job.status.get(name) != value for name, value in status.items()):
            await self._view.client.patch(
                JOBS, job.namespace, job.name, {"status": status}, PatchType.MERGE, subresource="status"
            )

    async def _expire(self, job: Record) -> float | None:
        ttl = job.spec.get("ttlSecondsAfterFinished")
        if ttl is None:
            return None
        ended = max(seconds_of(item["lastTransitionTime"]) for item in job.status["conditions"])
        left = ended + float(ttl) - time.time()
        if left > 0:
            return left
        try:
            await self._view.client.delete(
                JOBS, job.namespace, job.name, uid=job.uid, propagation=Propagation.BACKGROUND
            )
        except NotFound:
            return None
        return None

    def _tell(self, job: Record, reason: str, message: str, kind: str = "Normal") -> None:
        self._view.recorder.record(reference(JOBS, job), reason, message, kind)


def is_over(job: Record) -> bool:
    """Complete or Failed."""
    return any(
        item["type"] in {"Complete", "Failed"} and item["status"] == "True"
        for item in job.status.get("conditions") or ()
    )


def state_of(pod: Record) -> PodState:
    """A pod as the plan sees it."""
    statuses = [
        *(pod.status.get("initContainerStatuses") or ()),
        *(pod.status.get("containerStatuses") or ()),
    ]
    return PodState(
        name=pod.name,
        phase=pod.status.get("phase", "Pending"),
        is_deleting=pod.metadata.is_deleting,
        is_ready=pod_is_ready(pod),
        restarts=sum(item.get("restartCount", 0) for item in statuses),
        finished=end_of(pod.status),
    )

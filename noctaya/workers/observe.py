"""What Kubernetes says about a service's backend, condensed to one reason: the decision table, top to bottom.

Pure. Nothing is said of a Deployment that asks for no replicas: whatever its pods do, they are on their way out. Else only
*active* pods count: not being deleted and not finished. A container that is ready speaks for itself, whatever
happened to it before, so that a crash of last week does not keep a healthy service degraded. Of several pods the one with
the gravest reason is named; ties go by message, so that the same state always gives the same words.

A hard failure will not pass by waiting (`Degraded`); the others are normal on the way to Ready. Being slow is never a
failure: an activation has no progress of the Deployment to measure, and models load for as long as they load.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from noctaya.api.conditions import Reason
from noctaya.api.names import SERVING_CONTAINER
from noctaya.kube.objects import ContainerStatus, Deployment, Pod, condition

_PULL_FAILURES = frozenset(
    {
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "RegistryUnavailable",
        "ErrImageNeverPull",
        "ImageInspectError",
    }
)
_START_FAILURES = frozenset(
    {
        "CreateContainerConfigError",
        "CreateContainerError",
        "RunContainerError",
        "ContainerCannotRun",
        "PreStartHookError",
        "PostStartHookError",
    }
)
"""Kubernetes' own words; they become the condition's reason as they are."""
REPLICA_FAILURE = "FailedCreate"
"""Reason when the cluster refuses to create pods at all: quota, admission, Pod Security."""
RESTARTS_THAT_COUNT = 2


@dataclass(frozen=True, slots=True)
class Observation:
    """The one thing to say about the backend."""

    rank: int
    """Lower is graver."""
    reason: str
    message: str
    is_hard: bool = False
    pod: str = ""


@dataclass(frozen=True, slots=True)
class Backend:
    """What was seen of a service's Deployment and pods."""

    ready: int = 0
    """Ready replicas."""
    wanted: int = 0
    """Replicas that the Deployment asks for."""
    observation: Observation | None = None
    """None: nothing to report of any pod."""

    @property
    def is_awake(self) -> bool:
        """Whether replicas are asked for, or still serve. Pods on their way out after a scale to zero do not count."""
        return self.wanted > 0 or self.ready > 0


def backend(deployment: Deployment | None, pods: Iterable[Pod]) -> Backend:
    """What the Deployment (None: not seen yet, which is no failure) and its pods show."""
    if deployment is None:
        return Backend()
    wanted, status = deployment.spec.replicas, deployment.status
    seen = Backend(ready=status.ready_replicas, wanted=wanted)
    if not seen.is_awake:
        return seen
    found = [one for pod in pods if is_active(pod) if (one := _of_pod(pod)) is not None]
    found.extend(_of_deployment(deployment))
    worst = min(found, key=lambda one: (one.rank, one.message), default=None)
    return Backend(ready=status.ready_replicas, wanted=wanted, observation=worst)


def is_active(pod: Pod) -> bool:
    """Neither on its way out nor finished."""
    return not pod.metadata.is_deleting and pod.status.phase not in ("Succeeded", "Failed")


def _of_deployment(deployment: Deployment) -> Iterator[Observation]:
    progressing = condition(deployment.status.conditions, "Progressing")
    if (
        progressing is not None
        and progressing.status == "False"
        and progressing.reason == "ProgressDeadlineExceeded"
    ):
        yield Observation(
            0,
            Reason.PROGRESS_DEADLINE_EXCEEDED,
            f"Deployment {deployment.name} made no progress within its deadline",
            is_hard=True,
        )
    failure = condition(deployment.status.conditions, "ReplicaFailure")
    if failure is not None and failure.is_true:
        yield Observation(
            5,
            REPLICA_FAILURE,
            f"Deployment {deployment.name} cannot create pods: {failure.message}",
            is_hard=True,
        )


def _of_pod(pod: Pod) -> Observation | None:
    serving = next(
        (status for status in pod.status.container_statuses if status.name == SERVING_CONTAINER), None
    )
    if serving is not None and serving.ready:
        return None
    inits = [status for status in pod.status.init_container_statuses if not _is_done(status)]
    found = [
        one for status in [*inits, *([serving] if serving else [])] if (one := _of_container(pod, status))
    ]
    if found:
        return min(found, key=lambda one: one.rank)
    scheduled = condition(pod.status.conditions, "PodScheduled")
    if scheduled is not None and scheduled.status == "False" and scheduled.reason == "Unschedulable":
        return Observation(
            7,
            Reason.SCHEDULING_DELAYED,
            f"pod {pod.name} waits for a node: {scheduled.message}",
            pod=pod.name,
        )
    if serving is not None and serving.state.running is not None:
        return Observation(
            8,
            Reason.MODEL_LOADING,
            f"pod {pod.name} runs and is not ready yet: its model is loading",
            pod=pod.name,
        )
    return Observation(9, Reason.STARTING, f"pod {pod.name} is starting", pod=pod.name)


def _of_container(pod: Pod, status: ContainerStatus) -> Observation | None:
    """A hard failure of one container that is not ready, or None."""
    waiting = status.state.waiting
    what = f"container {status.name} of pod {pod.name}"
    if waiting is not None and waiting.reason in _PULL_FAILURES:
        detail = f": {waiting.message}" if waiting.message else ""
        return Observation(
            1,
            Reason.IMAGE_PULL_FAILED,
            f"the image of {what} cannot be pulled{detail}",
            is_hard=True,
            pod=pod.name,
        )
    ended = [state.terminated for state in (status.state, status.last_state) if state.terminated is not None]
    if any(termination.reason == "OOMKilled" for termination in ended):
        return Observation(
            2, Reason.OOM_KILLED, f"{what} ran out of memory and was killed", is_hard=True, pod=pod.name
        )
    exit_code = f" (exit code {ended[-1].exit_code})" if ended else ""
    if waiting is not None and waiting.reason == "CrashLoopBackOff":
        return Observation(
            3, Reason.CRASH_LOOP_BACK_OFF, f"{what} keeps crashing{exit_code}", is_hard=True, pod=pod.name
        )
    if waiting is not None and waiting.reason in _START_FAILURES:
        detail = f": {waiting.message}" if waiting.message else ""
        return Observation(4, waiting.reason, f"{what} cannot be started{detail}", is_hard=True, pod=pod.name)
    if status.restart_count >= RESTARTS_THAT_COUNT:
        return Observation(
            6,
            Reason.CONTAINER_RESTARTING,
            f"{what} was restarted several times and is not ready{exit_code}",
            is_hard=True,
            pod=pod.name,
        )
    return None


def _is_done(status: ContainerStatus) -> bool:
    return status.state.terminated is not None and status.state.terminated.exit_code == 0

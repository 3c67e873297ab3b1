"""The pod's `status` as kubectl and our own worker read it, computed from the lifecycle. Pure.

Phases follow a kubelet's table: Pending until every container was started once; Running while one runs or will be started
again; Succeeded or Failed when none will. Conditions keep their transition time while their status stays the same.
"""

from collections.abc import Iterable
from typing import Any

from noctaya.local.agent.lifecycle import PodLifecycle
from noctaya.local.agent.spec import PodObject
from noctaya.local.agent.states import Container, Stage, Termination

Json = dict[str, Any]


def pod_status(pod: PodObject, lifecycle: PodLifecycle, ip: str, at: str) -> Json:
    """The complete status; `at` is the wall time (RFC 3339) for conditions that change now."""
    before = pod.status
    phase = pod_phase(lifecycle)
    return {
        "phase": phase,
        "conditions": conditions(before.get("conditions") or [], lifecycle, phase, at),
        "hostIP": "127.0.0.1",
        "hostIPs": [{"ip": "127.0.0.1"}],
        "podIP": ip,
        "podIPs": [{"ip": ip}],
        "startTime": before.get("startTime") or at,
        "qosClass": quality_of_service(pod.spec),
        "initContainerStatuses": [
            container_status(item, lifecycle.pod.uid) for item in lifecycle.init_containers
        ],
        "containerStatuses": [container_status(item, lifecycle.pod.uid) for item in lifecycle.containers],
    }


def pod_phase(lifecycle: PodLifecycle) -> str:
    """Pending, Running, Succeeded or Failed."""
    if lifecycle.has_init_failure:
        return "Failed"
    if not lifecycle.is_initialized:
        return "Pending"
    if any(is_never_started(container) for container in lifecycle.containers):
        return "Pending"
    if any(container.stage is not Stage.ENDED for container in lifecycle.containers):
        return "Running"
    failures = [container for container in lifecycle.containers if not container.succeeded]
    if lifecycle.is_terminating:
        return "Failed" if failures else "Succeeded"
    policy = lifecycle.pod.restart_policy
    if policy == "Always" or (policy == "OnFailure" and failures):
        return "Running"
    return "Failed" if failures else "Succeeded"


def is_never_started(container: Container) -> bool:
    """No attempt of this container has run yet."""
    return container.stage in {Stage.WAITING, Stage.STARTING} and container.previous is None


def conditions(before: list[Json], lifecycle: PodLifecycle, phase: str, at: str) -> list[Json]:
    """The five conditions that a kubelet keeps; what others wrote stays."""
    not_ready = [container.spec.name for container in lifecycle.containers if not container.is_ready]
    unfinished = [container.spec.name for container in lifecycle.init_containers if not container.succeeded]
    if phase == "Succeeded" or (phase == "Failed" and not lifecycle.has_init_failure):
        ready = ("False", "PodCompleted" if phase == "Succeeded" else "PodFailed", "")
    elif not_ready:
        ready = ("False", "ContainersNotReady", f"containers with unready status: [{' '.join(not_ready)}]")
    else:
        ready = ("True", "", "")
    initialized = ("True", "", "")
    if unfinished:
        text = f"containers with incomplete status: [{' '.join(unfinished)}]"
        initialized = ("False", "ContainersNotInitialized", text)
    ours = {
        "PodReadyToStartContainers": ("True", "", ""),
        "Initialized": initialized,
        "Ready": ready,
        "ContainersReady": ready,
        "PodScheduled": ("True", "", ""),
    }
    old = {condition["type"]: condition for condition in before}
    result = [condition for condition in before if condition["type"] not in ours]
    for kind, (status, reason, message) in ours.items():
        previous = old.get(kind, {})
        same = previous.get("status") == status
        condition = {"type": kind, "status": status}
        condition["lastTransitionTime"] = previous.get("lastTransitionTime", at) if same else at
        if reason:
            condition["reason"] = reason
        if message:
            condition["message"] = message
        result.append(condition)
    return result


def container_status(container: Container, pod_uid: str) -> Json:
    """One entry of `containerStatuses`."""
    status: Json = {
        "name": container.spec.name,
        "image": container.spec.image,
        "imageID": f"local://{container.spec.image}" if container.started_at else "",
        "ready": container.is_ready,
        "started": container.is_started,
        "restartCount": container.attempt
        if container.stage is not Stage.STARTING
        else max(container.attempt - 1, 0),
        "state": container_state(container, pod_uid),
    }
    if container.started_at:
        status["containerID"] = container_id(container, pod_uid)
    last = container.previous
    if last is not None and (container.stage is not Stage.ENDED or container.retry_at is not None):
        status["lastState"] = {"terminated": termination(last, container_id(container, pod_uid))}
    return status


def container_state(container: Container, pod_uid: str) -> Json:
    """Exactly one of waiting, running, terminated."""
    if container.has_process:
        return {"running": {"startedAt": container.started_at}}
    is_backing_off = container.stage is Stage.ENDED and container.retry_at is not None
    if container.stage is Stage.ENDED and container.ended is not None and not is_backing_off:
        return {"terminated": termination(container.ended, container_id(container, pod_uid))}
    waiting: Json = {"reason": container.waiting_reason}
    if container.waiting_message:
        waiting["message"] = container.waiting_message
    return {"waiting": waiting}


def termination(ended: Termination, identity: str) -> Json:
    """How an attempt ended, as the API shows it."""
    result: Json = {
        "exitCode": ended.exit_code,
        "reason": ended.reason,
        "startedAt": ended.started_at,
        "finishedAt": ended.finished_at,
        "containerID": identity,
    }
    if ended.signal:
        result["signal"] = ended.signal
    if ended.message:
        result["message"] = ended.message
    return result


def container_id(container: Container, pod_uid: str) -> str:
    """Unique per pod, container and attempt."""
    return f"process://{pod_uid}/{container.spec.name}/{container.attempt}"


def quality_of_service(spec: Json) -> str:
    """Guaranteed, Burstable or BestEffort from the containers' cpu and memory."""
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    pairs = [(requested(item, "requests"), requested(item, "limits")) for item in containers]
    if not any(requests or limits for requests, limits in pairs):
        return "BestEffort"
    names = {"cpu", "memory"}
    if all(set(limits) == names and (not requests or requests == limits) for requests, limits in pairs):
        return "Guaranteed"
    return "Burstable"


def requested(container: Json, which: str) -> dict[str, str]:
    """cpu and memory of `resources.requests` or `.limits`, without zeros."""
    amounts = (container.get("resources") or {}).get(which) or {}
    return {name: str(amounts[name]) for name in core_resources(amounts) if str(amounts[name]) != "0"}


def core_resources(amounts: Iterable[str]) -> list[str]:
    """The two resources that decide the quality of service."""
    return [name for name in amounts if name in {"cpu", "memory"}]

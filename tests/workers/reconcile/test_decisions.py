"""The decision table, row by row: what Kubernetes says about a backend, and what the service's status says for it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from noctaya.kube.objects import Condition, Deployment, Metadata, Pod, condition
from noctaya.workers.autoscaling import Verdict
from noctaya.workers.events import transitions
from noctaya.workers.objects import LLMService, LLMServiceStatus
from noctaya.workers.observe import Backend, backend
from noctaya.workers.status import Failure, Seen, compute, differs

NOW = "2026-01-02T03:04:05Z"
LATER = "2026-01-02T03:09:05Z"


def pod(
    name: str = "p",
    *,
    phase: str = "Running",
    deleting: bool = False,
    unschedulable: bool = False,
    **serving: Any,
) -> Pod:
    """A pod whose serving container has the given status; without any, the kubelet has not seen it yet."""
    status: dict[str, Any] = {"phase": phase}
    if serving:
        status["containerStatuses"] = [{"name": "serving", **serving}]
    if unschedulable:
        status["conditions"] = [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes"}
        ]
    metadata = {"name": name, **({"deletionTimestamp": NOW} if deleting else {})}
    return msgspec.convert({"metadata": metadata, "status": status}, Pod)


def waiting(reason: str, **more: Any) -> dict[str, Any]:
    return {"state": {"waiting": {"reason": reason}}, **more}


RUNNING: dict[str, Any] = {"state": {"running": {}}}
LAST_OOM = {"lastState": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}


def deployment(wanted: int = 1, total: int = 1, ready: int = 0, **conditions: str) -> Deployment:
    found = [
        {
            "type": "Progressing" if reason == "ProgressDeadlineExceeded" else type_,
            "status": status,
            "reason": reason,
        }
        for type_, text in conditions.items()
        for status, reason in [text.split("/")]
    ]
    return msgspec.convert(
        {
            "metadata": {"name": "qwen"},
            "spec": {"replicas": wanted},
            "status": {"replicas": total, "readyReplicas": ready, "conditions": found},
        },
        Deployment,
    )


@pytest.mark.parametrize(
    ("status", "reason", "is_hard"),
    [
        (waiting("ErrImagePull"), "ImagePullFailed", True),
        (waiting("ImagePullBackOff"), "ImagePullFailed", True),
        (waiting("InvalidImageName"), "ImagePullFailed", True),
        (waiting("RegistryUnavailable"), "ImagePullFailed", True),
        (waiting("ErrImageNeverPull"), "ImagePullFailed", True),
        ({"state": {"terminated": {"reason": "OOMKilled", "exitCode": 137}}}, "OOMKilled", True),
        (RUNNING | LAST_OOM, "OOMKilled", True),
        (waiting("CrashLoopBackOff"), "CrashLoopBackOff", True),
        (waiting("CrashLoopBackOff") | LAST_OOM, "OOMKilled", True),
        (waiting("CreateContainerConfigError"), "CreateContainerConfigError", True),
        (waiting("CreateContainerError"), "CreateContainerError", True),
        (waiting("RunContainerError"), "RunContainerError", True),
        (RUNNING | {"restartCount": 2}, "ContainerRestarting", True),
        (RUNNING | {"restartCount": 1}, "ModelLoading", False),
        (RUNNING, "ModelLoading", False),
        (waiting("ContainerCreating"), "Starting", False),
        ({"state": {"terminated": {"reason": "Error", "exitCode": 1}}}, "Starting", False),
    ],
)
def test_a_container_that_is_not_ready_says_why(status: dict[str, Any], reason: str, is_hard: bool) -> None:
    found = backend(deployment(), [pod("backend-1", **status)]).observation
    assert found is not None
    assert (found.reason, found.is_hard) == (reason, is_hard)
    assert "backend-1" in found.message


@pytest.mark.parametrize("history", [{"restartCount": 5}, LAST_OOM, {"restartCount": 5} | LAST_OOM])
def test_a_container_that_is_ready_again_is_not_held_to_its_past(history: dict[str, Any]) -> None:
    seen = backend(deployment(ready=1), [pod(ready=True, **RUNNING, **history)])
    assert seen.observation is None


def test_a_pod_without_a_node_is_a_delay() -> None:
    found = backend(deployment(), [pod(phase="Pending", unschedulable=True)]).observation
    assert found is not None
    assert (found.reason, found.is_hard) == ("SchedulingDelayed", False)
    assert "0/3 nodes" in found.message


@pytest.mark.parametrize("reason", ["CrashLoopBackOff", "ErrImagePull", "CreateContainerConfigError"])
def test_an_init_container_that_fails_is_seen(reason: str) -> None:
    body = {
        "metadata": {"name": "p"},
        "status": {
            "phase": "Pending",
            "initContainerStatuses": [{"name": "wait", **waiting(reason)}],
            "containerStatuses": [{"name": "serving", **waiting("PodInitializing")}],
        },
    }
    found = backend(deployment(), [msgspec.convert(body, Pod)]).observation
    assert found is not None
    assert found.is_hard
    assert "container wait of pod p" in found.message


def test_an_init_container_that_is_done_says_nothing_more() -> None:
    body = {
        "metadata": {"name": "p"},
        "status": {
            "phase": "Running",
            "initContainerStatuses": [
                {
                    "name": "wait",
                    "restartCount": 4,
                    "state": {"terminated": {"exitCode": 0, "reason": "Completed"}},
                }
            ],
            "containerStatuses": [{"name": "serving", **RUNNING}],
        },
    }
    found = backend(deployment(), [msgspec.convert(body, Pod)]).observation
    assert found is not None
    assert found.reason == "ModelLoading"


@pytest.mark.parametrize("gone", [{"deleting": True}, {"phase": "Failed"}, {"phase": "Succeeded"}])
def test_terminating_and_terminal_pods_are_ignored(gone: dict[str, Any]) -> None:
    assert backend(deployment(), [pod(**gone, **waiting("CrashLoopBackOff"))]).observation is None


def test_pods_that_linger_after_a_scale_to_zero_wake_nothing() -> None:
    seen_ = backend(deployment(wanted=0, total=1), [pod(**waiting("CrashLoopBackOff"))])
    assert seen_.observation is None
    assert not seen_.is_awake


def test_the_gravest_reason_is_named_and_ties_go_by_message() -> None:
    pods = [
        pod("b", **RUNNING),
        pod("c", **waiting("CrashLoopBackOff")),
        pod("a", **waiting("CrashLoopBackOff")),
        pod("d", **waiting("ImagePullBackOff")),
    ]
    first, second = backend(deployment(), pods).observation, backend(deployment(), pods[:3]).observation
    assert first is not None
    assert second is not None
    assert first.pod == "d"
    assert second.pod == "a"


def test_a_missed_progress_deadline_is_hard_only_while_replicas_are_wanted() -> None:
    awake = backend(deployment(total=1, Progressing="False/ProgressDeadlineExceeded"), []).observation
    assert awake is not None
    assert (awake.reason, awake.is_hard) == ("ProgressDeadlineExceeded", True)
    assert (
        backend(deployment(wanted=0, total=0, Progressing="False/ProgressDeadlineExceeded"), []).observation
        is None
    )


def test_a_cluster_that_refuses_to_create_pods_is_seen() -> None:
    found = backend(deployment(total=0, ReplicaFailure="True/FailedCreate"), []).observation
    assert found is not None
    assert (found.reason, found.is_hard) == ("FailedCreate", True)


GOOD = Verdict("True", "ScaledObjectApplied", "fine")
HARD = pod("backend-1", **waiting("ImagePullBackOff"))
FINE = pod("backend-2", ready=True, **RUNNING)


def seen(backend_: Backend, *, minimum: int | None = 0, failure: Failure | None = None, **more: Any) -> Seen:
    given: dict[str, Any] = {"autoscaling": GOOD, "endpoint": Verdict("True", "Published", "fine")} | more
    return Seen(backend=backend_, minimum_replicas=minimum, runtime="vllm", epoch=1, failure=failure, **given)


def service(status: LLMServiceStatus | None = None) -> LLMService:
    metadata = Metadata(name="qwen", namespace="ai", uid="u", generation=4)
    return LLMService(metadata=metadata, status=status or LLMServiceStatus())


def said(status: LLMServiceStatus, type_: str) -> str:
    found = condition(status.conditions, type_)
    assert found is not None
    assert found.message
    return f"{found.status}/{found.reason}"


PROBLEM = Failure("ModelResolution", "bad uri")


@pytest.mark.parametrize(
    ("given", "phase", "ready", "degraded"),
    [
        (seen(backend(deployment(ready=1), [FINE])), "Ready", "True/Available", "False/Healthy"),
        (seen(backend(deployment(2, 2, 1), [FINE, HARD])), "Ready", "True/Available", "True/ImagePullFailed"),
        (seen(backend(deployment(), [HARD])), "Degraded", "False/ImagePullFailed", "True/ImagePullFailed"),
        (seen(backend(deployment(1, 0), [])), "Loading", "False/Activating", "False/Progressing"),
        (seen(backend(deployment(1, 1), [])), "Loading", "False/Activating", "False/Progressing"),
        (
            seen(backend(deployment(), [pod(**waiting("ContainerCreating"))])),
            "Loading",
            "False/Starting",
            "False/Progressing",
        ),
        (seen(backend(deployment(), [pod(**RUNNING)])), "Loading", "False/ModelLoading", "False/Progressing"),
        (
            seen(backend(deployment(), [pod(unschedulable=True)])),
            "Loading",
            "False/SchedulingDelayed",
            "False/Progressing",
        ),
        (seen(backend(deployment(0, 0), [])), "ScaledToZero", "False/ScaledToZero", "False/Inactive"),
        (seen(backend(None, [])), "ScaledToZero", "False/ScaledToZero", "False/Inactive"),
        (seen(backend(deployment(0, 0), []), minimum=1), "Pending", "False/Pending", "False/Progressing"),
        (
            seen(backend(None, []), minimum=None, failure=PROBLEM),
            "Degraded",
            "False/ModelResolution",
            "True/ModelResolution",
        ),
        (
            seen(backend(deployment(ready=1), [FINE]), failure=PROBLEM),
            "Ready",
            "True/Available",
            "True/ModelResolution",
        ),
    ],
)
def test_phase_and_conditions(given: Seen, phase: str, ready: str, degraded: str) -> None:
    status = compute(service(), given, NOW)
    assert status.phase == phase
    assert said(status, "Ready") == ready
    assert said(status, "Degraded") == degraded
    assert said(status, "AutoscalingReady") == "True/ScaledObjectApplied"
    assert said(status, "EndpointReady") == "True/Published"
    assert {found.observed_generation for found in status.conditions} == {4}


def test_a_condition_keeps_its_time_while_its_status_stays() -> None:
    first = compute(service(), seen(backend(deployment(), [pod(**waiting("ContainerCreating"))])), NOW)
    second = compute(service(first), seen(backend(deployment(), [pod(**RUNNING)])), LATER)
    ready = condition(second.conditions, "Ready")
    assert ready is not None
    assert (ready.reason, ready.last_transition_time) == ("ModelLoading", NOW)
    third = compute(service(second), seen(backend(deployment(ready=1), [FINE])), LATER)
    ready = condition(third.conditions, "Ready")
    assert ready is not None
    assert ready.last_transition_time == LATER


def test_the_same_state_is_not_written_twice_and_a_new_epoch_alone_is_no_news() -> None:
    first = compute(service(), seen(backend(deployment(ready=1), [FINE])), NOW)
    assert differs(LLMServiceStatus(), first)
    again = compute(service(first), seen(backend(deployment(ready=1), [FINE])), LATER)
    assert not differs(first, again)
    taken_over = msgspec.structs.replace(again, shard_epoch=9)
    assert not differs(first, taken_over)


def test_a_crash_loop_is_one_failure_however_often_it_restarts() -> None:
    states = [
        waiting("CrashLoopBackOff", restartCount=1),
        RUNNING | {"restartCount": 2},
        waiting("CrashLoopBackOff", restartCount=2),
        RUNNING | {"restartCount": 3, "lastState": {"terminated": {"exitCode": 3}}},
    ]
    status = LLMServiceStatus()
    written, told = 0, []
    for state in states:
        new = compute(service(status), seen(backend(deployment(), [pod("backend-1", **state)])), NOW)
        written += differs(status, new)
        told += [note.reason for note in transitions(status, new)]
        status = new
    assert (written, told) == (1, ["CrashLoopBackOff"])


def test_pull_failures_of_one_pod_keep_their_words_and_a_new_pod_gets_its_own() -> None:
    def failing(name: str, reason: str, message: str) -> Pod:
        return pod(name, state={"waiting": {"reason": reason, "message": message}})

    first = compute(service(), seen(backend(deployment(), [failing("one", "ErrImagePull", "denied")])), NOW)
    second = compute(
        service(first), seen(backend(deployment(), [failing("one", "ImagePullBackOff", "back-off")])), NOW
    )
    assert not differs(first, second)
    third = compute(
        service(second), seen(backend(deployment(), [failing("two", "ErrImagePull", "denied")])), NOW
    )
    degraded = condition(third.conditions, "Degraded")
    assert degraded is not None
    assert "pod two" in degraded.message
    assert transitions(second, third) == [], "the same class of failure is told once"


def test_a_life_is_told_in_events_each_once() -> None:
    life = [
        seen(backend(deployment(0, 0), [])),
        seen(backend(deployment(1, 0), [])),
        seen(backend(deployment(), [pod(**RUNNING)])),
        seen(backend(deployment(ready=1), [FINE])),
        seen(backend(deployment(ready=1), [FINE])),
        seen(backend(deployment(), [HARD])),
        seen(backend(deployment(), [HARD])),
        seen(backend(deployment(ready=1), [FINE])),
        seen(backend(deployment(0, 0), [])),
    ]
    status = LLMServiceStatus()
    told: list[str] = []
    for step in life:
        new = compute(service(status), step, NOW)
        told += [note.reason for note in transitions(status, new)]
        status = new
    assert told == ["Activated", "Ready", "ImagePullFailed", "BackendRecovered", "Ready", "ScaledToZero"]


def test_the_last_activation_is_when_it_left_its_sleep() -> None:
    asleep = compute(service(), seen(backend(deployment(0, 0), [])), NOW)
    assert asleep.last_activation is None
    woken = compute(service(asleep), seen(backend(deployment(1, 0), [])), LATER)
    assert woken.last_activation == LATER
    ready = compute(service(woken), seen(backend(deployment(ready=1), [FINE])), "2026-01-02T04:00:00Z")
    assert ready.last_activation == LATER


def test_side_conditions_are_told_when_they_go_and_when_they_come_back() -> None:
    bad = Verdict("False", "NameConflict", "qwen.example.org belongs to ai/other")
    up = compute(service(), seen(backend(None, [])), NOW)
    down = compute(service(up), seen(backend(None, []), endpoint=bad), NOW)
    back = compute(service(down), seen(backend(None, [])), NOW)
    assert transitions(LLMServiceStatus(), up) == []
    assert [(note.type, note.reason) for note in transitions(up, down)] == [("Warning", "NameConflict")]
    assert [(note.type, note.reason) for note in transitions(down, back)] == [("Normal", "EndpointReady")]


def test_a_condition_without_a_verdict_stays_as_it_was_and_foreign_ones_are_kept() -> None:
    foreign = Condition(type="Mine", status="True", reason="X", message="", last_transition_time=NOW)
    before = LLMServiceStatus(conditions=[foreign])
    status = compute(service(before), seen(backend(None, []), autoscaling=None), NOW)
    assert foreign in status.conditions
    assert condition(status.conditions, "AutoscalingReady") is None

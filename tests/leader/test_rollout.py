"""What the workers' Deployment and pods say: rollouts are told from scaling, ends that were seen from ends that were guessed."""

from __future__ import annotations

import pytest

from noctaya.kube.metadata import Condition, Metadata
from noctaya.kube.objects import (
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Deployment,
    DeploymentSpec,
    DeploymentStatus,
    Pod,
    PodStatus,
)
from noctaya.leader.member_record import MemberRecord
from noctaya.leader.planner_events import ContainerEnded, MemberView, PodSeen
from noctaya.leader.rollout import UNKNOWN_END, is_rolling_out, newest_version, pod_events


def deployment(
    wanted: int, replicas: int, updated: int, *, generation: int = 5, observed: int = 5, paused: bool = False
) -> Deployment:
    return Deployment(
        metadata=Metadata(name="noctaya-worker", generation=generation),
        spec=DeploymentSpec(replicas=wanted, paused=paused),
        status=DeploymentStatus(observed_generation=observed, replicas=replicas, updated_replicas=updated),
    )


@pytest.mark.parametrize(
    ("seen", "is_running"),
    [
        (deployment(3, 3, 3), False),
        (deployment(3, 4, 1), True),
        (deployment(3, 4, 3), True),
        (deployment(3, 3, 0), True),
        (deployment(1, 1, 0), True),
        (deployment(3, 4, 1, paused=True), False),
        (deployment(10, 3, 3), False),
        (deployment(10, 3, 3, generation=6), False),
        (deployment(3, 10, 10, generation=6), False),
        (deployment(0, 0, 0), False),
        (Deployment(), False),
    ],
    ids=[
        "at rest",
        "the first new pod",
        "the last old pod",
        "no new pod yet",
        "a single worker",
        "paused",
        "scaled out",
        "scaled out, nobody acted yet",
        "scaled in",
        "to nothing",
        "just made",
    ],
)
def test_a_rollout_is_old_pods_beside_a_new_template(seen: Deployment, *, is_running: bool) -> None:
    assert is_rolling_out(seen) is is_running


@pytest.mark.parametrize(("status", "is_running"), [("True", True), ("Unknown", True), ("False", False)])
def test_a_rollout_that_was_given_up_is_none(status: str, *, is_running: bool) -> None:
    told = DeploymentStatus(
        replicas=4, updated_replicas=1, conditions=[Condition(type="Progressing", status=status)]
    )
    assert is_rolling_out(Deployment(status=told)) is is_running


def member(pod: str, version: str, created: str, *, incarnation: str = "x") -> MemberView:
    return MemberView(pod, incarnation, "1", MemberRecord(version=version), created)


def test_the_newest_version_is_the_one_whose_first_pod_came_last() -> None:
    old, new = member("a", "v2", "2026-01-01T00:00:00Z"), member("b", "v1", "2026-01-02T00:00:00Z")
    replaced = member("c", "v2", "2026-01-03T00:00:00Z")  # of the old version, after a crash
    assert newest_version([old, new, replaced]) == "v1"
    assert newest_version([replaced, new, old]) == "v1"


def test_who_holds_nothing_or_says_nothing_has_no_version() -> None:
    over = member("a", "v9", "2026-01-03T00:00:00Z", incarnation="")
    mute = MemberView("b", "x", "1", None, "2026-01-04T00:00:00Z")
    assert newest_version([over, mute]) == ""
    assert newest_version([over, mute, member("c", "v1", "2026-01-01T00:00:00Z")]) == "v1"


def ended(container: str, reason: str = "Error") -> ContainerState:
    return ContainerState(
        terminated=ContainerStateTerminated(exit_code=137, reason=reason, container_id=container)
    )


RUNNING = ContainerState(running=ContainerStateRunning())
WAITING = ContainerState(waiting=ContainerStateWaiting(reason="CrashLoopBackOff"))


def pod(*statuses: ContainerStatus, is_deleting: bool = False, phase: str = "Running") -> Pod:
    deleted = "2026-01-01T00:00:00Z" if is_deleting else None
    return Pod(
        metadata=Metadata(name="w0", deletion_timestamp=deleted),
        status=PodStatus(phase=phase, container_statuses=list(statuses)),
    )


def status(
    state: ContainerState, last: ContainerState | None = None, container: str = "cri://now"
) -> ContainerStatus:
    return ContainerStatus(
        name="worker", container_id=container, state=state, last_state=last or ContainerState()
    )


def test_a_container_that_restarted_has_ended_and_its_successor_has_not() -> None:
    events = pod_events(pod(status(RUNNING, ended("cri://before"))))
    assert events == [PodSeen("w0", is_terminating=False), ContainerEnded("w0", "cri://before")]


def test_a_container_between_two_starts_has_ended() -> None:
    events = pod_events(pod(status(WAITING, ended("cri://before"), container="cri://before")))
    assert events[1:] == [ContainerEnded("w0", "cri://before")]


def test_both_ends_of_a_container_that_failed_twice_are_told() -> None:
    events = pod_events(pod(status(ended("cri://b"), ended("cri://a"))))
    assert events[1:] == [ContainerEnded("w0", "cri://a"), ContainerEnded("w0", "cri://b")]


@pytest.mark.parametrize(
    "seen",
    [
        pod(),
        pod(is_deleting=True),
        pod(phase="Failed"),
        pod(status(RUNNING)),
        pod(status(RUNNING), phase="Failed", is_deleting=True),
        pod(status(ContainerState())),
        pod(status(ended(""))),
        pod(status(ended("cri://now", UNKNOWN_END))),
        pod(status(RUNNING, ended("", UNKNOWN_END))),
    ],
)
@pytest.mark.parametrize("is_gone", [False, True])
def test_nothing_less_than_the_kubelets_word_on_a_container_proves_its_end(
    seen: Pod, *, is_gone: bool
) -> None:
    assert not any(isinstance(event, ContainerEnded) for event in pod_events(seen, is_gone=is_gone))


def test_a_pod_is_terminating_from_its_deletion_until_it_is_gone() -> None:
    going = pod(status(ended("cri://now")), is_deleting=True)
    assert pod_events(pod(status(RUNNING))) == [PodSeen("w0", is_terminating=False)]
    assert pod_events(going)[0] == PodSeen("w0", is_terminating=True)
    assert pod_events(going, is_gone=True) == [
        PodSeen("w0", is_terminating=False),
        ContainerEnded("w0", "cri://now"),
    ]

"""What the workers' Deployment and pods tell the planner: whether a rollout runs, who is about to go, whose end is proved.

Level-based and pure. A rollout is seen by what it does, old pods beside new ones, and not by a generation that nobody has
acted upon yet: scaling raises that too, and a fleet that was only scaled must not be treated as one that is rolled out
(levelling would wait for half a minute). So it is noticed when the first new pod is made, long before that one is ready.

Invariant: `ContainerEnded` names a container only when the kubelet gave its id together with its end. A pod that failed, was
deleted or could not be located any more proves nothing about the process that ran in it (sharding.md 2.7).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from noctaya.kube.objects import ContainerStateTerminated, Deployment, Pod, condition
from noctaya.leader.planner_events import ContainerEnded, MemberView, PodSeen

UNKNOWN_END = "ContainerStatusUnknown"
"""The kubelet's reason when it lost sight of a container: made up so that the pod can go on, seen by nobody."""


def is_rolling_out(deployment: Deployment) -> bool:
    """Whether `deployment` is on its way from one template to another.

    One that stands still (paused, or given up by its controller) is none: no next step is near that levelling should wait for.
    """
    status = deployment.status
    has_old_pods = status.replicas > status.updated_replicas
    progressing = condition(status.conditions, "Progressing")
    has_stalled = deployment.spec.paused or (progressing is not None and progressing.status == "False")
    return has_old_pods and not has_stalled


def newest_version(members: Iterable[MemberView]) -> str:
    """The version whose first pod came last; empty when nobody says one.

    The first, not the youngest pod: one of the old version that crashes during a rollout may be replaced by another old one.
    """
    first: dict[str, str] = {}
    for member in members:
        version = member.record.version if member.record is not None else ""
        if version and member.incarnation and member.created:
            first[version] = min(first.get(version, member.created), member.created)
    return max(first, key=lambda version: (first[version], version), default="")


def pod_events(pod: Pod, *, is_gone: bool = False) -> list[PodSeen | ContainerEnded]:
    """What a worker's pod shows; with `is_gone` it is not there any more, and this is how it was last seen."""
    is_terminating = pod.metadata.is_deleting and not is_gone
    ended = sorted({end.container_id for end in _ends(pod) if _is_certain(end)})
    return [PodSeen(pod.name, is_terminating), *(ContainerEnded(pod.name, container) for container in ended)]


def _ends(pod: Pod) -> Iterator[ContainerStateTerminated]:
    for status in pod.status.container_statuses:
        for state in (status.state, status.last_state):
            if state.terminated is not None:
                yield state.terminated


def _is_certain(end: ContainerStateTerminated) -> bool:
    return bool(end.container_id) and end.reason != UNKNOWN_END

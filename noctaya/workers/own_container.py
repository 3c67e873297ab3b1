"""Which container this process runs in, as far as the pod's status can tell.

The kubelet's word that a container has ended proves the end of the incarnation that ran in it (`planner_events.ContainerEnded`),
so the id is told only when the status shows a running container that began just before this process did. A status that lags
shows the container before a restart, which began earlier. One that lived for less than `CLOSE_SECONDS` could be mistaken for
ours for a moment: then this incarnation may be fenced and another one begins, which costs a second and never makes two owners.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from noctaya.kube.metadata import parse_time
from noctaya.kube.objects import Pod

CLOSE_SECONDS = 10.0
PROCESS_STARTED = datetime.now(UTC)
"""About: when this module was imported."""


def own_container(pod: Pod | None, started: datetime = PROCESS_STARTED) -> str:
    """The id of the container of `pod` in which a process that began at `started` runs; empty when it is not certain."""
    statuses = pod.status.container_statuses if pod is not None else []
    if len(statuses) != 1:
        return ""
    (status,) = statuses
    running = status.state.running
    if running is None or running.started_at is None:
        return ""
    try:
        age = started - parse_time(running.started_at)
    except ValueError:
        return ""
    return status.container_id if timedelta(0) <= age <= timedelta(seconds=CLOSE_SECONDS) else ""

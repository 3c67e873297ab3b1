"""What the API says about the fleet's gateway containers: which run, which have ended.

This is the only evidence by which a silent gateway may leave the sum of demand (`demand.py`). A container that has not
started yet is neither running nor ended: it can hold no request, and its process may reach us before the kubelet's report.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from noctaya.kube.objects import Pod

CONTAINER = "gateway"

PodName = tuple[str, str]
"""(namespace, name)."""


class Phase(Enum):
    """Of a gateway's container."""

    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"


@dataclass(frozen=True, slots=True)
class GatewayContainer:
    """`instance` is another one after every restart of the container."""

    phase: Phase
    instance: str


def gateway_containers(pods: Iterable[Pod]) -> dict[PodName, GatewayContainer]:
    """The gateway container of each pod."""
    return {(pod.namespace, pod.name): container_of(pod) for pod in pods}


def container_of(pod: Pod) -> GatewayContainer:
    """The container named `gateway`, or the first where none is. Its state as the kubelet last told."""
    statuses = pod.status.container_statuses
    status = next((found for found in statuses if found.name == CONTAINER), statuses[0] if statuses else None)
    if pod.status.phase in ("Succeeded", "Failed"):
        return GatewayContainer(Phase.ENDED, pod.uid)
    if status is None:
        return GatewayContainer(Phase.STARTING, pod.uid)
    instance = f"{pod.uid}/{status.restart_count}/{status.container_id}"
    if status.state.running is not None:
        return GatewayContainer(Phase.RUNNING, instance)
    if status.state.terminated is not None or status.last_state.terminated is not None:
        return GatewayContainer(Phase.ENDED, instance)
    return GatewayContainer(Phase.STARTING, instance)

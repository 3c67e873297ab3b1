"""A pod, as far as readiness, endpoints and the phases of a start need it."""

from __future__ import annotations

from msgspec import field

from noctaya.kube.metadata import Condition, Object, Slim, condition


class ContainerPort(Slim, frozen=True):
    name: str = ""
    container_port: int = 0
    protocol: str = "TCP"


class Container(Slim, frozen=True):
    name: str = ""
    image: str = ""
    ports: list[ContainerPort] = field(default_factory=list)


class PodSpec(Slim, frozen=True):
    node_name: str = ""
    containers: list[Container] = field(default_factory=list)
    init_containers: list[Container] = field(default_factory=list)
    termination_grace_period_seconds: int | None = None


class PodIP(Slim, frozen=True):
    ip: str = ""


class ContainerStateWaiting(Slim, frozen=True):
    reason: str = ""
    message: str = ""


class ContainerStateRunning(Slim, frozen=True):
    started_at: str | None = None


class ContainerStateTerminated(Slim, frozen=True):
    exit_code: int = 0
    signal: int = 0
    reason: str = ""
    message: str = ""
    started_at: str | None = None
    finished_at: str | None = None
    container_id: str = field(default="", name="containerID")


class ContainerState(Slim, frozen=True):
    """At most one of the three is set; none means waiting, by the API's own rule."""

    waiting: ContainerStateWaiting | None = None
    running: ContainerStateRunning | None = None
    terminated: ContainerStateTerminated | None = None


class ContainerStatus(Slim, frozen=True):
    name: str = ""
    image: str = ""
    container_id: str = field(default="", name="containerID")
    ready: bool = False
    started: bool | None = None
    restart_count: int = 0
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()


class PodStatus(Slim, frozen=True):
    phase: str = ""
    reason: str = ""
    message: str = ""
    pod_ip: str = field(default="", name="podIP")
    pod_ips: list[PodIP] = field(default_factory=list, name="podIPs")
    start_time: str | None = None
    conditions: list[Condition] = field(default_factory=list)
    container_statuses: list[ContainerStatus] = field(default_factory=list)
    init_container_statuses: list[ContainerStatus] = field(default_factory=list)


class Pod(Object, frozen=True):
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def is_ready(self) -> bool:
        """The kubelet's verdict. A pod that is being deleted may still say ready: ask `metadata.is_deleting` too."""
        ready = condition(self.status.conditions, "Ready")
        return ready is not None and ready.is_true

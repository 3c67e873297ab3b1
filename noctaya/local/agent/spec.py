"""What the agent reads of a pod: containers, probes, hooks and mounts as plain values.

Parsed once when the pod arrives, from the API server's JSON. Named ports are resolved here. Fields that a process on this
machine cannot honour (security contexts, resource limits, service account tokens) are not read.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from msgspec import field

from noctaya.kube.metadata import Object

Json = dict[str, Any]


class PodObject(Object, frozen=True):
    """A Pod as the agent's store holds it: `spec` and `status` stay JSON, because the agent reads nearly all of them."""

    spec: dict[str, Any] = field(default_factory=dict)
    status: dict[str, Any] = field(default_factory=dict)


class ProbeKind(StrEnum):
    """The three questions that a kubelet asks a container."""

    STARTUP = "startup"
    READINESS = "readiness"
    LIVENESS = "liveness"


@dataclass(frozen=True, slots=True)
class HttpGet:
    """Good when the answer's status is 200-399."""

    port: int
    path: str = "/"
    scheme: str = "http"
    host: str | None = None
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class TcpSocket:
    """Good when a connection opens."""

    port: int
    host: str | None = None


@dataclass(frozen=True, slots=True)
class Exec:
    """Good when the command ends with 0."""

    command: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Sleep:
    """A preStop hook that only waits."""

    seconds: float


Check = HttpGet | TcpSocket | Exec
Hook = HttpGet | TcpSocket | Exec | Sleep


@dataclass(frozen=True, slots=True)
class ProbeSpec:
    """One probe with a kubelet's defaults."""

    kind: ProbeKind
    check: Check
    initial_delay_seconds: float = 0.0
    period_seconds: float = 10.0
    timeout_seconds: float = 1.0
    success_threshold: int = 1
    failure_threshold: int = 3
    grace_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Mount:
    """Where a volume is meant to appear in the container."""

    volume: str
    path: str
    sub_path: str = ""


@dataclass(frozen=True, slots=True)
class ContainerSpec:
    """One container of the pod."""

    name: str
    image: str
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str | None = None
    env: tuple[Mapping[str, Any], ...] = ()
    env_from: tuple[Mapping[str, Any], ...] = ()
    mounts: tuple[Mount, ...] = ()
    probes: tuple[ProbeSpec, ...] = ()
    pre_stop: Hook | None = None
    termination_message_path: str = "/dev/termination-log"
    falls_back_to_logs: bool = False

    def probe(self, kind: ProbeKind) -> ProbeSpec | None:
        """The probe of this kind, if the container has one."""
        return next((probe for probe in self.probes if probe.kind is kind), None)


@dataclass(frozen=True, slots=True)
class PodSpec:
    """One pod as the agent runs it."""

    namespace: str
    name: str
    uid: str
    init_containers: tuple[ContainerSpec, ...]
    containers: tuple[ContainerSpec, ...]
    restart_policy: str = "Always"
    grace_seconds: float = 30.0

    @property
    def key(self) -> str:
        """`namespace/name`, for logs and messages."""
        return f"{self.namespace}/{self.name}"

    def find(self, container: str) -> ContainerSpec:
        """The container (init containers included) of this name."""
        return next(spec for spec in (*self.init_containers, *self.containers) if spec.name == container)


def parse_pod(pod: PodObject) -> PodSpec:
    """Read a Pod object."""
    grace = pod.spec.get("terminationGracePeriodSeconds")
    return PodSpec(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        init_containers=tuple(parse_container(item) for item in pod.spec.get("initContainers") or ()),
        containers=tuple(parse_container(item) for item in pod.spec["containers"]),
        restart_policy=pod.spec.get("restartPolicy") or "Always",
        grace_seconds=30.0 if grace is None else float(grace),
    )


def parse_container(container: Json) -> ContainerSpec:
    """Read one entry of `spec.containers`."""
    ports = {port["name"]: port["containerPort"] for port in container.get("ports") or () if port.get("name")}
    probes = [
        parse_probe(kind, container[field], ports)
        for kind in ProbeKind
        if container.get(field := f"{kind.value}Probe")
    ]
    hook = (container.get("lifecycle") or {}).get("preStop")
    return ContainerSpec(
        name=container["name"],
        image=container.get("image") or "",
        command=tuple(container.get("command") or ()),
        args=tuple(container.get("args") or ()),
        working_dir=container.get("workingDir") or None,
        env=tuple(container.get("env") or ()),
        env_from=tuple(container.get("envFrom") or ()),
        mounts=tuple(
            Mount(item["name"], item["mountPath"].rstrip("/") or "/", item.get("subPath") or "")
            for item in container.get("volumeMounts") or ()
        ),
        probes=tuple(probes),
        pre_stop=parse_hook(hook, ports) if hook else None,
        termination_message_path=container.get("terminationMessagePath") or "/dev/termination-log",
        falls_back_to_logs=container.get("terminationMessagePolicy") == "FallbackToLogsOnError",
    )


def parse_probe(kind: ProbeKind, probe: Json, ports: Mapping[str, int]) -> ProbeSpec:
    """Read a Probe; a gRPC check is looked at as TCP, which is all that a port says without its health service."""
    grace = probe.get("terminationGracePeriodSeconds")
    check = parse_hook(probe, ports)
    if isinstance(check, Sleep):
        raise TypeError(f"A {kind} probe cannot sleep.")
    return ProbeSpec(
        kind=kind,
        check=check,
        initial_delay_seconds=float(probe.get("initialDelaySeconds") or 0),
        period_seconds=float(probe.get("periodSeconds") or 10),
        timeout_seconds=float(probe.get("timeoutSeconds") or 1),
        success_threshold=int(probe.get("successThreshold") or 1),
        failure_threshold=int(probe.get("failureThreshold") or 3),
        grace_seconds=None if grace is None else float(grace),
    )


def parse_hook(handler: Json, ports: Mapping[str, int]) -> Hook:
    """Read the handler that probes and hooks share."""
    if (get := handler.get("httpGet")) is not None:
        headers = tuple((item["name"], item.get("value") or "") for item in get.get("httpHeaders") or ())
        scheme = (get.get("scheme") or "HTTP").lower()
        return HttpGet(
            resolve_port(get["port"], ports), get.get("path") or "/", scheme, get.get("host") or None, headers
        )
    if (tcp := handler.get("tcpSocket")) is not None:
        return TcpSocket(resolve_port(tcp["port"], ports), tcp.get("host") or None)
    if (grpc := handler.get("grpc")) is not None:
        return TcpSocket(resolve_port(grpc["port"], ports))
    if (sleep := handler.get("sleep")) is not None:
        return Sleep(float(sleep.get("seconds") or 0))
    return Exec(tuple((handler.get("exec") or {}).get("command") or ()))


def resolve_port(port: int | str, ports: Mapping[str, int]) -> int:
    """A port's number; 0, which nothing listens on, for a name that no container port has."""
    if isinstance(port, str):
        return int(port) if port.isdigit() else ports.get(port, 0)
    return port

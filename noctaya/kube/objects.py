"""The kinds that Noctaya reads, each with only the fields that something here looks at.

Adding a field costs memory for every cached object, so a field comes with its reader. `metadata.py` holds what all kinds
share, `pods.py` and `autoscaling.py` the larger kinds; all are re-exported here, so that this module is all a reader needs.
"""

from __future__ import annotations

from msgspec import field

from noctaya.kube.autoscaling import (
    CrossVersionReference,
    HorizontalPodAutoscaler,
    HorizontalPodAutoscalerSpec,
    HorizontalPodAutoscalerStatus,
    ScaledObject,
    ScaledObjectSpec,
    ScaledObjectStatus,
    ScaleTarget,
    Trigger,
)
from noctaya.kube.metadata import (
    Condition,
    Metadata,
    Object,
    OwnerReference,
    Slim,
    condition,
    format_micro_time,
    format_time,
    parse_time,
)
from noctaya.kube.pods import (
    Container,
    ContainerPort,
    ContainerState,
    ContainerStateRunning,
    ContainerStateTerminated,
    ContainerStateWaiting,
    ContainerStatus,
    Pod,
    PodIP,
    PodSpec,
    PodStatus,
)

__all__ = [
    "Condition",
    "ConfigMap",
    "Container",
    "ContainerPort",
    "ContainerState",
    "ContainerStateRunning",
    "ContainerStateTerminated",
    "ContainerStateWaiting",
    "ContainerStatus",
    "CrossVersionReference",
    "Deployment",
    "DeploymentSpec",
    "DeploymentStatus",
    "Event",
    "EventSource",
    "HorizontalPodAutoscaler",
    "HorizontalPodAutoscalerSpec",
    "HorizontalPodAutoscalerStatus",
    "Job",
    "JobSpec",
    "JobStatus",
    "LabelSelector",
    "Lease",
    "LeaseSpec",
    "Metadata",
    "Object",
    "ObjectReference",
    "OwnerReference",
    "PersistentVolumeClaim",
    "PersistentVolumeClaimSpec",
    "PersistentVolumeClaimStatus",
    "Pod",
    "PodIP",
    "PodSpec",
    "PodStatus",
    "ScaleTarget",
    "ScaledObject",
    "ScaledObjectSpec",
    "ScaledObjectStatus",
    "Secret",
    "Service",
    "ServicePort",
    "ServiceSpec",
    "Slim",
    "Trigger",
    "condition",
    "format_micro_time",
    "format_time",
    "parse_time",
]


class LabelSelector(Slim, frozen=True):
    match_labels: dict[str, str] = field(default_factory=dict)


class DeploymentSpec(Slim, frozen=True):
    replicas: int = 1
    selector: LabelSelector = LabelSelector()
    paused: bool = False


class DeploymentStatus(Slim, frozen=True):
    observed_generation: int = 0
    replicas: int = 0
    updated_replicas: int = 0
    ready_replicas: int = 0
    available_replicas: int = 0
    unavailable_replicas: int = 0
    conditions: list[Condition] = field(default_factory=list)


class Deployment(Object, frozen=True):
    spec: DeploymentSpec = DeploymentSpec()
    status: DeploymentStatus = DeploymentStatus()


class JobSpec(Slim, frozen=True):
    backoff_limit: int | None = None
    suspend: bool = False


class JobStatus(Slim, frozen=True):
    active: int = 0
    succeeded: int = 0
    failed: int = 0
    start_time: str | None = None
    completion_time: str | None = None
    conditions: list[Condition] = field(default_factory=list)


class Job(Object, frozen=True):
    spec: JobSpec = JobSpec()
    status: JobStatus = JobStatus()


class LeaseSpec(Slim, frozen=True):
    """Times are MicroTime strings; compare them for change only, never with this machine's clock."""

    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None
    lease_transitions: int | None = None


class Lease(Object, frozen=True):
    spec: LeaseSpec = LeaseSpec()


class ConfigMap(Object, frozen=True):
    data: dict[str, str] = field(default_factory=dict)


class Secret(Object, frozen=True):
    """`data` is decoded from base64. Never put one into a log or a message."""

    type: str = ""
    data: dict[str, bytes] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"Secret({self.metadata.namespace}/{self.metadata.name}, keys={sorted(self.data)})"


class PersistentVolumeClaimSpec(Slim, frozen=True):
    volume_name: str = ""
    storage_class_name: str | None = None
    access_modes: list[str] = field(default_factory=list)


class PersistentVolumeClaimStatus(Slim, frozen=True):
    phase: str = ""
    capacity: dict[str, str | int | float] = field(default_factory=dict)


class PersistentVolumeClaim(Object, frozen=True):
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class ServicePort(Slim, frozen=True):
    name: str = ""
    port: int = 0
    target_port: int | str | None = None
    protocol: str = "TCP"


class ServiceSpec(Slim, frozen=True):
    type: str = "ClusterIP"
    cluster_ip: str = field(default="", name="clusterIP")
    external_name: str = ""
    selector: dict[str, str] = field(default_factory=dict)
    ports: list[ServicePort] = field(default_factory=list)


class Service(Object, frozen=True):
    spec: ServiceSpec = ServiceSpec()


class ObjectReference(Slim, frozen=True):
    """What an event is about."""

    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""
    field_path: str = ""


class EventSource(Slim, frozen=True):
    component: str = ""
    host: str = ""


class Event(Object, frozen=True):
    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    type: str = ""
    count: int = 0
    source: EventSource = EventSource()
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    reporting_component: str = ""
    reporting_instance: str = ""

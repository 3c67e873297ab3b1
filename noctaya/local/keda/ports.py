"""What the stand-in needs of the world: a cluster to read and write, and scalers to ask.

The loops know only these protocols, so that their exact timing is tested in virtual time against fakes; `cluster.py` and
`channels.py` are the real ends. Errors: cluster methods raise `NoctayaError`s of `noctaya.kube`, scaler methods raise
`ScalerFailed`.
"""

from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from noctaya.local.keda.executor import Event
from noctaya.local.keda.records import Record

Seen = Callable[[Record | None, Record | None], None]
"""Called for each change of a kind with the object before and after it; None stands for "is not there"."""


@dataclass(frozen=True, slots=True)
class Target:
    """The Deployment that is scaled, at one moment."""

    spec_replicas: int
    status_replicas: int
    ready_replicas: int
    resource_version: str


class Cluster(Protocol):
    """The API server as the stand-in uses it. A ScaledObject's status is written by one writer at a time."""

    async def watch(self, on_scaledobject: Seen, on_hpa: Seen) -> None:
        """Feed both callbacks until cancelled, with what exists first: all HPAs before the first ScaledObject."""
        ...

    async def patch_scaledobject(self, record: Record, patch: Mapping[str, Any]) -> Record:
        """Merge-patch metadata."""
        ...

    async def patch_scaledobject_status(self, record: Record, status: Mapping[str, Any]) -> Record:
        """Merge-patch the status subresource."""
        ...

    async def read_target(self, namespace: str, name: str) -> Target:
        """Raises TargetUnreadable."""
        ...

    async def scale_target(
        self, namespace: str, name: str, replicas: int, *, by: str, resource_version: str | None = None
    ) -> None:
        """Write the scale subresource as field manager `by`; with a resourceVersion only if that is still current."""
        ...

    async def create_hpa(self, manifest: Mapping[str, Any]) -> Record:
        """Create it; the answer carries the resourceVersion."""
        ...

    async def replace_hpa(self, record: Record, manifest: Mapping[str, Any]) -> Record:
        """Replace `record` (by its resourceVersion) with `manifest`."""
        ...

    async def delete_hpa(self, namespace: str, name: str) -> None:
        """Delete it; gone already is fine."""
        ...

    async def patch_hpa_status(self, record: Record, status: Mapping[str, Any]) -> Record:
        """Merge-patch the status subresource."""
        ...

    def tell(self, record: Record, event: Event) -> None:
        """Record a Kubernetes event about a ScaledObject or an HPA; never blocks."""
        ...


@dataclass(frozen=True, slots=True)
class Reference:
    """Who asks: name, namespace and the trigger's whole metadata, nothing else (C5)."""

    namespace: str
    name: str
    metadata: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """One metric that a scaler offers, with its target in thousandths."""

    name: str
    target: int


class Scaler(Protocol):
    """The ExternalScaler contract at one address. No call has a deadline, because KEDA sets none (C2, C4)."""

    async def metric_specs(self, reference: Reference) -> list[MetricSpec]:
        """GetMetricSpec."""
        ...

    async def metrics(self, reference: Reference, metric: str) -> list[int]:
        """GetMetrics for one metric without its `s<i>-` prefix: every value, in thousandths."""
        ...

    async def is_active(self, reference: Reference) -> bool:
        """IsActive."""
        ...

    def stream(self, reference: Reference) -> AsyncGenerator[bool, None]:
        """StreamIsActive. The end of the generator is an OK end; closing it cancels the call."""
        ...


class Scalers(Protocol):
    """Every scaler by its address."""

    def at(self, address: str) -> Scaler:
        """The scaler at `address`, `host:port` as trigger metadata says it; dials nothing yet."""
        ...

"""A worker's settings: `NOCTAYA_…` variables, read once in `main`, frozen, passed down.

Lists are written as comma-separated values (`NOCTAYA_GATEWAY__OPEN_NAMESPACES=ai,research`).
"""

from __future__ import annotations

import socket
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from pydantic_settings import NoDecode

from noctaya.settings import RoleSettings, SettingsGroup
from noctaya.workers.control_security import WorkerTlsSettings


def _from_csv(value: Any) -> Any:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


Csv = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_from_csv)]
"""A list that the environment gives as comma-separated values."""

Seconds = Annotated[float, Field(gt=0)]
Port = Annotated[int, Field(ge=0, le=65535)]


class PodSettings(SettingsGroup):
    """Which pod this is; from fieldRefs."""

    namespace: str = "noctaya-system"
    """Where the fleet's own objects are: Leases, ShardMap, digest key, gateways."""
    name: str = Field(default_factory=socket.gethostname)
    """Name of the pod; the host's name where there is none."""
    uid: str = ""
    """UID of the pod. With it, a container that restarts in place takes over from its former self at once; without it only
    after `tenure.fence_after_seconds`."""
    ip: str = ""
    """Address of the pod, at which gateways and other workers reach it; empty: `control.advertise` tells, or nobody does."""


class KubeSettings(SettingsGroup):
    """How to reach the API server."""

    kubeconfig: str | None = None
    """Path; when empty $KUBECONFIG, then ~/.kube/config, then the pod's service account."""
    context: str | None = None
    """Context of the kubeconfig; its current one when empty."""


class ScalerSettings(SettingsGroup):
    """KEDA's ExternalScaler."""

    host: str = "0.0.0.0"
    """Address to listen on."""
    port: Port = 9090
    """Port to listen on; 0 picks a free one (tests)."""
    address: str = "noctaya-scaler.noctaya-system.svc:9090"
    """What ScaledObjects carry as scalerAddress: KEDA resolves it, so it must be a name that KEDA's pods know."""
    probe_address: str = ""
    """Through which this worker asks its own scaler before it lets a ScaledObject be made; `address` when empty."""
    polling_interval_seconds: int = Field(default=30, ge=5)
    """pollingInterval of ScaledObjects; shorter where a cooldown asks for it. Pushes wake models, polls put them to sleep."""
    stream_seconds: Seconds = 900.0
    """A stream of KEDA ends with OK after about this long, so that KEDA finds new workers."""
    drain_spread_seconds: float = Field(default=5.0, ge=0)
    """On a stop, streams end spread over this long, so that KEDA does not reopen thousands at once."""


class ControlSettings(SettingsGroup):
    """The control link for gateways."""

    host: str = "0.0.0.0"
    """Address to listen on."""
    port: Port = 9443
    """Port to listen on; 0 picks a free one (tests)."""
    advertise: str = ""
    """host:port at which gateways and other workers reach this one; empty: the pod's address and the port. Without both, gateways
    keep their first contacts, and shards are handed over without a word between workers."""
    drain_seconds: float = Field(default=1.0, ge=0)
    """How long a stopping worker waits for gateways to hang up."""


class AdminSettings(SettingsGroup):
    """Probes, metrics and a look inside."""

    host: str = "0.0.0.0"
    """Address to listen on."""
    port: Port = 8081
    """Port to listen on; 0 picks a free one (tests)."""


class TenureSettings(SettingsGroup):
    """How workers hold their Leases. Change all three together, and alike on every worker."""

    renew_every_seconds: Seconds = 2.5
    """From one renewal's send to the next; two or three attempts must fit before `self_deadline_seconds`."""
    self_deadline_seconds: Seconds = 6.0
    """A worker acts no longer than this after it *sent* its last good renewal."""
    fence_after_seconds: Seconds = 8.5
    """Others take over after they saw no renewal for this long; the ratio to the self-deadline is what clocks may differ by."""


class GatewaySettings(SettingsGroup):
    """What this fleet's gateways are called and what they may serve."""

    service: str = "noctaya-gateway"
    """Name of the gateways' Service in the fleet's namespace; every model's Service points at it."""
    cluster_domain: str = "cluster.local"
    """The cluster's DNS domain."""
    open_namespaces: Csv = ("*",)
    """Where a service without client keys is served; `*` is every namespace. Printed at the start."""


class ReconcileSettings(SettingsGroup):
    """Bringing services to what their specs say."""

    concurrency: int = Field(default=8, ge=1, le=64)
    """Services reconciled at a time."""


class DemandSettings(SettingsGroup):
    """When demand counts as known."""

    stale_after_seconds: Seconds = 10.0
    """A gateway's full report counts this long; gateways send one every 2 s."""


class AuditSettings(SettingsGroup):
    """What a worker did, for whoever judges a fleet's history afterwards."""

    file: str = ""
    """Every effect as a JSON line with CLOCK_BOOTTIME, appended to this file; it grows without bound. Empty: off."""


class WorkerSettings(RoleSettings):
    """Everything that one worker may be told."""

    pod: PodSettings = PodSettings()
    kube: KubeSettings = KubeSettings()
    scaler: ScalerSettings = ScalerSettings()
    control: ControlSettings = ControlSettings()
    admin: AdminSettings = AdminSettings()
    tenure: TenureSettings = TenureSettings()
    gateway: GatewaySettings = GatewaySettings()
    reconcile: ReconcileSettings = ReconcileSettings()
    demand: DemandSettings = DemandSettings()
    tls: WorkerTlsSettings = WorkerTlsSettings()
    audit: AuditSettings = AuditSettings()

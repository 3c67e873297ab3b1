"""A gateway's settings: `NOCTAYA_…` variables, read once in `main`, frozen, passed down.

Lists are written as comma-separated values (`NOCTAYA_LINK__WORKERS=10.0.0.1:9443,10.0.0.2:9443`).
"""

import socket
from typing import Annotated, Any

from pydantic import BeforeValidator, Field
from pydantic_settings import NoDecode

from noctaya.settings import RoleSettings, SettingsGroup
from noctaya.wire.tls_settings import TlsSettings


def _from_csv(value: Any) -> Any:
    if isinstance(value, str):
        return tuple(part.strip() for part in value.split(",") if part.strip())
    return value


Csv = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_from_csv)]
"""A list that the environment gives as comma-separated values."""

Seconds = Annotated[float, Field(ge=0)]
Port = Annotated[int, Field(ge=0, le=65535)]


class HttpSettings(SettingsGroup):
    """The public port."""

    host: str = "0.0.0.0"
    """Address to listen on; a pod has only its own."""
    port: Port = 8080
    """Port to listen on; 0 picks a free one (tests)."""
    max_body_bytes: int = Field(default=32 * 1024 * 1024, gt=0)
    """Largest request body, 413 beyond it: room for images in a prompt. A service may ask for less or more."""
    max_header_bytes: int = Field(default=16_384, gt=0, le=16_384)
    """Largest request head, 431 beyond it. 16,384 is the server's own ceiling; long tokens need more than 8,192."""
    head_timeout_seconds: Seconds = 10.0
    """A client that has not sent its whole request head by then is cut off: slow heads must not pin connections."""
    body_timeout_seconds: Seconds = 60.0
    """A client that has not sent its whole body by then is cut off with 408."""
    keep_alive_seconds: Seconds = 75.0
    """An idle connection is closed after this; longer than the 60 s of common load balancers, so that they close first."""
    client_stall_seconds: Seconds = 300.0
    """A client that reads nothing for so long while an answer waits for it is cut off and the engine told."""
    trust_forwarded: bool = False
    """True keeps what a client says in X-Forwarded-For and -Proto (a trusted proxy stands in front); false replaces it."""
    cors_origins: Csv = ()
    """Origins that browsers may call from; `*` is every one. Empty: no CORS headers at all."""


class AdminSettings(SettingsGroup):
    """The port for probes, metrics and a look inside; not for clients."""

    host: str = "0.0.0.0"
    """Address to listen on."""
    port: Port = 8081
    """Port to listen on; 0 picks a free one (tests)."""


class LinkSettings(SettingsGroup):
    """The control link to the workers."""

    workers: Csv = ("noctaya-workers.noctaya-system.svc:9443",)
    """First contacts, `host:port`; the list of all workers comes over the link."""
    full_report_seconds: float = Field(default=2.0, gt=0)
    """Every worker gets the whole demand this often: constant work, and whatever was lost heals."""
    edge_seconds: Seconds = 0.05
    """Demand that begins or ends is reported at once, but no two reports of one link are closer than this."""
    wake_ack_seconds: float = Field(default=0.5, gt=0)
    """A wake that its shard's owner has not confirmed by then goes to all other workers too."""
    welcome_seconds: float = Field(default=5.0, gt=0)
    """A worker that has not said Welcome by then is dialled anew."""
    write_seconds: float = Field(default=10.0, gt=0)
    """A worker that does not take a message in this time is dialled anew."""
    reconnect_min_seconds: float = Field(default=0.1, gt=0)
    """First pause before a worker is dialled again; doubles, with jitter."""
    reconnect_max_seconds: float = Field(default=1.0, gt=0)
    """Longest such pause: a held request waits for a worker that restarts, and a refused dial costs nothing."""
    settle_seconds: Seconds = 2.0
    """With routes from only some shards the gateway calls itself ready this long after its first Welcome."""
    bye_seconds: float = Field(default=1.0, gt=0)
    """How long the last word to the workers may take."""


class PodSettings(SettingsGroup):
    """Who we are; a Deployment fills these from fieldRefs."""

    namespace: str = "noctaya-system"
    """Namespace of this gateway's pod."""
    name: str = Field(default_factory=socket.gethostname)
    """Name of this gateway's pod: workers watch it, so that they know when its demand is gone. Default: the host's name."""


class AdmissionSettings(SettingsGroup):
    """How much may be inside at once."""

    max_bytes: int = Field(default=512 * 1024 * 1024, gt=0)
    """Bodies in memory over all services; beyond it 503. Set it below the container's memory limit."""
    max_bytes_per_service: int = Field(default=256 * 1024 * 1024, gt=0)
    """Bodies in memory of one service; beyond it 429. Below `max_bytes`, so that one service cannot shut out the others."""


class HoldSettings(SettingsGroup):
    """Requests that wait for a model to wake."""

    lease_linger_seconds: Seconds = 2.0
    """Demand goes on for so long after the last waiting client left unserved: a client that reconnects finds the start going on."""
    probe_min_seconds: float = Field(default=0.05, gt=0)
    """First pause between two probes of an endpoint that is not ready yet."""
    probe_max_seconds: float = Field(default=0.25, gt=0)
    """Longest such pause."""
    probe_timeout_seconds: float = Field(default=1.0, gt=0)
    """An endpoint that does not answer its probe by then counts as slow."""
    recently_good_seconds: Seconds = 30.0
    """An endpoint that answered within this time is used without a probe."""
    eject_seconds: Seconds = 2.0
    """An endpoint that failed gets nothing for so long, doubled with each further failure up to 30 s, or until a probe is good."""


class UpstreamSettings(SettingsGroup):
    """Connections to the engines."""

    connect_seconds: float = Field(default=2.0, gt=0)
    """A connection inside a cluster takes milliseconds; after this the next endpoint is tried."""
    idle_seconds: float = Field(default=600.0, gt=0)
    """An engine that sends no byte for so long is given up: 504 before its headers, an error frame after."""
    keepalive_seconds: float = Field(default=4.0, gt=0)
    """Idle connections are closed after this; below the 5 s of the engines' servers, so that we close first."""


class DrainSettings(SettingsGroup):
    """How a gateway ends."""

    propagation_seconds: Seconds = 5.0
    """After SIGTERM the gateway goes on accepting for so long: load balancers need time to notice that it is not ready."""
    limit_seconds: Seconds = 600.0
    """Then answers may finish for so long; the pod's grace period must be longer than both together."""


class GatewaySettings(RoleSettings):
    """Everything that `noctaya gateway` may be told."""

    http: HttpSettings = HttpSettings()
    admin: AdminSettings = AdminSettings()
    link: LinkSettings = LinkSettings()
    pod: PodSettings = PodSettings()
    admission: AdmissionSettings = AdmissionSettings()
    hold: HoldSettings = HoldSettings()
    upstream: UpstreamSettings = UpstreamSettings()
    drain: DrainSettings = DrainSettings()
    tls: TlsSettings = TlsSettings()
    snapshot_dir: str = ""
    """Directory (an emptyDir) for the last good routes, so that a restarted container serves before a worker answers; empty: off."""

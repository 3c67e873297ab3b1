"""What a gateway knows of one LLMService and of its endpoints: the wire's messages as small frozen values."""

import ipaddress
from dataclasses import dataclass, field

from noctaya.wire import control

DEFAULT_HEARTBEAT_SECONDS = 10.0
DEFAULT_ACTIVATION_SECONDS = 300.0
DEFAULT_MAX_QUEUE = 100


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One pod that serves, or will serve, the model."""

    address: str
    port: int
    pod: str
    pod_uid: str
    ready: bool
    terminating: bool

    @property
    def id(self) -> str:
        """Stays the same while readiness changes; another pod with the same address is another endpoint."""
        return f"{self.pod_uid}@{self.address}:{self.port}"

    @property
    def authority(self) -> str:
        """`host:port` as a URL wants it."""
        return f"[{self.address}]:{self.port}" if ":" in self.address else f"{self.address}:{self.port}"


@dataclass(frozen=True, slots=True)
class Service:
    """One LLMService. `key` is `namespace/name`; times are seconds."""

    key: str
    shard: int
    hostnames: tuple[str, ...]
    names: frozenset[str]
    """Short names that a body's `model` may use: own name, served name, aliases."""
    served_model_name: str
    inference_paths: tuple[str, ...]
    max_queue: int
    max_body_bytes: int
    hold_seconds: float
    """How long a request may be held: the shorter of queue timeout and activation timeout."""
    activation_seconds: float
    rejects: bool
    heartbeat_seconds: float
    heartbeat_mode: "control.HeartbeatMode"
    auth_required: bool
    digests: tuple[bytes, ...]
    health_path: str
    keeps_alive: bool
    endpoints: tuple[Endpoint, ...]
    phase: str
    problem: str
    created_at: int
    message: "control.Service" = field(compare=False, repr=False)
    """As it came, for the snapshot on disk."""

    @property
    def namespace(self) -> str:
        return self.key.partition("/")[0]

    @property
    def name(self) -> str:
        return self.key.partition("/")[2]

    def may_infer(self, path: str) -> bool:
        """True when a POST to `path` (without query) may wake the model."""
        if not self.inference_paths:
            return path.startswith("/v1/")
        return path in self.inference_paths

    @classmethod
    def from_message(cls, message: "control.Service", shard: int) -> "Service":
        """Read the wire's message; zeros mean "default" as the contract says."""
        activation = message.activation_timeout_ms / 1000 or DEFAULT_ACTIVATION_SECONDS
        queue = message.queue_timeout_ms / 1000 or activation
        names = {message.name, message.served_model_name, *message.aliases} - {""}
        return cls(
            key=f"{message.namespace}/{message.name}",
            shard=shard,
            hostnames=tuple(name.lower().rstrip(".") for name in message.hostnames),
            names=frozenset(names),
            served_model_name=message.served_model_name,
            inference_paths=tuple(message.inference_paths),
            max_queue=message.max_queue or DEFAULT_MAX_QUEUE,
            max_body_bytes=message.max_body_bytes,
            hold_seconds=min(queue, activation),
            activation_seconds=activation,
            rejects=message.cold_start_mode == control.REJECT,
            heartbeat_seconds=message.heartbeat_interval_ms / 1000 or DEFAULT_HEARTBEAT_SECONDS,
            heartbeat_mode=message.heartbeat_mode,
            auth_required=message.auth_required,
            digests=tuple(key.hmac_sha256 for key in message.keys),
            health_path=message.health_path,
            keeps_alive=message.http_keep_alive,
            endpoints=tuple(
                Endpoint(e.address, e.port, e.pod, e.pod_uid, e.ready, e.terminating)
                for e in message.endpoints
                if _is_address(e.address) and 0 < e.port < 65_536
            ),
            phase=message.phase,
            problem=message.problem,
            created_at=message.created_at,
            message=message,
        )


def _is_address(text: str) -> bool:
    """True for a pod's IP. Anything else would become part of a URL."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True

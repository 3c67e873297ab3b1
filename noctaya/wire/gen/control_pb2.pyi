from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ColdStartMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    KEEPALIVE: _ClassVar[ColdStartMode]
    REJECT: _ClassVar[ColdStartMode]

class HeartbeatMode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    COMMENT: _ClassVar[HeartbeatMode]
    CHUNK: _ClassVar[HeartbeatMode]
    PROGRESS: _ClassVar[HeartbeatMode]
    OFF: _ClassVar[HeartbeatMode]
KEEPALIVE: ColdStartMode
REJECT: ColdStartMode
COMMENT: HeartbeatMode
CHUNK: HeartbeatMode
PROGRESS: HeartbeatMode
OFF: HeartbeatMode

class GatewayMessage(_message.Message):
    __slots__ = ("hello", "demand", "wake", "ack", "nack", "bye")
    HELLO_FIELD_NUMBER: _ClassVar[int]
    DEMAND_FIELD_NUMBER: _ClassVar[int]
    WAKE_FIELD_NUMBER: _ClassVar[int]
    ACK_FIELD_NUMBER: _ClassVar[int]
    NACK_FIELD_NUMBER: _ClassVar[int]
    BYE_FIELD_NUMBER: _ClassVar[int]
    hello: Hello
    demand: DemandReport
    wake: Wake
    ack: Ack
    nack: Nack
    bye: Bye
    def __init__(self, hello: _Optional[_Union[Hello, _Mapping]] = ..., demand: _Optional[_Union[DemandReport, _Mapping]] = ..., wake: _Optional[_Union[Wake, _Mapping]] = ..., ack: _Optional[_Union[Ack, _Mapping]] = ..., nack: _Optional[_Union[Nack, _Mapping]] = ..., bye: _Optional[_Union[Bye, _Mapping]] = ...) -> None: ...

class Hello(_message.Message):
    __slots__ = ("namespace", "pod", "boot_id", "version", "fleet", "known")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    BOOT_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    FLEET_FIELD_NUMBER: _ClassVar[int]
    KNOWN_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    pod: str
    boot_id: str
    version: str
    fleet: str
    known: _containers.RepeatedCompositeFieldContainer[ShardVersion]
    def __init__(self, namespace: _Optional[str] = ..., pod: _Optional[str] = ..., boot_id: _Optional[str] = ..., version: _Optional[str] = ..., fleet: _Optional[str] = ..., known: _Optional[_Iterable[_Union[ShardVersion, _Mapping]]] = ...) -> None: ...

class ShardVersion(_message.Message):
    __slots__ = ("shard", "epoch", "version")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    shard: int
    epoch: int
    version: int
    def __init__(self, shard: _Optional[int] = ..., epoch: _Optional[int] = ..., version: _Optional[int] = ...) -> None: ...

class DemandReport(_message.Message):
    __slots__ = ("sequence", "services")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SERVICES_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    services: _containers.RepeatedCompositeFieldContainer[ServiceDemand]
    def __init__(self, sequence: _Optional[int] = ..., services: _Optional[_Iterable[_Union[ServiceDemand, _Mapping]]] = ...) -> None: ...

class ServiceDemand(_message.Message):
    __slots__ = ("namespace", "name", "pending", "lease_remaining_ms", "epoch_known")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PENDING_FIELD_NUMBER: _ClassVar[int]
    LEASE_REMAINING_MS_FIELD_NUMBER: _ClassVar[int]
    EPOCH_KNOWN_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    pending: int
    lease_remaining_ms: int
    epoch_known: int
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., pending: _Optional[int] = ..., lease_remaining_ms: _Optional[int] = ..., epoch_known: _Optional[int] = ...) -> None: ...

class Wake(_message.Message):
    __slots__ = ("sequence", "service", "wake_id")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    WAKE_ID_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    service: ServiceDemand
    wake_id: int
    def __init__(self, sequence: _Optional[int] = ..., service: _Optional[_Union[ServiceDemand, _Mapping]] = ..., wake_id: _Optional[int] = ...) -> None: ...

class Ack(_message.Message):
    __slots__ = ("shard", "epoch", "version")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    shard: int
    epoch: int
    version: int
    def __init__(self, shard: _Optional[int] = ..., epoch: _Optional[int] = ..., version: _Optional[int] = ...) -> None: ...

class Nack(_message.Message):
    __slots__ = ("shard", "epoch", "version", "reason", "detail")
    class Reason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNSPECIFIED: _ClassVar[Nack.Reason]
        STALE_EPOCH: _ClassVar[Nack.Reason]
        VERSION_GAP: _ClassVar[Nack.Reason]
        INVALID: _ClassVar[Nack.Reason]
    UNSPECIFIED: Nack.Reason
    STALE_EPOCH: Nack.Reason
    VERSION_GAP: Nack.Reason
    INVALID: Nack.Reason
    SHARD_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DETAIL_FIELD_NUMBER: _ClassVar[int]
    shard: int
    epoch: int
    version: int
    reason: Nack.Reason
    detail: str
    def __init__(self, shard: _Optional[int] = ..., epoch: _Optional[int] = ..., version: _Optional[int] = ..., reason: _Optional[_Union[Nack.Reason, str]] = ..., detail: _Optional[str] = ...) -> None: ...

class Bye(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WorkerMessage(_message.Message):
    __slots__ = ("welcome", "shard", "wake_ack", "workers", "drain")
    WELCOME_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    WAKE_ACK_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    DRAIN_FIELD_NUMBER: _ClassVar[int]
    welcome: Welcome
    shard: ShardUpdate
    wake_ack: WakeAck
    workers: Workers
    drain: Drain
    def __init__(self, welcome: _Optional[_Union[Welcome, _Mapping]] = ..., shard: _Optional[_Union[ShardUpdate, _Mapping]] = ..., wake_ack: _Optional[_Union[WakeAck, _Mapping]] = ..., workers: _Optional[_Union[Workers, _Mapping]] = ..., drain: _Optional[_Union[Drain, _Mapping]] = ...) -> None: ...

class Welcome(_message.Message):
    __slots__ = ("fleet", "worker", "shard_count", "hash", "key_digest_secret", "policy")
    FLEET_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    SHARD_COUNT_FIELD_NUMBER: _ClassVar[int]
    HASH_FIELD_NUMBER: _ClassVar[int]
    KEY_DIGEST_SECRET_FIELD_NUMBER: _ClassVar[int]
    POLICY_FIELD_NUMBER: _ClassVar[int]
    fleet: str
    worker: str
    shard_count: int
    hash: str
    key_digest_secret: bytes
    policy: FleetPolicy
    def __init__(self, fleet: _Optional[str] = ..., worker: _Optional[str] = ..., shard_count: _Optional[int] = ..., hash: _Optional[str] = ..., key_digest_secret: _Optional[bytes] = ..., policy: _Optional[_Union[FleetPolicy, _Mapping]] = ...) -> None: ...

class FleetPolicy(_message.Message):
    __slots__ = ("open_namespaces",)
    OPEN_NAMESPACES_FIELD_NUMBER: _ClassVar[int]
    open_namespaces: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, open_namespaces: _Optional[_Iterable[str]] = ...) -> None: ...

class ShardUpdate(_message.Message):
    __slots__ = ("fleet", "shard", "epoch", "version", "base_version", "services", "removed")
    FLEET_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    BASE_VERSION_FIELD_NUMBER: _ClassVar[int]
    SERVICES_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    fleet: str
    shard: int
    epoch: int
    version: int
    base_version: int
    services: _containers.RepeatedCompositeFieldContainer[Service]
    removed: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, fleet: _Optional[str] = ..., shard: _Optional[int] = ..., epoch: _Optional[int] = ..., version: _Optional[int] = ..., base_version: _Optional[int] = ..., services: _Optional[_Iterable[_Union[Service, _Mapping]]] = ..., removed: _Optional[_Iterable[str]] = ...) -> None: ...

class Service(_message.Message):
    __slots__ = ("namespace", "name", "uid", "generation", "hostnames", "aliases", "served_model_name", "inference_paths", "max_queue", "max_body_bytes", "queue_timeout_ms", "activation_timeout_ms", "cold_start_mode", "heartbeat_interval_ms", "heartbeat_mode", "auth_required", "keys", "health_path", "http_keep_alive", "endpoints", "phase", "problem", "created_at")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    UID_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    HOSTNAMES_FIELD_NUMBER: _ClassVar[int]
    ALIASES_FIELD_NUMBER: _ClassVar[int]
    SERVED_MODEL_NAME_FIELD_NUMBER: _ClassVar[int]
    INFERENCE_PATHS_FIELD_NUMBER: _ClassVar[int]
    MAX_QUEUE_FIELD_NUMBER: _ClassVar[int]
    MAX_BODY_BYTES_FIELD_NUMBER: _ClassVar[int]
    QUEUE_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    ACTIVATION_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    COLD_START_MODE_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_INTERVAL_MS_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_MODE_FIELD_NUMBER: _ClassVar[int]
    AUTH_REQUIRED_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    HEALTH_PATH_FIELD_NUMBER: _ClassVar[int]
    HTTP_KEEP_ALIVE_FIELD_NUMBER: _ClassVar[int]
    ENDPOINTS_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    uid: str
    generation: int
    hostnames: _containers.RepeatedScalarFieldContainer[str]
    aliases: _containers.RepeatedScalarFieldContainer[str]
    served_model_name: str
    inference_paths: _containers.RepeatedScalarFieldContainer[str]
    max_queue: int
    max_body_bytes: int
    queue_timeout_ms: int
    activation_timeout_ms: int
    cold_start_mode: ColdStartMode
    heartbeat_interval_ms: int
    heartbeat_mode: HeartbeatMode
    auth_required: bool
    keys: _containers.RepeatedCompositeFieldContainer[KeyDigest]
    health_path: str
    http_keep_alive: bool
    endpoints: _containers.RepeatedCompositeFieldContainer[Endpoint]
    phase: str
    problem: str
    created_at: int
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., uid: _Optional[str] = ..., generation: _Optional[int] = ..., hostnames: _Optional[_Iterable[str]] = ..., aliases: _Optional[_Iterable[str]] = ..., served_model_name: _Optional[str] = ..., inference_paths: _Optional[_Iterable[str]] = ..., max_queue: _Optional[int] = ..., max_body_bytes: _Optional[int] = ..., queue_timeout_ms: _Optional[int] = ..., activation_timeout_ms: _Optional[int] = ..., cold_start_mode: _Optional[_Union[ColdStartMode, str]] = ..., heartbeat_interval_ms: _Optional[int] = ..., heartbeat_mode: _Optional[_Union[HeartbeatMode, str]] = ..., auth_required: _Optional[bool] = ..., keys: _Optional[_Iterable[_Union[KeyDigest, _Mapping]]] = ..., health_path: _Optional[str] = ..., http_keep_alive: _Optional[bool] = ..., endpoints: _Optional[_Iterable[_Union[Endpoint, _Mapping]]] = ..., phase: _Optional[str] = ..., problem: _Optional[str] = ..., created_at: _Optional[int] = ...) -> None: ...

class KeyDigest(_message.Message):
    __slots__ = ("name", "hmac_sha256")
    NAME_FIELD_NUMBER: _ClassVar[int]
    HMAC_SHA256_FIELD_NUMBER: _ClassVar[int]
    name: str
    hmac_sha256: bytes
    def __init__(self, name: _Optional[str] = ..., hmac_sha256: _Optional[bytes] = ...) -> None: ...

class Endpoint(_message.Message):
    __slots__ = ("address", "port", "pod", "pod_uid", "ready", "terminating")
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    PORT_FIELD_NUMBER: _ClassVar[int]
    POD_FIELD_NUMBER: _ClassVar[int]
    POD_UID_FIELD_NUMBER: _ClassVar[int]
    READY_FIELD_NUMBER: _ClassVar[int]
    TERMINATING_FIELD_NUMBER: _ClassVar[int]
    address: str
    port: int
    pod: str
    pod_uid: str
    ready: bool
    terminating: bool
    def __init__(self, address: _Optional[str] = ..., port: _Optional[int] = ..., pod: _Optional[str] = ..., pod_uid: _Optional[str] = ..., ready: _Optional[bool] = ..., terminating: _Optional[bool] = ...) -> None: ...

class WakeAck(_message.Message):
    __slots__ = ("wake_id", "is_owner")
    WAKE_ID_FIELD_NUMBER: _ClassVar[int]
    IS_OWNER_FIELD_NUMBER: _ClassVar[int]
    wake_id: int
    is_owner: bool
    def __init__(self, wake_id: _Optional[int] = ..., is_owner: _Optional[bool] = ...) -> None: ...

class Workers(_message.Message):
    __slots__ = ("workers",)
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    workers: _containers.RepeatedCompositeFieldContainer[WorkerAddress]
    def __init__(self, workers: _Optional[_Iterable[_Union[WorkerAddress, _Mapping]]] = ...) -> None: ...

class WorkerAddress(_message.Message):
    __slots__ = ("name", "address")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    name: str
    address: str
    def __init__(self, name: _Optional[str] = ..., address: _Optional[str] = ...) -> None: ...

class Drain(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

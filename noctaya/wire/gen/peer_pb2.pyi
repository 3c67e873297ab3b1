from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Note(_message.Message):
    __slots__ = ("fleet", "sender", "receiver", "prepare", "prepared", "state", "owned", "resign", "resigned", "ask_epoch", "epoch", "probe")
    FLEET_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    RECEIVER_FIELD_NUMBER: _ClassVar[int]
    PREPARE_FIELD_NUMBER: _ClassVar[int]
    PREPARED_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    OWNED_FIELD_NUMBER: _ClassVar[int]
    RESIGN_FIELD_NUMBER: _ClassVar[int]
    RESIGNED_FIELD_NUMBER: _ClassVar[int]
    ASK_EPOCH_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    PROBE_FIELD_NUMBER: _ClassVar[int]
    fleet: str
    sender: str
    receiver: str
    prepare: Prepare
    prepared: Prepared
    state: ShardState
    owned: Owned
    resign: Resign
    resigned: Resigned
    ask_epoch: AskEpoch
    epoch: Epoch
    probe: Probe
    def __init__(self, fleet: _Optional[str] = ..., sender: _Optional[str] = ..., receiver: _Optional[str] = ..., prepare: _Optional[_Union[Prepare, _Mapping]] = ..., prepared: _Optional[_Union[Prepared, _Mapping]] = ..., state: _Optional[_Union[ShardState, _Mapping]] = ..., owned: _Optional[_Union[Owned, _Mapping]] = ..., resign: _Optional[_Union[Resign, _Mapping]] = ..., resigned: _Optional[_Union[Resigned, _Mapping]] = ..., ask_epoch: _Optional[_Union[AskEpoch, _Mapping]] = ..., epoch: _Optional[_Union[Epoch, _Mapping]] = ..., probe: _Optional[_Union[Probe, _Mapping]] = ...) -> None: ...

class Receipt(_message.Message):
    __slots__ = ("is_heard",)
    IS_HEARD_FIELD_NUMBER: _ClassVar[int]
    is_heard: bool
    def __init__(self, is_heard: _Optional[bool] = ...) -> None: ...

class Prepare(_message.Message):
    __slots__ = ("shard",)
    SHARD_FIELD_NUMBER: _ClassVar[int]
    shard: int
    def __init__(self, shard: _Optional[int] = ...) -> None: ...

class Prepared(_message.Message):
    __slots__ = ("shard",)
    SHARD_FIELD_NUMBER: _ClassVar[int]
    shard: int
    def __init__(self, shard: _Optional[int] = ...) -> None: ...

class ShardState(_message.Message):
    __slots__ = ("shard", "epoch", "services")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SERVICES_FIELD_NUMBER: _ClassVar[int]
    shard: int
    epoch: int
    services: _containers.RepeatedCompositeFieldContainer[ServiceState]
    def __init__(self, shard: _Optional[int] = ..., epoch: _Optional[int] = ..., services: _Optional[_Iterable[_Union[ServiceState, _Mapping]]] = ...) -> None: ...

class ServiceState(_message.Message):
    __slots__ = ("namespace", "name", "at_least", "idle_ms")
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    AT_LEAST_FIELD_NUMBER: _ClassVar[int]
    IDLE_MS_FIELD_NUMBER: _ClassVar[int]
    namespace: str
    name: str
    at_least: int
    idle_ms: int
    def __init__(self, namespace: _Optional[str] = ..., name: _Optional[str] = ..., at_least: _Optional[int] = ..., idle_ms: _Optional[int] = ...) -> None: ...

class Owned(_message.Message):
    __slots__ = ("shard", "holder", "epoch", "version")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    shard: int
    holder: str
    epoch: int
    version: str
    def __init__(self, shard: _Optional[int] = ..., holder: _Optional[str] = ..., epoch: _Optional[int] = ..., version: _Optional[str] = ...) -> None: ...

class Resign(_message.Message):
    __slots__ = ("shard", "epoch")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    shard: int
    epoch: int
    def __init__(self, shard: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class Resigned(_message.Message):
    __slots__ = ("shard", "epoch")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    shard: int
    epoch: int
    def __init__(self, shard: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class AskEpoch(_message.Message):
    __slots__ = ("shard",)
    SHARD_FIELD_NUMBER: _ClassVar[int]
    shard: int
    def __init__(self, shard: _Optional[int] = ...) -> None: ...

class Epoch(_message.Message):
    __slots__ = ("shard", "epoch")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    shard: int
    epoch: int
    def __init__(self, shard: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class Probe(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class Question(_message.Message):
    __slots__ = ("fleet", "epoch_known", "namespace", "name", "about", "target", "hold_ms")
    class About(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
        __slots__ = ()
        UNSPECIFIED: _ClassVar[Question.About]
        ACTIVE: _ClassVar[Question.About]
        DEMAND: _ClassVar[Question.About]
    UNSPECIFIED: Question.About
    ACTIVE: Question.About
    DEMAND: Question.About
    FLEET_FIELD_NUMBER: _ClassVar[int]
    EPOCH_KNOWN_FIELD_NUMBER: _ClassVar[int]
    NAMESPACE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ABOUT_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    HOLD_MS_FIELD_NUMBER: _ClassVar[int]
    fleet: str
    epoch_known: int
    namespace: str
    name: str
    about: Question.About
    target: float
    hold_ms: int
    def __init__(self, fleet: _Optional[str] = ..., epoch_known: _Optional[int] = ..., namespace: _Optional[str] = ..., name: _Optional[str] = ..., about: _Optional[_Union[Question.About, str]] = ..., target: _Optional[float] = ..., hold_ms: _Optional[int] = ...) -> None: ...

class Answer(_message.Message):
    __slots__ = ("is_active", "demand", "silence", "stranger", "wrong_owner")
    IS_ACTIVE_FIELD_NUMBER: _ClassVar[int]
    DEMAND_FIELD_NUMBER: _ClassVar[int]
    SILENCE_FIELD_NUMBER: _ClassVar[int]
    STRANGER_FIELD_NUMBER: _ClassVar[int]
    WRONG_OWNER_FIELD_NUMBER: _ClassVar[int]
    is_active: bool
    demand: int
    silence: str
    stranger: Stranger
    wrong_owner: WrongOwner
    def __init__(self, is_active: _Optional[bool] = ..., demand: _Optional[int] = ..., silence: _Optional[str] = ..., stranger: _Optional[_Union[Stranger, _Mapping]] = ..., wrong_owner: _Optional[_Union[WrongOwner, _Mapping]] = ...) -> None: ...

class Stranger(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class WrongOwner(_message.Message):
    __slots__ = ("epoch",)
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    def __init__(self, epoch: _Optional[int] = ...) -> None: ...

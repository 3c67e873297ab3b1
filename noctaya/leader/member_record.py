"""What a worker says about itself in the annotations of its member Lease.

`MemberRecord` is written by its worker with every renewal; only a fence replaces it (`fenced`). Annotations that are not ours
(an operator's wishes, somebody's notes) are never touched: `annotate` returns them unchanged.

Bounds: everybody in the fleet keeps everybody's record, so texts are short and numbers finite. A record that breaks them is
refused with the annotation's name (`MemberRecordInvalid`); its Lease still counts as seen, whoever holds it, and the last
record that could be read stays in force.
"""

from __future__ import annotations

import math
from enum import Enum
from typing import Final

import msgspec

from noctaya.api.names import GROUP, SHARD_COUNT
from noctaya.leader.errors import MemberRecordInvalid

MAX_TEXT: Final = 253
MAX_CAPACITY: Final = 100.0
MIN_CAPACITY: Final = 0.01
MAX_NUMBER: Final = 2**53


class MemberState(Enum):
    """Where in its life an incarnation is."""

    JOINING = "Joining"
    """Its caches are filling: it owns nothing yet."""
    READY = "Ready"
    """Warm for every shard."""
    DRAINING = "Draining"
    """It was told to end and hands over what it has."""
    LEFT = "Left"
    """It has ended cleanly; nobody holds its Lease."""
    FENCED = "Fenced"
    """Somebody else ended it; nobody holds its Lease."""


class MemberRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One incarnation's words about itself; the defaults are what an absent annotation means."""

    state: MemberState = MemberState.JOINING
    address: str = ""
    """`host:port` of its control gRPC."""
    version: str = ""
    """What a rollout replaces: the product's version and the pod template's hash, `0.1.0+5d8f7c`."""
    zone: str = ""
    container: str = ""
    """The id of the container that this incarnation runs in, or empty while it does not know. It is the only thing that ties
    a kubelet's word "this container has ended" to an incarnation, so it is written only when it is certain."""
    capacity: float = 1.0
    """Its weight: twice as much gets twice the shards."""
    load: float = 0.0
    """Moving average over a minute, of 1.0 = one core busy. Shown; it decides nothing yet."""
    shards: int = 0
    saw_map: int = 0
    """The generation of the newest ShardMap it obeys."""
    reason: str = ""
    """Why it was fenced, and by whom; empty otherwise."""

    def annotate(self, annotations: dict[str, str]) -> dict[str, str]:
        """`annotations` with this record in place of the one that they held; the rest is kept."""
        kept = {name: value for name, value in annotations.items() if name not in _NAMES.values()}
        return kept | {_NAMES[name]: text for name, text in _texts(self).items() if text}

    def fenced(self, reason: str) -> MemberRecord:
        """This record as a fence leaves it."""
        return msgspec.structs.replace(self, state=MemberState.FENCED, shards=0, reason=reason[:MAX_TEXT])


def read_record(annotations: dict[str, str]) -> MemberRecord:
    """The record in `annotations`.

    Raises:
        MemberRecordInvalid: an annotation of ours is not what it should be.
    """
    found: dict[str, object] = {}
    for field in msgspec.structs.fields(MemberRecord):
        text = annotations.get(_NAMES[field.name])
        if text is not None:
            found[field.name] = _read(field.name, text)
    record = msgspec.convert(found, MemberRecord)
    _check(record)
    return record


_NAMES: Final = {
    field.name: f"{GROUP}/{field.name.replace('_', '-')}" for field in msgspec.structs.fields(MemberRecord)
}
_LIMITS: Final = {
    "capacity": (MIN_CAPACITY, MAX_CAPACITY),
    "load": (0.0, 1e6),
    "shards": (0, SHARD_COUNT),
    "saw_map": (0, MAX_NUMBER),
}


def _texts(record: MemberRecord) -> dict[str, str]:
    _check(record)
    plain = {name: getattr(record, name) for name in _NAMES}
    return plain | {
        "state": record.state.value,
        "capacity": f"{record.capacity:g}",
        "load": f"{record.load:.3g}",
        "shards": str(record.shards),
        "saw_map": str(record.saw_map),
    }


def _read(name: str, text: str) -> object:
    if len(text) > MAX_TEXT:
        raise MemberRecordInvalid(_NAMES[name], f"is longer than {MAX_TEXT} characters")
    try:
        match name:
            case "state":
                MemberState(text)
                return text
            case "capacity" | "load":
                return float(text)
            case "shards" | "saw_map":
                return int(text)
            case _:
                return text
    except ValueError as error:
        raise MemberRecordInvalid(_NAMES[name], f"cannot be {text!r}") from error


def _check(record: MemberRecord) -> None:
    for name, (low, high) in _LIMITS.items():
        value = getattr(record, name)
        if not (math.isfinite(value) and low <= value <= high):
            raise MemberRecordInvalid(_NAMES[name], f"must be from {low} to {high}, not {value}")
    for name in ("address", "version", "zone", "container", "reason"):
        text = getattr(record, name)
        if len(text) > MAX_TEXT or not (text.isprintable() or not text):
            raise MemberRecordInvalid(_NAMES[name], f"must be at most {MAX_TEXT} printable characters")

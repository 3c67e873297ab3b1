"""The ShardMap: which pod should own each shard, written by the leader alone and obeyed by everybody.

It names *pods* (what is desired); the shard Leases name *incarnations* (what is), so a worker that restarts in place needs no
new map. A map is either unassigned (a fleet just founded) or complete: every shard has exactly one owner (I3).

Invariant (I2): along the maps that a reader obeys, generation rises and leader epoch never falls; `supersedes` is the one
place that decides it. Reading is strict: a count, a hash, a number or a name that cannot be right refuses the whole map
(`ShardMapInvalid` says what is wrong), because half a map would leave shards to nobody. An owner that nobody knows is *not*
an error here: it may have died a moment ago, and the leader re-homes its shards (F24).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, TypeVar

import msgspec

from noctaya.api.names import HASH_NAME, SHARD_COUNT
from noctaya.leader.errors import ShardMapForeign, ShardMapInvalid
from noctaya.leader.tenure import HIGHEST_CLAIM, HIGHEST_LEAP

MAX_BYTES: Final = 256 * 1024
"""Of all keys and values together. 128 of the longest names take 34 KiB; the API server itself stops at 1 MiB."""
MAX_LISTED: Final = 1000
"""Pods in one of the lists."""
MAX_REASON: Final = 500
MAX_GENERATION: Final = 2**53

_T = TypeVar("_T")

_POD_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?")
_SHARD: Final = re.compile(r"0|[1-9][0-9]{0,2}")
_NUMBER: Final = re.compile(r"0|[1-9][0-9]{0,15}")


class ShardMap(msgspec.Struct, frozen=True, kw_only=True):
    """One generation of the map. Pods in `draining`, `cordoned` and `frozen` are told for people; `desired` alone binds."""

    generation: int = 0
    leader_epoch: int = 0
    desired: tuple[str, ...] = ()
    """The pod per shard: `SHARD_COUNT` names, or none at all before the first assignment."""
    draining: tuple[str, ...] = ()
    cordoned: tuple[str, ...] = ()
    frozen: bool = False
    reason: str = ""
    """Why this generation was written."""

    def owner(self, shard: int) -> str | None:
        """The pod that should own `shard`; None before the first assignment."""
        return self.desired[shard] if self.desired else None

    def shards_of(self, pod: str) -> list[int]:
        """The shards that `pod` should own."""
        return [shard for shard, owner in enumerate(self.desired) if owner == pod]

    def supersedes(self, other: ShardMap | None) -> bool:
        """Whether who obeys `other` may go on to obey this map (I2)."""
        if other is None:
            return True
        return self.generation > other.generation and self.leader_epoch >= other.leader_epoch

    def is_same_plan_as(self, other: ShardMap) -> bool:
        """Whether only generation, leader or reason differ: nothing that anybody would do differently."""
        return (self.desired, self.draining, self.cordoned, self.frozen) == (
            other.desired,
            other.draining,
            other.cordoned,
            other.frozen,
        )

    def data(self) -> dict[str, str]:
        """What stands in the ConfigMap. Raises ShardMapInvalid: a map that readers would refuse is never written."""
        data = {
            "shards": str(SHARD_COUNT),
            "hash": HASH_NAME,
            "generation": str(self.generation),
            "leaderEpoch": str(self.leader_epoch),
            "desired": _json({str(shard): owner for shard, owner in enumerate(self.desired)}),
            "draining": _json(self.draining),
            "cordoned": _json(self.cordoned),
            "frozen": "true" if self.frozen else "false",
            "reason": self.reason[:MAX_REASON],
        }
        read_map(data)
        return data


def read_map(data: dict[str, str]) -> ShardMap:
    """The map in a ConfigMap's `data`; absent keys beyond `shards` and `hash` are those of a fleet just founded.

    Raises:
        ShardMapForeign: another shard count or hash.
        ShardMapInvalid: anything else that cannot be obeyed.
    """
    if sum(len(key.encode()) + len(value.encode()) for key, value in data.items()) > MAX_BYTES:
        raise ShardMapInvalid(f"it is larger than {MAX_BYTES} bytes")
    for key, wanted in (("shards", str(SHARD_COUNT)), ("hash", HASH_NAME)):
        if data.get(key) != wanted:
            raise ShardMapForeign(f"{key} is {data.get(key)!r}, and this worker's is {wanted!r}")
    frozen = data.get("frozen", "false")
    if frozen not in ("true", "false"):
        raise ShardMapInvalid(f"frozen is {frozen[:40]!r}, neither true nor false")
    reason = data.get("reason", "")
    if len(reason) > MAX_REASON:
        raise ShardMapInvalid(f"reason is longer than {MAX_REASON} characters")
    return ShardMap(
        generation=_number(data, "generation", MAX_GENERATION),
        leader_epoch=_number(data, "leaderEpoch", HIGHEST_CLAIM + HIGHEST_LEAP),
        desired=_desired(data.get("desired", "{}")),
        draining=_pods(data, "draining"),
        cordoned=_pods(data, "cordoned"),
        frozen=frozen == "true",
        reason=reason,
    )


def _desired(text: str) -> tuple[str, ...]:
    found = _decoded("desired", text, dict[str, str])
    if not found:
        return ()
    strange = [key for key in found if not (_SHARD.fullmatch(key) and int(key) < SHARD_COUNT)]
    if strange:
        raise ShardMapInvalid(f"desired names shards that do not exist: {_few(strange)}")
    missing = [str(shard) for shard in range(SHARD_COUNT) if str(shard) not in found]
    if missing:
        raise ShardMapInvalid(f"desired leaves shards to nobody: {_few(missing)}")
    _check_names("desired", found.values())
    return tuple(found[str(shard)] for shard in range(SHARD_COUNT))


def _pods(data: dict[str, str], key: str) -> tuple[str, ...]:
    found = _decoded(key, data.get(key, "[]"), tuple[str, ...])
    if len(found) > MAX_LISTED:
        raise ShardMapInvalid(f"{key} lists more than {MAX_LISTED} pods")
    _check_names(key, found)
    return found


def _check_names(key: str, names: Iterable[str]) -> None:
    strange = sorted({name for name in names if not _POD_NAME.fullmatch(name)})
    if strange:
        raise ShardMapInvalid(f"{key} has names that no pod can have: {_few(strange)}")


def _number(data: dict[str, str], key: str, highest: int) -> int:
    text = data.get(key, "0")
    if not _NUMBER.fullmatch(text) or int(text) > highest:
        raise ShardMapInvalid(f"{key} is {text[:40]!r}, not a number from 0 to {highest}")
    return int(text)


def _few(names: list[str]) -> str:
    shown = ", ".join(repr(name[:40]) for name in names[:5])
    return shown if len(names) <= 5 else f"{shown} and {len(names) - 5} more"


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _decoded(key: str, text: str, into: type[_T]) -> _T:
    try:
        return msgspec.json.decode(text, type=into)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ShardMapInvalid(f"{key} is not the JSON it should be: {error}") from error

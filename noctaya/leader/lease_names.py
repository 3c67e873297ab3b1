"""What the fleet's Leases, labels and annotations are called, and how an incarnation's name is read.

A member Lease is named for its pod, a shard Lease for its number, so that whoever needs one can ask for it without a list.
An incarnation is `<pod>_<first 8 of the pod's uid>_<nonce>` (`tenure.Identity`); a pod's name has no underscore.
"""

from __future__ import annotations

from typing import Final

from noctaya.api.names import GROUP, SHARD_COUNT

LEADER_LEASE: Final = "noctaya-leader"
SHARDMAP: Final = "noctaya-shardmap"
"""The ConfigMap with the desired owners; its uid is the fleet id."""
MEMBER_PREFIX: Final = "noctaya-worker-"
SHARD_PREFIX: Final = "noctaya-shard-"
LABEL_ROLE: Final = f"{GROUP}/role"
ROLE_LEADER: Final = "leader"
ROLE_MEMBER: Final = "member"
ROLE_SHARD: Final = "shard"

ANNOTATION_CORDON: Final = f"{GROUP}/cordon"
"""An operator's wish on a member Lease: keeps what it has, gets nothing new."""
ANNOTATION_DRAIN: Final = f"{GROUP}/drain"
"""An operator's wish on a member Lease: hand everything over, and stay."""
ANNOTATION_FREEZE: Final = f"{GROUP}/freeze"
"""An operator's wish on the ShardMap: no rebalancing."""


def member_lease(pod: str) -> str:
    """The name of the member Lease of `pod`."""
    return MEMBER_PREFIX + pod


def pod_of_lease(name: str) -> str | None:
    """The pod whose member Lease is called `name`; None when that is no member Lease's name."""
    return name[len(MEMBER_PREFIX) :] if name.startswith(MEMBER_PREFIX) and name != MEMBER_PREFIX else None


def shard_lease(shard: int) -> str:
    """The name of the Lease that is the fencing record of `shard`."""
    return f"{SHARD_PREFIX}{shard:03d}"


def shard_of_lease(name: str) -> int | None:
    """The shard whose fencing record is called `name`; None when that is no such name, or a shard that cannot exist."""
    digits = name[len(SHARD_PREFIX) :] if name.startswith(SHARD_PREFIX) else ""
    if not (digits.isascii() and digits.isdigit()):
        return None
    shard = int(digits) if len(digits) <= 3 else SHARD_COUNT
    return shard if shard < SHARD_COUNT and shard_lease(shard) == name else None


def pod_of_incarnation(incarnation: str) -> str:
    """The pod in which `incarnation` runs or ran; empty for nobody."""
    return incarnation.partition("_")[0]


def is_wished(annotations: dict[str, str], wish: str) -> bool:
    """Whether an operator's annotation `wish` says yes. Only `true` does; anything else, `false` included, is no wish."""
    return annotations.get(wish) == "true"

"""Rendezvous hashing: everybody who knows the names agrees, without a word, on who comes first for a key.

Highest random weight (Thaler and Ravishankar): each pair of key and name has a fixed score, and the highest wins; a name that
goes changes only the keys that it had. Used to choose *where* a shard goes, to rank candidates for leadership, and by a
worker that must hand over while nobody leads.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import xxhash

from noctaya.api.names import SHARD_COUNT


def score(key: str, name: str) -> int:
    """How much `name` is preferred for `key`: 64 bits, the same on every machine and in every version."""
    return xxhash.xxh3_64_intdigest(f"{key}/{name}".encode())


def ranked(key: str, names: Iterable[str]) -> list[str]:
    """`names`, the most preferred for `key` first."""
    return sorted(set(names), key=lambda name: (-score(key, name), name))


@lru_cache(maxsize=1024)
def shard_scores(name: str) -> tuple[int, ...]:
    """The score of `name` for each shard; the key of a shard is its number."""
    return tuple(score(str(shard), name) for shard in range(SHARD_COUNT))


def best_for_shard(shard: int, names: Iterable[str]) -> str | None:
    """Who of `names` is preferred for `shard`; None when there are none."""
    return max(names, key=lambda name: (shard_scores(name)[shard], name), default=None)

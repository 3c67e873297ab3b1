"""A fleet with fewer shards than 128: schedules with eight find the same mistakes in a tenth of the time.

The number is a constant of production code on purpose (nobody may change it), so it is replaced wherever it was imported.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from noctaya.leader.rendezvous import shard_scores


@contextmanager
def few_shards(count: int) -> Iterator[None]:
    """`SHARD_COUNT` is `count` in all of `noctaya.leader` meanwhile."""
    modules = [
        module
        for name, module in list(sys.modules.items())
        if name.startswith("noctaya.leader.") and hasattr(module, "SHARD_COUNT")
    ]
    before = [vars(module)["SHARD_COUNT"] for module in modules]
    for module in modules:
        vars(module)["SHARD_COUNT"] = count
    shard_scores.cache_clear()
    try:
        yield
    finally:
        for module, value in zip(modules, before, strict=True):
            vars(module)["SHARD_COUNT"] = value
        shard_scores.cache_clear()

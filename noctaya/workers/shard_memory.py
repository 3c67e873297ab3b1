"""What the owner of a shard knows of its services, for the heir who takes it over.

Every gateway tells every worker its demand, so an heir that has run for a while knows as much itself. One that has just
started does not, and until the last gateway has reported it would have to be silent. What it is told here bridges that.

Invariants: a memory only ever raises what its heir would tell. What its maker did not know for certain is left out: of a
service whose demand was *unknown* it says no number, for a number would stand in for the higher one that keeps a model's
replicas (`metric.held_value`). A lost or late memory costs a wait, never a wrong answer.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from noctaya.workers.demand import Demand, DemandBook, Unknown, seen_of
from noctaya.workers.recency import Recency

MAX_SERVICES: Final = 20_000
"""Of one memory. A shard has about eighty at ten thousand services."""


@dataclass(frozen=True, slots=True)
class ServiceMemory:
    """One service (`namespace/name`): its demand when it was last known, 0 for none or never known, and for how long no
    request has been under way."""

    key: str
    at_least: int
    idle_seconds: float


@dataclass(frozen=True, slots=True)
class ShardMemory:
    """What was known of `shard` when `epoch` ended; a service that it leaves out has nothing that is worth telling."""

    shard: int
    epoch: int
    services: tuple[ServiceMemory, ...] = ()


def memory_of(
    shard: int, epoch: int, keys: Iterable[str], book: DemandBook, recency: Recency, now: float
) -> ShardMemory:
    """What to hand over of `shard`, whose services are `keys`; those with demand first, should there be too many."""
    services = [memory for key in keys if (memory := _remember(key, book, recency, now)) is not None]
    services.sort(key=lambda memory: (-memory.at_least, memory.idle_seconds))
    return ShardMemory(shard, epoch, tuple(services[:MAX_SERVICES]))


def adopt(memory: ShardMemory, book: DemandBook, recency: Recency, now: float) -> None:
    """Take in what the former owner knew."""
    book.adopt({service.key: service.at_least for service in memory.services}, now)
    recency.adopt({service.key: service.idle_seconds for service in memory.services}, now)


def certain(demand: Demand) -> int:
    """The part of `demand` that another may go by."""
    return 0 if isinstance(demand, Unknown) else demand.value


def _remember(key: str, book: DemandBook, recency: Recency, now: float) -> ServiceMemory | None:
    demand = book.demand(key, now)
    idle = 0.0 if seen_of(demand) > 0 else recency.idle_seconds(key, now)
    return None if idle is None else ServiceMemory(key, certain(demand), idle)

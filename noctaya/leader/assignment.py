"""Which pod should own each shard: sticky bounded rendezvous hashing (sharding.md 2.8). Pure and deterministic.

Rendezvous decides *where* a shard goes, stickiness *whether* it goes. A worker's share is its weight's part of what the
cordoned do not keep; whole shards make that a floor and, for as many workers as there are shards left over, one more.
Capacity so defined is exactly what there is to place, so orphans and a drained worker's shards fit without moving any other.

Invariants (I3, I7), for any input in which somebody may own something:
- every shard has exactly one owner in the result, one of the workers given, unless nobody may receive and it had no owner;
- an owner that stays and is not over its limit keeps its shards; a cordoned worker keeps all and gets none;
- after balancing every open worker is within its share, give or take `slack`: with equal weights and no slack the fullest and
  the emptiest differ by at most 1. No more shards moved than that needs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from noctaya.api.names import SHARD_COUNT
from noctaya.leader.rendezvous import shard_scores


class Role(Enum):
    """What a worker is to the plan."""

    OPEN = "open"
    """Keeps and receives."""
    CORDONED = "cordoned"
    """Keeps, receives nothing."""
    DONOR = "donor"
    """To be emptied: it drains, or its pod is being deleted."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A worker that is alive, as the plan sees it."""

    pod: str
    role: Role = Role.OPEN
    weight: float = 1.0
    """Scales its share."""
    version: str = ""


@dataclass(frozen=True, slots=True)
class Share:
    """How many shards a worker should have: `floor`, or one more where shards are left over."""

    ideal: float
    floor: int
    ceiling: int


@dataclass(frozen=True, slots=True)
class Assignment:
    """A plan. `owners` has one entry a shard; None only when nobody may receive."""

    owners: tuple[str | None, ...]
    shares: Mapping[str, Share] = field(default_factory=dict)
    """Of the open workers."""

    def counts(self) -> dict[str, int]:
        """How many shards each owner has."""
        return count(self.owners)

    def moves_from(self, previous: Mapping[int, str | None]) -> list[int]:
        """The shards whose owner is another than in `previous`."""
        return [shard for shard, owner in enumerate(self.owners) if owner != previous.get(shard)]


def assign(
    previous: Mapping[int, str | None],
    workers: Sequence[Candidate],
    *,
    slack: int = 0,
    newest: str | None = None,
    is_balancing: bool = True,
) -> Assignment:
    """The plan that follows `previous` (owner per shard; absent or None: nobody) for these workers.

    `slack`: how far beyond its share a worker may stay; 1 right after a crash, so that few shards move while caches are cold.
    `newest`: during a rollout, the version whose workers receive before all others (F15: each shard moves once).
    `is_balancing`: False homes orphans and empties donors, and moves nothing else.
    """
    return _Plan(previous, workers, newest).solve(slack, is_balancing)


def shares(workers: Sequence[Candidate], shards: int) -> dict[str, Share]:
    """What each open worker should have when `shards` are to be shared among them."""
    open_ = [worker for worker in workers if worker.role is Role.OPEN]
    total = sum(worker.weight for worker in open_)
    result = {}
    for worker in open_:
        ideal = shards * worker.weight / total
        near = round(ideal)
        if math.isclose(ideal, near, abs_tol=1e-9):  # 128 * (0.1 / 0.4) is not exactly 32
            result[worker.pod] = Share(near, near, near)
        else:
            result[worker.pod] = Share(ideal, math.floor(ideal), math.ceil(ideal))
    return result


def count(owners: Sequence[str | None]) -> dict[str, int]:
    """How many shards each of `owners` has."""
    counts: dict[str, int] = {}
    for owner in owners:
        if owner is not None:
            counts[owner] = counts.get(owner, 0) + 1
    return counts


class _Plan:
    """One solution in the making."""

    def __init__(
        self, previous: Mapping[int, str | None], workers: Sequence[Candidate], newest: str | None
    ) -> None:
        self.workers = {worker.pod: worker for worker in sorted(workers, key=lambda worker: worker.pod)}
        self.newest = newest
        self.owners: list[str | None] = [self._keeper(previous.get(shard)) for shard in range(SHARD_COUNT)]
        self.previous = previous
        kept = sum(1 for owner in self.owners if owner and self.workers[owner].role is Role.CORDONED)
        self.shares = shares(workers, SHARD_COUNT - kept)
        self.counts = dict.fromkeys(self.shares, 0) | {
            pod: held for pod, held in count(self.owners).items() if pod in self.shares
        }
        self.extra = SHARD_COUNT - kept - sum(share.floor for share in self.shares.values())
        """How many workers may have one more than their floor."""

    def solve(self, slack: int, is_balancing: bool) -> Assignment:
        if not self.shares:
            return Assignment(tuple(self._fallback(shard) for shard in range(SHARD_COUNT)))
        self._home_orphans()
        if is_balancing:
            self._balance(slack)
        return Assignment(tuple(self.owners), self.shares)

    def _keeper(self, owner: str | None) -> str | None:
        """`owner`, if it may keep what it has."""
        worker = self.workers.get(owner) if owner is not None else None
        return worker.pod if worker is not None and worker.role is not Role.DONOR else None

    def _fallback(self, shard: int) -> str | None:
        """Nobody receives: a donor keeps what it has, for a draining owner is better than none."""
        owner = self.previous.get(shard)
        return owner if owner in self.workers else None

    def _home_orphans(self) -> None:
        for shard, owner in enumerate(self.owners):
            if owner is None:
                self._give(shard, self._receiver(shard))

    def _receiver(self, shard: int) -> str:
        """The most preferred worker with room; during a rollout the newest ones first.

        There is always one: room is what floors and `extra` leave, orphans are what owners leave of the same sum, and an owner
        above its share only makes the orphans fewer.
        """
        is_extra_left = sum(self.counts[pod] > share.floor for pod, share in self.shares.items()) < self.extra
        with_room = [
            pod
            for pod, share in self.shares.items()
            if self.counts[pod] < share.floor or (is_extra_left and self.counts[pod] < share.ceiling)
        ]
        chosen = [pod for pod in with_room if self.workers[pod].version == self.newest] or with_room
        return max(chosen, key=lambda pod: (shard_scores(pod)[shard], pod))

    def _balance(self, slack: int) -> None:
        """One shard at a time from who has most too many to who has most too few, while anybody is out of bounds."""
        while True:
            over = self._by_excess(self._over(slack))
            under = self._by_excess(self._under(slack))
            if not over and not under:
                return
            giver = over[-1] if over else self._by_excess(self._may_give())[-1]
            taker = under[0] if under else self._by_excess(self._may_take())[0]
            scores = shard_scores(taker)
            shard = max(
                (shard for shard, owner in enumerate(self.owners) if owner == giver),
                key=lambda shard: scores[shard],
            )
            self.counts[giver] -= 1
            self._give(shard, taker)

    def _over(self, slack: int) -> list[str]:
        return [pod for pod, share in self.shares.items() if self.counts[pod] > share.ceiling + slack]

    def _under(self, slack: int) -> list[str]:
        return [pod for pod, share in self.shares.items() if self.counts[pod] < share.floor - slack]

    def _may_give(self) -> list[str]:
        return [pod for pod, share in self.shares.items() if self.counts[pod] > share.floor]

    def _may_take(self) -> list[str]:
        return [pod for pod, share in self.shares.items() if self.counts[pod] < share.ceiling]

    def _by_excess(self, pods: list[str]) -> list[str]:
        return sorted(pods, key=lambda pod: (self.counts[pod] - self.shares[pod].ideal, pod))

    def _give(self, shard: int, pod: str) -> None:
        self.owners[shard] = pod
        self.counts[pod] += 1

"""The invariants (sharding.md 6.1), held after every step, and what was measured on the way."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from noctaya.leader.shard_map import ShardMap
from noctaya.workers.permission import Permission

if TYPE_CHECKING:
    from tests.sim.worker import Worker

ZERO_TOLERANCE = 12.5
"""Seconds: a report is believed for 10 s (`DemandBook.stale_after`) on a clock that may be a fifth slow."""


class Violation(AssertionError):
    """An invariant does not hold. `rule` is its name."""

    def __init__(self, rule: str, at: float, what: str) -> None:
        super().__init__(f"{rule} at {at:.3f}: {what}")
        self.rule = rule


@dataclass
class Figures:
    """Of one schedule, or of many."""

    effects: int = 0
    stale_refused: int = 0
    answers: Counter[str] = field(default_factory=Counter)
    takeovers: list[float] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    moves: int = 0
    fences: int = 0
    lease_writes: int = 0
    steps: int = 0

    def add(self, other: Figures) -> None:
        """Take the figures of another schedule in."""
        self.effects += other.effects
        self.stale_refused += other.stale_refused
        self.answers += other.answers
        self.takeovers += other.takeovers
        self.gaps += other.gaps
        self.moves += other.moves
        self.fences += other.fences
        self.lease_writes += other.lease_writes
        self.steps += other.steps


class Checker:
    """Told by the shells what began and ended; looks by itself at whoever might act while another owns."""

    def __init__(self, shards: int) -> None:
        self.now = 0.0
        self.figures = Figures()
        self._active: list[dict[Worker, int]] = [{} for _ in range(shards)]
        self._highest = [0] * shards
        self._acted = [0] * shards
        self._holder_of: dict[tuple[int, int], str] = {}
        self._contested: set[int] = set()
        self._recorded: dict[int, tuple[str, int]] = {}
        self._unowned: dict[int, tuple[float, bool]] = {}
        self._map: tuple[str, ShardMap] | None = None
        self._leader_epoch = 0

    # -- I1 ------------------------------------------------------------------------------------------------------------

    def started(self, worker: Worker, shard: int, epoch: int) -> None:
        """`worker` owns `shard` under `epoch` from now on."""
        incarnation = str(worker.membership.identity)
        if epoch < self._acted[shard]:
            self.fail("I1", f"{incarnation} owns shard {shard} under {epoch} after {self._acted[shard]}")
        self._highest[shard] = epoch
        self._active[shard][worker] = epoch
        if len(self._active[shard]) > 1:
            self._contested.add(shard)
        since, is_graceful = self._unowned.pop(shard, (self.now, True))
        if since < self.now:
            (self.figures.gaps if is_graceful else self.figures.takeovers).append(self.now - since)
            self.figures.moves += 1

    def stopped(self, worker: Worker, shard: int, *, is_graceful: bool) -> None:
        """`worker` does not own `shard` any more."""
        self._active[shard].pop(worker, None)
        if len(self._active[shard]) < 2:
            self._contested.discard(shard)
        if not self._active[shard]:
            self._unowned.setdefault(shard, (self.now, is_graceful))

    def ended(self, worker: Worker) -> None:
        """The process of `worker` is dead."""
        for shard, active in enumerate(self._active):
            if worker in active:
                self.stopped(worker, shard, is_graceful=False)

    def look(self) -> None:
        """Nobody acts for a shard under less than its highest epoch."""
        for shard in self._contested:
            for worker, epoch in self._active[shard].items():
                if epoch < self._highest[shard] and worker.permission(shard) is Permission.ACT:
                    self.fail(
                        "I1",
                        f"{worker.name} acts for shard {shard} under {epoch}, and {self._highest[shard]} is owned",
                    )

    def effect(self, worker: Worker, shard: int, epoch: int) -> None:
        """`worker` acts."""
        self.figures.effects += 1
        incarnation = str(worker.membership.identity)
        if epoch < self._acted[shard]:
            self.fail("I1", f"{incarnation} acted for shard {shard} under {epoch} after {self._acted[shard]}")
        self._acted[shard] = epoch
        if self._holder_of.setdefault((shard, epoch), incarnation) != incarnation:
            self.fail(
                "I1",
                f"both {self._holder_of[shard, epoch]} and {incarnation} acted for shard {shard} under {epoch}",
            )

    # -- I2 ------------------------------------------------------------------------------------------------------------

    def recorded(self, shard: int, holder: str, epoch: int) -> None:
        """The record of `shard` was written."""
        before = self._recorded.get(shard)
        if before is not None and before[0] != holder and epoch <= before[1]:
            self.fail("I2", f"shard {shard} went from {before} to {(holder, epoch)}")
        if (
            before is None
            and epoch <= self._acted[shard]
            and self._holder_of[shard, self._acted[shard]] != holder
        ):
            self.fail(
                "I2",
                f"a lost record of shard {shard} was made anew under {epoch}; {self._acted[shard]} was acted under",
            )
        self._recorded[shard] = (holder, epoch)

    def lost(self, shard: int) -> None:
        """The record of `shard` was deleted: an epoch that nobody has acted under may come again."""
        self._recorded.pop(shard, None)

    def mapped(self, fleet: str, map_: ShardMap) -> None:
        """The ShardMap was written (I2, I3)."""
        before = self._map
        if before is not None and before[0] == fleet and not map_.supersedes(before[1]):
            self.fail(
                "I2",
                f"map generation {map_.generation} of leader {map_.leader_epoch} follows {before[1].generation}",
            )
        if map_.desired and not all(map_.desired):
            self.fail("I3", f"generation {map_.generation} leaves a shard to nobody")
        self._map = (fleet, map_)
        self._leader_epoch = max(self._leader_epoch, map_.leader_epoch)

    def fenced(self, by: str, epoch: int) -> None:
        """A leader under `epoch` fenced somebody: the map must carry that epoch, or it was not claimed."""
        self.figures.fences += 1
        if self._map is not None and self._map[1].leader_epoch < epoch:
            self.fail("F13", f"{by} fenced under leader epoch {epoch} and had not claimed the map")

    # -- I4, I5 --------------------------------------------------------------------------------------------------------

    def configured(self, gateway: str, before: tuple[int, int], after: tuple[int, int]) -> None:
        """A gateway took a config for a shard."""
        if after < before:
            self.fail("I4", f"gateway {gateway} went from {before} back to {after}")

    def answered(self, by: str, service: str, answer: str, waiting_for: float | None) -> None:
        """KEDA was told `answer` about `service`, for which a client has been waiting so long (None: nobody waits)."""
        self.figures.answers[answer] += 1
        if answer == "false" and waiting_for is not None and waiting_for > ZERO_TOLERANCE:
            self.fail(
                "I5",
                f"{by} said that {service} is inactive; a client has been waiting for {waiting_for:.1f} s",
            )

    def fail(self, rule: str, what: str) -> None:
        raise Violation(rule, self.now, what)

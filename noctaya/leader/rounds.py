"""How much of a plan is asked for now: moves in rounds, so that never too much is under way.

A shard is *in flight* from the map that names its new owner until that pod holds its Lease, or for 10 s: a handover that takes
longer counts no more against anybody, and may be planned anew.

Limits (sharding.md 2.2; I7):
- orphans go at once, all of them: nobody serves them;
- a donor that is to be emptied has at most 16 in flight, filled up when half of them have arrived;
- levelling waits until nothing is in flight, then moves at most 8, and at most 2 of any donor.

Level-based: beside the clock of each flight nothing is remembered, and a leader that takes over at any point starts those
clocks anew (F12).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from noctaya.leader.assignment import Role


@dataclass(frozen=True, slots=True)
class RoundLimits:
    """Shards, and seconds."""

    in_flight: int = 8
    per_donor: int = 2
    per_drain: int = 16
    flight_seconds: float = 10.0


@dataclass(frozen=True, slots=True)
class Round:
    """The owners to ask for now, and the moves that this adds, by cause."""

    owners: tuple[str, ...]
    homed: tuple[int, ...] = ()
    drained: tuple[int, ...] = ()
    levelled: tuple[int, ...] = ()
    waiting: int = 0
    """Moves of the plan that were left for later rounds."""
    flying: int = 0
    """Shards in flight before this round."""

    def causes(self) -> tuple[tuple[str, tuple[int, ...]], ...]:
        """What moves, by the word for its cause."""
        return ("homed", self.homed), ("drained", self.drained), ("levelled", self.levelled)

    def reason(self) -> str:
        """For people: what a map that says this was written for."""
        parts = [f"{len(shards)} shards {cause}" for cause, shards in self.causes() if shards]
        if self.waiting:
            parts.append(f"{self.waiting} wait for their turn")
        return "; ".join(parts) or "workers changed"


class Rounds:
    """See the module."""

    def __init__(self, limits: RoundLimits | None = None) -> None:
        self.limits = limits or RoundLimits()
        self._since: dict[int, tuple[str, float]] = {}

    def flights(self, desired: Sequence[str], actual: Mapping[int, str], now: float) -> list[int]:
        """The shards in flight: their desired pod does not hold them yet. `actual`: the pod that does; absent: nobody."""
        flying = []
        for shard, owner in enumerate(desired):
            if actual.get(shard) == owner:
                self._since.pop(shard, None)
                continue
            to, since = self._since.get(shard, ("", now))
            if to != owner:
                since = now
            self._since[shard] = (owner, since)
            if now - since < self.limits.flight_seconds:
                flying.append(shard)
        return flying

    def next(
        self,
        desired: Sequence[str],
        plan: Sequence[str | None],
        actual: Mapping[int, str],
        roles: Mapping[str, Role],
        now: float,
    ) -> Round:
        """What of `plan` to ask for now, given what the map says and who holds what.

        `desired` may be empty (nothing assigned yet): then all are orphans. A shard that the plan leaves to nobody stays as
        it is.
        """
        if not desired:
            first = tuple(owner for owner in plan if owner is not None)
            if len(first) < len(plan):  # a map is whole or empty
                return Round(())
            return Round(first, homed=tuple(range(len(first))))
        flying = self.flights(desired, actual, now)
        flown_from = Counter(actual.get(shard, "") for shard in flying)
        owners = list(desired)
        homed, drained, levelling = [], list[int](), []
        drains: dict[str, list[int]] = {}
        for shard, to in enumerate(plan):
            owner = desired[shard]
            if to is None or to == owner:
                continue
            if owner not in roles:
                homed.append(shard)
            elif roles[owner] is Role.DONOR:
                drains.setdefault(owner, []).append(shard)
            else:
                levelling.append(shard)
        for donor, shards in drains.items():
            drained += shards[: self._drain_room(flown_from[donor])]
        levelled = [] if flying or homed or drains else self._level(desired, levelling)
        for shard in (*homed, *drained, *levelled):
            owners[shard] = plan[shard] or desired[shard]
        waiting = sum(map(len, drains.values())) - len(drained) + len(levelling) - len(levelled)
        return Round(tuple(owners), tuple(homed), tuple(drained), tuple(levelled), waiting, len(flying))

    def _drain_room(self, flying: int) -> int:
        return self.limits.per_drain - flying if flying <= self.limits.per_drain // 2 else 0

    def _level(self, desired: Sequence[str], shards: Sequence[int]) -> list[int]:
        taken: list[int] = []
        donors: Counter[str] = Counter()
        for shard in shards:
            if len(taken) < self.limits.in_flight and donors[desired[shard]] < self.limits.per_donor:
                taken.append(shard)
                donors[desired[shard]] += 1
        return taken

"""One ownership core and a hand that feeds it, for tests of single rules. The simulator is `tests/sim`."""

from __future__ import annotations

from typing import TypeVar

from noctaya.leader.member_record import MemberState
from noctaya.leader.tenure import Standing
from noctaya.workers import shard_events as events
from noctaya.workers.shard_ownership import ShardOwnership
from noctaya.workers.shard_state import Phase, ShardTiming

ME = "w0_aaaaaaaa_n1"
OTHER = "w1_bbbbbbbb_n1"
THIRD = "w2_cccccccc_n1"
SHARDS = 4
TIMING = ShardTiming()

A = TypeVar("A")


class Hand:
    """Feeds a core; keeps versions and the clock so that a test names only what it is about."""

    def __init__(
        self,
        *,
        desired: tuple[str, ...] = ("w0",) * SHARDS,
        timing: ShardTiming = TIMING,
        core: type[ShardOwnership] = ShardOwnership,
    ) -> None:
        self.now = 100.0
        self.standing = Standing.ACT
        self.version = 10
        self.generation = 0
        self.core = core("w0", standing=lambda now: self.standing, timing=timing, shards=SHARDS)
        self.feed(events.Began(ME))
        self.feed(events.StateSeen(MemberState.READY))
        for pod, incarnation in (("w0", ME), ("w1", OTHER), ("w2", THIRD)):
            self.member(pod, incarnation)
        self.feed(events.Listed())
        if desired:
            self.plan(*desired)

    def feed(self, event: events.Event) -> list[events.Action]:
        return self.core.on(event, self.now)

    def member(
        self, pod: str, incarnation: str, state: MemberState = MemberState.READY
    ) -> list[events.Action]:
        return self.feed(events.MemberSeen(pod, incarnation, state))

    def plan(self, *desired: str, fleet: str = "f1") -> list[events.Action]:
        self.generation += 1
        return self.feed(events.PlanSeen(fleet, self.generation, desired))

    def record(self, shard: int, holder: str, epoch: int) -> list[events.Action]:
        self.version += 1
        return self.feed(events.RecordSeen(shard, holder, epoch, str(self.version)))

    def gone(self, shard: int) -> list[events.Action]:
        self.version += 1
        return self.feed(events.RecordGone(shard, str(self.version)))

    def wait(self, seconds: float) -> list[events.Action]:
        self.now += seconds
        return self.feed(events.Tick())

    def accept(self, cas: events.CasShard) -> list[events.Action]:
        self.version += 1
        return self.feed(events.CasAccepted(cas.request, str(self.version)))

    def own(self, shard: int = 0) -> int:
        """Acquire `shard`, which should be ours; its epoch."""
        if self.phase(shard) is Phase.ACTIVE:
            return self.core.epoch(shard)
        actions = self.record(shard, "", 4)
        cas = one(actions, events.CasShard)
        assert events.StartShard(shard, cas.epoch) in self.accept(cas)
        return cas.epoch

    def phase(self, shard: int = 0) -> Phase:
        return self.core.state.shards[shard].phase


def one(actions: list[events.Action], kind: type[A]) -> A:
    """The one action of this kind."""
    (found,) = [action for action in actions if isinstance(action, kind)]
    return found


def fresh(core: type[ShardOwnership] = ShardOwnership) -> Hand:
    """A worker whose shards are with nobody it knows: none of the four is free at once, for each has been owned."""
    hand = Hand(desired=(), core=core)
    for shard in range(SHARDS):
        hand.record(shard, OTHER, 3)
    hand.plan(*("w0",) * SHARDS)
    return hand

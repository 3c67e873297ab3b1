"""What to do next about one shard, decided from its record, the plan and the clock alone. `shard_ownership` says the rules.

Every step may be repeated, interrupted and begun anew: `look` asks where the shard should be, never how it came here. At most
one write per shard is under way, and while it is, nothing else is decided about that shard.
"""

from __future__ import annotations

from noctaya.leader.member_record import MemberState
from noctaya.leader.story import Story
from noctaya.leader.tenure import HIGHEST_EPOCH, Standing
from noctaya.workers.shard_events import (
    Action,
    AskEpoch,
    AskResign,
    CasShard,
    Event,
    Prepare,
    SendState,
    StartShard,
    StopShard,
)
from noctaya.workers.shard_heirs import heir_of
from noctaya.workers.shard_state import Aim, Phase, Shard, ShardTiming, State

GIVING = (Phase.STOPPING, Phase.TRANSFERRING)
OURS = (Phase.ACTIVE, Phase.STOPPING, Phase.TRANSFERRING, Phase.UNSURE)
"""The record named this incarnation when it was last seen, or may."""


class ShardSteps:
    """See the module. Actions collect in `_actions`."""

    def __init__(self, state: State, timing: ShardTiming) -> None:
        self.state = state
        self.timing = timing
        self.story: Story[Event] = Story(inputs=0)
        self._actions: list[Action] = []

    def _give_up(self, shard: Shard, phase: Phase, why: str, now: float) -> None:
        """Act for it no more; a later epoch may begin."""
        shard.left = max(shard.left, shard.epoch)
        self._stop(shard, phase, why, now)

    def _stop(self, shard: Shard, phase: Phase, why: str, now: float) -> None:
        if shard.phase is Phase.ACTIVE:
            self._actions.append(StopShard(shard.number))
        self._enter(shard, phase, now, why)

    def _enter(self, shard: Shard, phase: Phase, now: float, why: str) -> None:
        shard.is_preparing = False
        if phase not in GIVING:
            shard.heir = ""
        shard.since = now
        if shard.phase is not phase:
            shard.phase = phase
            self.story.tell(now, f"shard/{shard.number}", f"{phase.value}, epoch {shard.epoch}: {why}")

    # -- what should be done now -------------------------------------------------------------------------------------

    def _look_around(self, now: float, standing: Standing) -> None:
        for number in sorted(self.state.restless):
            self._look(self.state.shards[number], now, standing)

    def _look(self, shard: Shard, now: float, standing: Standing) -> None:
        if not shard.request and self.state.incarnation:
            match shard.phase:
                case Phase.ACTIVE:
                    self._look_active(shard, now)
                case Phase.STOPPING:
                    self._look_stopping(shard, now)
                case Phase.TRANSFERRING:
                    self._look_transferring(shard, now, standing)
                case Phase.UNSURE:
                    self._look_unsure(shard, now, standing)
                case _:
                    self._look_idle(shard, now, standing)
        if self._is_settled(shard):
            self.state.restless.discard(shard.number)
        else:
            self.state.restless.add(shard.number)

    def _is_settled(self, shard: Shard) -> bool:
        wants = self._desired(shard) == self.state.pod
        if shard.phase is Phase.ACTIVE:
            return (wants or not self.state.desired) and self.state.drains_since is None
        return (
            shard.phase is Phase.NONE
            and not shard.request
            and not wants
            and shard.holder != self.state.incarnation
        )

    def _desired(self, shard: Shard) -> str:
        return self.state.desired[shard.number] if self.state.desired else ""

    def _look_idle(self, shard: Shard, now: float, standing: Standing) -> None:
        if shard.version and shard.holder == self.state.incarnation:
            if self._is_new_to_us(shard):
                self._activate(shard, now, standing, "the record names us")
            else:
                self._enter(shard, Phase.UNSURE, now, "the record names us under an epoch that is over")
                self._look_unsure(shard, now, standing)
            return
        is_wanted = self._desired(shard) == self.state.pod and self.state.state is MemberState.READY
        if not is_wanted:
            self._enter(shard, Phase.NONE, now, "it is not to be ours")
            return
        if shard.phase is Phase.NONE:
            self._enter(shard, Phase.WARM, now, "it should be ours")
            shard.wanted_since = now
        if (
            standing is not Standing.ACT
            or now < shard.next_at
            or self._count(Phase.ACQUIRING) >= self.timing.acquire_at_once
        ):
            return
        if self._may_take(shard, now):
            self._enter(shard, Phase.ACQUIRING, now, f"after {shard.holder or 'nobody'}")
            self._write(shard, self.state.incarnation)
        else:
            self._ask_peers(shard, now)

    def _is_new_to_us(self, shard: Shard) -> bool:
        """A record that names us under an epoch that we gave up may be about to change by a write of ours (F20); and one below an
        epoch that somebody claims to know (a claim may come while our write is under way) is lifted above it first."""
        return shard.recorded > shard.left and shard.recorded >= shard.floor

    def _may_take(self, shard: Shard, now: float) -> bool:
        if self.state.listed_at is None:
            return False
        if not shard.version:
            if not shard.seen_version and not shard.floor:
                return True
            return now - max(shard.absent_since, self.state.listed_at) >= self.timing.absent_after
        if not shard.holder or self._succeeds(shard.holder):
            return True
        if (shard.resigned_holder, shard.resigned_epoch) == (shard.holder, shard.recorded):
            return True
        return self.state.proof.is_over(shard.holder, now)

    def _succeeds(self, holder: str) -> bool:
        """Whether `holder` ran in this very pod before us; our own claim is the proof that it is over."""
        own = self.state.incarnation.rpartition("_")[0]
        return not own.endswith("_") and holder.startswith(f"{own}_")

    def _look_active(self, shard: Shard, now: float) -> None:
        heir = heir_of(self.state, shard, self.timing, now)
        if not heir:
            shard.is_preparing = False
            return
        if not shard.is_preparing or shard.heir != heir:
            if not shard.is_preparing and self._giving() >= self.timing.give_at_once:
                return
            shard.is_preparing, shard.heir, shard.since = True, heir, now
            self._actions.append(Prepare(heir, shard.number))
        elif now - shard.since >= self.timing.prepare_within:
            self._begin_giving(shard, heir, now)

    def _begin_giving(self, shard: Shard, heir: str, now: float) -> None:
        self._stop(shard, Phase.STOPPING, f"to {heir}", now)
        shard.heir = heir

    def _look_stopping(self, shard: Shard, now: float) -> None:
        if now - shard.since < self.timing.stop_within:
            return
        self._enter(shard, Phase.TRANSFERRING, now, f"to {shard.heir}")
        self._actions.append(SendState(shard.heir, shard.number))

    def _look_transferring(self, shard: Shard, now: float, standing: Standing) -> None:
        heir = heir_of(self.state, shard, self.timing, now)
        if heir != shard.heir:
            if not heir:
                self._enter(shard, Phase.NONE, now, "nobody is to have it any more")  # and is ours again
                self._look_idle(shard, now, standing)
                return
            shard.heir, shard.since = heir, now
            self._actions.append(SendState(heir, shard.number))
        elif now - shard.since >= self.timing.state_within:
            shard.left = max(shard.left, shard.epoch)
            self._write(shard, heir)

    def _look_unsure(self, shard: Shard, now: float, standing: Standing) -> None:
        if shard.version and shard.holder != self.state.incarnation:
            self._enter(shard, Phase.NONE, now, f"{shard.holder or 'nobody'} has it")
            self._look_idle(shard, now, standing)
            return
        if shard.version and self._is_new_to_us(shard):
            self._activate(shard, now, standing, "a later write of ours names us")
            return
        if now < shard.next_at:
            return
        if not shard.version and standing is not Standing.ACT:
            return  # no version protects a record that is made anew: only who has certainly not been robbed of it may
        heir = heir_of(self.state, shard, self.timing, now)
        if heir:
            self._write(shard, heir)
        elif standing is Standing.ACT and self.state.state is MemberState.READY:
            self._write(shard, self.state.incarnation)

    def _may_begin(self, standing: Standing) -> bool:
        """What names us may be long past; but who is valid cannot have been robbed of it."""
        return standing is Standing.ACT

    def _activate(self, shard: Shard, now: float, standing: Standing, why: str) -> None:
        if not self._may_begin(standing):
            return
        shard.epoch = shard.recorded
        self._enter(shard, Phase.ACTIVE, now, why)
        self._actions.append(StartShard(shard.number, shard.epoch))

    def _count(self, phase: Phase) -> int:
        return sum(1 for number in self.state.restless if self.state.shards[number].phase is phase)

    def _giving(self) -> int:
        shards = (self.state.shards[number] for number in self.state.restless)
        return sum(1 for shard in shards if shard.is_preparing or shard.phase in GIVING)

    def _write(self, shard: Shard, holder: str) -> None:
        self.state.serial += 1
        epoch = self._next_epoch(shard)
        shard.request = self.state.serial
        self.state.aims[shard.request] = Aim(shard.number, holder, epoch)
        self._actions.append(CasShard(shard.request, shard.number, holder, epoch, shard.version))

    def _next_epoch(self, shard: Shard) -> int:
        """Above the record, above all that anybody claims to know, above all that we have acted under."""
        return min(self._known_epoch(shard) + 1, HIGHEST_EPOCH)

    def _known_epoch(self, shard: Shard) -> int:
        return max(shard.recorded, shard.floor, shard.left, shard.epoch)

    def _ask_peers(self, shard: Shard, now: float) -> None:
        """What stands in our way may be put out of it by a word: the holder's, or, of a lost record, anybody's memory."""
        if not shard.version:
            if now - shard.asked_at >= self.timing.ask_epoch_every:
                shard.asked_at = now
                self._actions.append(AskEpoch(shard.number))
        elif now - max(shard.wanted_since, shard.asked_at) >= self.timing.resign_after:
            shard.asked_at = now
            self._actions.append(AskResign(shard.number, shard.holder, shard.recorded))

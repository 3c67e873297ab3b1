"""Which shards this incarnation owns, from taking one to giving it away (DESIGN section 4, sharding.md 2.3). No clock, no I/O.

Invariants, whatever is lost, late, repeated or reordered:
- I1: for each shard, permission under an epoch is held by one incarnation, and never after a higher epoch was acted under.
  Permission needs an ACTIVE shard and a membership that stands (`membership.py`); a shard is ACTIVE only after the record was
  seen to name this incarnation under an epoch above every one that it has given up (`Shard.left`).
- I2: the epoch rises with every change of holder, above every epoch that anybody claims to know.
- A shard is taken from another incarnation only with a proof that it is over (`shard_proof.py`); given away only after
  `Stopped` (or 2 s, within which every request of ours has ended); and once the write that gives it away was sent, this
  worker acts again only under a later epoch: by a new write of its own, never because it read its own old name (F20).
- A record that vanished is made anew at once by its owner alone, by anybody else after `absent_after`. A shard that was never
  seen to be owned (no record, no status with an epoch) is free at once: a fleet just founded. (Only somebody who deletes
  records twice within 12 s, while a watch lags by as much, could make two owners; children and status stay fenced.)

Level-based: `_look` decides from the record, the plan and the clock alone, so that every step may fail, repeat or come late.
Fails safe: what is not certain is UNSURE or NONE, and both mean that nothing is done.
"""

from __future__ import annotations

from collections.abc import Callable

from noctaya.api.names import SHARD_COUNT
from noctaya.kube.versions import is_newer
from noctaya.leader.member_record import MemberState
from noctaya.leader.tenure import HIGHEST_CLAIM, Standing, is_believable
from noctaya.workers.permission import Permission
from noctaya.workers.shard_events import (
    Action,
    Announce,
    AnswerEpoch,
    AnswerPrepared,
    AnswerResigned,
    Began,
    CasAccepted,
    CasRefused,
    CasUnanswered,
    Drained,
    EpochAsked,
    Event,
    HigherEpochSeen,
    Listed,
    MemberGone,
    MemberSeen,
    PlanSeen,
    PrepareAsked,
    Prepared,
    RecordGone,
    RecordSeen,
    ResignAsked,
    Resigned,
    StateSeen,
    StateTaken,
    Stopped,
    Tick,
    Told,
)
from noctaya.workers.shard_proof import Proof
from noctaya.workers.shard_state import NEVER, Phase, Shard, ShardTiming, State
from noctaya.workers.shard_steps import OURS, ShardSteps
from noctaya.workers.shard_story import Recording

_PERMISSIONS = {Standing.ACT: Permission.ACT, Standing.GROW: Permission.GROW, Standing.NONE: Permission.NONE}


class ShardOwnership(ShardSteps):
    """See the module. `standing` answers for the membership of the present incarnation."""

    def __init__(
        self,
        pod: str,
        *,
        standing: Callable[[float], Standing],
        timing: ShardTiming | None = None,
        shards: int = SHARD_COUNT,
        state: State | None = None,
    ) -> None:
        timing = timing or ShardTiming()
        fresh = State(pod, [Shard(number) for number in range(shards)], Proof(timing.fence_after))
        super().__init__(state or fresh, timing)
        self.recording: Recording | None = None
        """Set to keep what is heard, for a replay."""
        self._standing = standing

    # -- what is asked -----------------------------------------------------------------------------------------------

    def permission(self, shard: int, now: float) -> Permission:
        """What may be done for `shard` at `now`; ask directly before every effect."""
        if self.state.shards[shard].phase is not Phase.ACTIVE:
            return Permission.NONE
        return _PERMISSIONS[self._standing(now)]

    def epoch(self, shard: int) -> int:
        """The epoch under which this worker acts, or last acted, for `shard`."""
        return self.state.shards[shard].epoch

    def owner(self, shard: int) -> tuple[str, int]:
        """The incarnation that the record names, and its epoch; where to relay a question to."""
        found = self.state.shards[shard]
        return found.holder, found.recorded

    def owned(self) -> list[int]:
        """The shards that are ACTIVE here."""
        return [shard.number for shard in self.state.shards if shard.phase is Phase.ACTIVE]

    # -- what happens ------------------------------------------------------------------------------------------------

    def on(self, event: Event, now: float) -> list[Action]:
        """Take `event` in; answer with what to do now."""
        standing = self._standing(now)
        if self.recording is not None:
            self.recording.hear(self.state, event, now, standing)
        self._actions = []
        self._take(event, now, standing)
        return self._actions

    def _take(self, event: Event, now: float, standing: Standing) -> None:
        state = self.state
        match event:
            case Tick():
                self._look_around(now, standing)
            case RecordSeen(shard, holder, epoch, version):
                self._record_seen(shard, holder, epoch, version, now, standing)
            case RecordGone(shard, version):
                self._record_gone(state.shards[shard], version, now, standing)
            case MemberSeen(pod, incarnation, member_state):
                if state.proof.see(pod, incarnation, member_state):
                    self._look_around(now, standing)
            case MemberGone(pod):
                if state.proof.lose(pod, now, {shard.holder for shard in state.shards}):
                    self._look_around(now, standing)
            case CasAccepted(request, version):
                self._accepted(request, version, now, standing)
            case CasRefused(request):
                self._failed(request, now, standing, self.timing.refused_retry)
            case CasUnanswered(request):
                self._failed(request, now, standing, self.timing.unsure_retry)
            case PlanSeen():
                self._plan_seen(event, now, standing)
            case Listed():
                state.listed_at = now if state.listed_at is None else state.listed_at
                self._look_around(now, standing)
            case HigherEpochSeen(shard, epoch):
                self._higher(state.shards[shard], epoch, now, standing)
            case Began(incarnation):
                self._begin(incarnation, now)
            case StateSeen(member_state):
                self._state_seen(member_state, now, standing)
            case _:
                self._heard_from_peer(event, now, standing)
        if state.drains_since is not None:
            self._maybe_drained(now)

    def _heard_from_peer(self, event: Event, now: float, standing: Standing) -> None:
        shards = self.state.shards
        match event:
            case Stopped(number):
                self._step(shards[number], Phase.STOPPING, now, standing)
            case PrepareAsked(peer, number):
                if self.state.state is MemberState.READY:
                    self._actions.append(AnswerPrepared(peer, number))
            case Prepared(peer, number):
                if shards[number].is_preparing and shards[number].heir == peer:
                    shards[number].since = now - self.timing.prepare_within
                    self._look(shards[number], now, standing)
            case StateTaken(peer, number):
                if shards[number].heir == peer:
                    self._step(shards[number], Phase.TRANSFERRING, now, standing)
            case Told(number, holder, epoch, version):
                if holder == self.state.incarnation:
                    self._record_seen(number, holder, epoch, version, now, standing)
            case ResignAsked():
                self._resign_asked(event, now, standing)
            case EpochAsked(peer, number):
                self._actions.append(AnswerEpoch(peer, number, self._known_epoch(shards[number])))
            case Resigned(number, holder, epoch):
                shards[number].resigned_holder, shards[number].resigned_epoch = holder, epoch
                self._look(shards[number], now, standing)

    def _step(self, shard: Shard, phase: Phase, now: float, standing: Standing) -> None:
        """What `phase` waited for has come."""
        if shard.phase is phase and not shard.request:
            shard.since = NEVER
            self._look(shard, now, standing)

    # -- the record --------------------------------------------------------------------------------------------------

    def _record_seen(
        self, number: int, holder: str, epoch: int, version: str, now: float, standing: Standing
    ) -> None:
        shard = self.state.shards[number]
        if shard.seen_version and not is_newer(version, shard.seen_version):
            return
        self._note_record(shard, holder, epoch, version)
        shard.next_at = 0.0
        if shard.phase in OURS and (holder != self.state.incarnation or epoch != shard.epoch):
            if holder != self.state.incarnation:
                self._give_up(shard, Phase.NONE, "the record names another", now)
            elif shard.phase is Phase.ACTIVE:
                # Nobody but us may write so, and we did not: an operator's edit.
                shard.left = max(shard.left, epoch)
                self._give_up(shard, Phase.UNSURE, "somebody changed the record's epoch", now)
        self._look(shard, now, standing)

    def _note_record(self, shard: Shard, holder: str, epoch: int, version: str) -> None:
        shard.holder, shard.recorded, shard.version = holder, epoch, version
        shard.seen_version = version
        shard.floor = max(shard.floor, epoch if epoch <= HIGHEST_CLAIM else 0)

    def _record_gone(self, shard: Shard, version: str, now: float, standing: Standing) -> None:
        if not shard.version or not is_newer(version, shard.seen_version):
            return
        was_ours = shard.phase in OURS and shard.holder == self.state.incarnation
        shard.holder, shard.recorded, shard.version, shard.seen_version = "", 0, "", version
        shard.absent_since = now
        if was_ours:
            self._give_up(shard, Phase.UNSURE, "the record was deleted", now)
        self._look(shard, now, standing)

    # -- writes ------------------------------------------------------------------------------------------------------

    def _accepted(self, request: int, version: str, now: float, standing: Standing) -> None:
        aim = self.state.aims.pop(request, None)
        if aim is None:
            return  # of an incarnation that is over; the watch will show what it did
        shard = self.state.shards[aim.shard]
        shard.request = 0
        if not shard.seen_version or is_newer(version, shard.seen_version):
            self._note_record(shard, aim.holder, aim.epoch, version)
        if aim.holder != self.state.incarnation:
            self._enter(shard, Phase.NONE, now, f"given to {aim.holder} under epoch {aim.epoch}")
            self._actions.append(Announce(shard.number, aim.holder, aim.epoch, version))
        elif shard.phase is not Phase.ACTIVE:
            self._enter(shard, Phase.NONE, now, "the write was accepted")
        self._look(shard, now, standing)

    def _failed(self, request: int, now: float, standing: Standing, retry: float) -> None:
        aim = self.state.aims.pop(request, None)
        if aim is None:
            return
        shard = self.state.shards[aim.shard]
        shard.request = 0
        shard.next_at = now + retry
        if shard.phase is Phase.ACQUIRING:
            self._enter(shard, Phase.WARM, now, "the write was not accepted")
        elif shard.phase in OURS and shard.phase is not Phase.ACTIVE:
            self._enter(shard, Phase.UNSURE, now, "the write was not accepted")
        self._look(shard, now, standing)

    # -- the rest of the world ---------------------------------------------------------------------------------------

    def _plan_seen(self, plan: PlanSeen, now: float, standing: Standing) -> None:
        state = self.state
        if plan.fleet == state.fleet and plan.generation <= state.generation:
            return
        if state.fleet and plan.fleet != state.fleet:
            for shard in state.shards:
                if shard.phase in OURS:
                    self._give_up(shard, Phase.UNSURE, "the fleet was founded anew", now)
                if shard.holder == state.incarnation:
                    shard.left = max(shard.left, shard.recorded)
        state.fleet, state.generation, state.planned_at = plan.fleet, plan.generation, now
        state.desired = plan.desired
        for shard in state.shards:
            self._look(shard, now, standing)

    def _higher(self, shard: Shard, epoch: int, now: float, standing: Standing) -> None:
        if not is_believable(epoch, self._known_epoch(shard)):
            shard.floor = max(shard.floor, 1)  # so much is true: it has been owned
            return
        shard.floor = max(shard.floor, epoch)
        if shard.phase is Phase.ACTIVE and epoch > shard.epoch:
            # Its owner is another by now, and our write fails; or the record was lost and made anew, and our write lifts it
            # above what the fleet has seen.
            self._give_up(shard, Phase.UNSURE, f"somebody knows epoch {epoch}", now)
            self._look(shard, now, standing)

    def _begin(self, incarnation: str, now: float) -> None:
        for shard in self.state.shards:
            self._stop(shard, Phase.NONE, "this incarnation is over", now)
            shard.left, shard.request, shard.next_at = 0, 0, 0.0
            self.state.restless.add(shard.number)
        self.state.aims.clear()
        self.state.incarnation = incarnation

    def _state_seen(self, member_state: MemberState, now: float, standing: Standing) -> None:
        self.state.state = member_state
        if member_state is MemberState.DRAINING and self.state.drains_since is None:
            self.state.drains_since = now
        for shard in self.state.shards:
            self._look(shard, now, standing)

    def _maybe_drained(self, now: float) -> None:
        state = self.state
        if state.is_drained or state.drains_since is None:
            return
        has_heirs = state.proof.has_others(state.pod)
        if now - state.drains_since >= (self.timing.drain_budget if has_heirs else self.timing.alone_after):
            for shard in state.shards:
                if shard.phase in OURS:
                    self._give_up(shard, Phase.NONE, "the time for draining is over", now)
        elif state.aims or any(shard.phase in OURS for shard in state.shards):
            return
        state.is_drained = True
        self._actions.append(Drained())

    # -- resigning ---------------------------------------------------------------------------------------------------

    def _resign_asked(self, asked: ResignAsked, now: float, standing: Standing) -> None:
        shard = self.state.shards[asked.shard]
        if asked.holder != self.state.incarnation or shard.request or standing is Standing.ACT:
            return  # who can still write hands over
        if shard.phase in OURS:
            self._give_up(shard, Phase.UNSURE, f"resigned to {asked.peer}", now)
            shard.left = max(shard.left, asked.epoch)
        if shard.left >= asked.epoch:
            self._actions.append(AnswerResigned(asked.peer, asked.shard, asked.holder, asked.epoch))

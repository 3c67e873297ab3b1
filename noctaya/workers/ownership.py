"""Which shards this worker may act for just now: the shell of `shard_ownership.py`.

It asks the core, carries out what the core wants (records by compare-and-swap, within the deadline that `Leases` gives each
attempt, notes to peers, beginning and ending what acts for a shard), and tells it how that went. `permission(shard)` is asked directly before every effect. Nothing is decided here.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from noctaya.kube.clock import boottime
from noctaya.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from noctaya.kube.leases import Leases
from noctaya.leader.lease_views import shard_record
from noctaya.leader.member_record import MemberState
from noctaya.leader.tenure import Identity, Standing
from noctaya.telemetry import context
from noctaya.workers import shard_events as owns
from noctaya.workers.peer_notes import Note, note_of
from noctaya.workers.permission import Permission
from noctaya.workers.shard_memory import ShardMemory
from noctaya.workers.shard_ownership import ShardOwnership
from noctaya.workers.shard_state import ShardTiming

log = logging.getLogger(__name__)

TICK_SECONDS = 0.25


class Incarnation(Protocol):
    """What of `Member` is asked."""

    @property
    def identity(self) -> Identity: ...
    def standing(self, now: float) -> Standing: ...


class Telling(Protocol):
    """What of `Peers` is used."""

    async def tell(self, receiver: str, note: Note) -> bool: ...


class Acting(Protocol):
    """Everything in this worker that acts for shards."""

    def begin(self, shard: int, epoch: int) -> None:
        """The shard is ours: look at everything in it."""

    async def end(self, shard: int) -> None:
        """Permission is gone: return once all that acted for the shard has ended, requests under way included."""

    def memory(self, shard: int) -> ShardMemory:
        """What the next owner should know of the shard."""


class Ownership:
    """See the module. `fleet` is the fleet id; it changes when the ShardMap was lost and made anew."""

    def __init__(
        self,
        pod: str,
        member: Incarnation,
        leases: Leases,
        peers: Telling,
        acting: Acting,
        *,
        fleet: str,
        timing: ShardTiming | None = None,
        clock: Callable[[], float] = boottime,
    ) -> None:
        self.fleet = fleet
        self.core = ShardOwnership(pod, standing=self._standing, timing=timing)
        self.drained = asyncio.Event()
        """Set once nothing is owned, nor will be."""
        self.writes = {"accepted": 0, "refused": 0, "unanswered": 0}
        """Writes of shard records by what became of them."""
        self.problem: KubeError | None = None
        """Why the last write of a record had no answer; None when it had one."""
        self._member = member
        self._identity: Identity | None = None
        self._leases = leases
        self._peers = peers
        self._acting = acting
        self._clock = clock
        self._group: asyncio.TaskGroup | None = None
        self._is_over = False

    # -- what is asked -----------------------------------------------------------------------------------------------

    def permission(self, shard: int) -> Permission:
        """What may be done for `shard` at this instant."""
        return self.core.permission(shard, self._clock())

    def epoch(self, shard: int) -> int:
        """The epoch under which this worker acts, or last acted, for `shard`."""
        return self.core.epoch(shard)

    def owner(self, shard: int) -> tuple[str, int]:
        """The incarnation that the record names (empty: nobody), and the epoch that is known."""
        holder, recorded = self.core.owner(shard)
        return holder, max(recorded, self.core.state.shards[shard].floor)

    def owned(self) -> list[int]:
        """The shards that are ours."""
        return self.core.owned()

    def see_epoch(self, shard: int, epoch: int) -> None:
        """Somebody knows `shard` under `epoch`. Above ours, we may be stale: permission is gone until that is decided."""
        if epoch > self.core.state.shards[shard].floor:
            self.hear(owns.HigherEpochSeen(shard, epoch))

    # -- what happens ------------------------------------------------------------------------------------------------

    def hear(self, event: owns.Event) -> None:
        """Something happened; what follows is begun at once."""
        for action in self.core.on(event, self._clock()):
            self._carry_out(action)

    def began(self, incarnation: str) -> None:
        """This process goes on as another incarnation; empty: as none, for now."""
        self._identity = self._member.identity if incarnation else None
        self.hear(owns.Began(incarnation))

    def state_changed(self, state: MemberState) -> None:
        """Our own state in the fleet changed."""
        self.hear(owns.StateSeen(state))

    async def run(self) -> None:
        """Carry on until cancelled. Nothing may be told before this has begun; what is told after it moves nothing any more."""
        async with asyncio.TaskGroup() as self._group:
            try:
                while True:
                    await asyncio.sleep(TICK_SECONDS)
                    state = self.core.state
                    if state.restless or state.drains_since is not None:
                        self.hear(owns.Tick())
            finally:
                self._group, self._is_over = None, True

    def _standing(self, now: float) -> Standing:
        """Of the incarnation that the core knows; one that has ended a moment ago has none."""
        if self._identity is None or self._member.identity is not self._identity:
            return Standing.NONE
        return self._member.standing(now)

    # -- what the core wants -----------------------------------------------------------------------------------------

    def _carry_out(self, action: owns.Action) -> None:
        match action:
            case owns.CasShard():
                self._start(self._write(action))
            case owns.StartShard(shard, epoch):
                self._acting.begin(shard, epoch)
            case owns.StopShard(shard):
                self._start(self._stop(shard))
            case owns.SendState(peer, shard):
                self._start(self._hand_over(peer, shard))
            case owns.AskEpoch(shard):
                for peer in self._peers_alive():
                    self._start(self._peers.tell(peer, note_of(owns.AskEpoch(shard))))
            case owns.Drained():
                self.drained.set()
            case _:
                self._start(self._peers.tell(_receiver(action), note_of(action)))

    def _start(self, work: Coroutine[Any, Any, Any]) -> None:
        if self._group is not None:
            self._group.create_task(work)
            return
        work.close()
        if not self._is_over:
            raise RuntimeError("ownership was told something before it ran")

    async def _write(self, cas: owns.CasShard) -> None:
        record = shard_record(self._leases.namespace, cas.shard, cas.holder, cas.epoch, cas.version)
        event: owns.Event
        try:
            written = await (self._leases.replace(record) if cas.version else self._leases.create(record))
        except (Conflict, AlreadyExists):
            result, event = "refused", owns.CasRefused(cas.request)
        except KubeError as error:
            if isinstance(error, NotFound) and cas.version:
                result, event = "refused", owns.CasRefused(cas.request)
            else:
                result, event = "unanswered", self._unanswered(cas, error)
        else:
            self.problem = None
            result, event = "accepted", owns.CasAccepted(cas.request, written.metadata.resource_version)
        self.writes[result] += 1
        self.hear(event)

    def _unanswered(self, cas: owns.CasShard, error: KubeError) -> owns.CasUnanswered:
        log.warning("a shard's record could not be written", extra=context(shard=cas.shard, error=error))
        self.problem = error
        return owns.CasUnanswered(cas.request)

    async def _stop(self, shard: int) -> None:
        await self._acting.end(shard)
        self.hear(owns.Stopped(shard))

    async def _hand_over(self, peer: str, shard: int) -> None:
        if await self._peers.tell(peer, self._acting.memory(shard)):
            self.hear(owns.StateTaken(peer, shard))

    def _peers_alive(self) -> list[str]:
        me = self.core.state.incarnation
        return [
            peer.incarnation
            for peer in self.core.state.proof.peers.values()
            if peer.incarnation not in ("", me)
        ]


def _receiver(action: owns.Action) -> str:
    match action:
        case (
            owns.Prepare(peer)
            | owns.AnswerPrepared(peer)
            | owns.AnswerResigned(peer)
            | owns.AnswerEpoch(peer)
        ):
            return peer
        case owns.Announce(holder=holder) | owns.AskResign(holder=holder):
            return holder
        case _:
            raise AssertionError(f"{action} is for no peer")

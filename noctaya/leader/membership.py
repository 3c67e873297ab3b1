"""A worker's place in the fleet: its member Lease, held by one incarnation after another of the same process.

An incarnation is one tenure of the Lease `noctaya-worker-<pod>` with one life: claimed, renewed, and once lost never held
again. Whatever an incarnation owned is owned by nobody after it; the process itself goes on with a new nonce, caches warm.

Invariants:
- `standing` is ACT only within `self_deadline` of the *send* of an accepted renewal, and only while the view of the fleet's
  Leases is younger than `view_deadline`: our own renewals come back through the watch, and one that was sent at t and has come
  back proves that the view holds everything that was accepted before t. So whatever happens to the records of our shards
  (even that somebody deletes them), we have noticed after `view_deadline`, or do not act. `shard_ownership` relies on that.
- An incarnation that ended never acts again (`Ended` is followed by another identity): fenced by compare-and-swap, found its
  Lease gone, or left.
- A claim never waits for a Lease that is absent: the name belongs to this pod. (A pod of the same name with another uid is
  waited out by everybody, see `shard_proof`.) A predecessor in this very pod is replaced at once (sharding.md 2.7.1).

Fails safe: API server unreachable → GROW; the watch silent → GROW; refused → NONE until the next write has decided.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from noctaya.kube.versions import is_newer
from noctaya.leader.member_record import MemberState
from noctaya.leader.rendezvous import ranked
from noctaya.leader.tenure import (
    Accepted,
    Identity,
    LeaseView,
    Leaving,
    Read,
    Refused,
    Seen,
    Standing,
    Tenure,
    Tick,
    Timing,
    Unreachable,
    Watched,
    Write,
)

VIEW_DEADLINE = 12.0
"""Seconds. Who takes a shard without a record waits longer than this by the tolerated ratio of clock rates."""
SENDS_KEPT = 16
"""Renewals whose echo may still come."""


@dataclass(frozen=True, slots=True)
class Synced:
    """The caches are filled: this worker could act for any shard."""


@dataclass(frozen=True, slots=True)
class DrainAsked:
    """The process was told to end: say so at once, hand over, then `Departed`."""


@dataclass(frozen=True, slots=True)
class Departed:
    """Every shard is handed over or given up, and every task that acted has ended: release the Lease."""


Event = Tick | Seen | Watched | Accepted | Refused | Unreachable | Synced | DrainAsked | Departed
"""`Watched` is our own Lease on the watch that shows the shard records too: the echo of our renewals."""


@dataclass(frozen=True, slots=True)
class Ended:
    """This incarnation owns nothing any more. It was fenced, or its Lease is gone."""

    incarnation: str


@dataclass(frozen=True, slots=True)
class Began:
    """Another incarnation of this process takes the Lease from now on."""

    identity: Identity


Action = Read | Write | Ended | Began
"""A Write's annotations are the worker's record with the state of this instant."""


class Membership:
    """See the module. One read or write is under way at a time."""

    def __init__(
        self,
        pod: str,
        pod_uid: str,
        timing: Timing,
        *,
        nonce: Callable[[], str],
        view_deadline: float = VIEW_DEADLINE,
        tenure: type[Tenure] = Tenure,
    ) -> None:
        """`nonce` gives another one for every incarnation; `tenure` is replaced by tests that switch a rule off."""
        self.timing = timing
        self.state = MemberState.JOINING
        self._pod, self._pod_uid, self._nonce = pod, pod_uid, nonce
        self._view_deadline = view_deadline
        self._make = tenure
        self._tenure = self._begin()
        self._is_synced = False
        self._sends: dict[str, float] = {}
        self._view_sent = float("-inf")
        self._watched = ""
        """The newest version of our Lease that the watch has shown."""
        self._said: MemberState | None = None
        self._saying = self.state
        self._is_failing = False
        """Whether the last write was not accepted: the next one waits for its time."""

    @property
    def identity(self) -> Identity:
        """Of the present incarnation."""
        return self._tenure.identity

    @property
    def term(self) -> int:
        """`leaseTransitions` of the present incarnation; 0 before its first claim."""
        return self._tenure.epoch

    @property
    def epoch(self) -> int:
        """The same by the name that a Lease's shell knows (`renewal.Core`)."""
        return self.term

    @property
    def holder(self) -> str:
        """Who holds the Lease, as far as was seen; empty for nobody."""
        return self._tenure.holder

    @property
    def has_left(self) -> bool:
        """Whether this process will not hold its Lease again."""
        return self.state is MemberState.LEFT

    @property
    def next_at(self) -> float:
        """When the next `Tick` is due."""
        return self._tenure.next_at

    def standing(self, now: float) -> Standing:
        """What this incarnation may do at `now`, as far as membership goes; ask directly before every effect."""
        standing = self._tenure.standing(now)
        if standing is Standing.ACT and now >= self._view_sent + self._view_deadline:
            return Standing.GROW
        return standing

    def deadline_in(self, now: float) -> float | None:
        """Seconds until ACT becomes GROW for want of a renewal or its echo; None when we do not act anyway."""
        renewal = self._tenure.deadline_in(now)
        if renewal is None or self.standing(now) is not Standing.ACT:
            return None
        return min(renewal, self._view_sent + self._view_deadline - now)

    def on(self, event: Event, now: float) -> list[Action]:
        """Take `event` in; answer with what to do now."""
        match event:
            case Synced():
                self._is_synced = True
                return self._move_on(now)
            case DrainAsked():
                return self._become(MemberState.DRAINING, now)
            case Departed():
                self.state = MemberState.LEFT
                return list(self._tenure.on(Leaving(), now))
            case Watched(lease) if lease is not None:
                self._echo(lease)
        if isinstance(event, Accepted | Refused | Unreachable):
            self._is_failing = not isinstance(event, Accepted)
        if isinstance(event, Accepted) and event.lease.holder == str(self.identity):
            self._note_send(event)
        asked = self._after(self._tenure.on(event, now), now)
        return asked + self._become(MemberState.READY, now) if self._is_warm() else asked

    def _after(self, asked: list[Read | Write], now: float) -> list[Action]:
        if self._tenure.has_ended:
            return self._end(now)
        for action in asked:
            if isinstance(action, Write):
                self._saying = self.state
        self._hurry(now)
        return [*asked]

    def _end(self, now: float) -> list[Action]:
        if self.state is MemberState.LEFT:
            return []
        ended = Ended(str(self.identity))
        if self.state is MemberState.DRAINING:
            self.state = MemberState.LEFT  # it owns nothing any more, so there is nothing to come back for
            return [ended]
        self._tenure = self._begin()
        self._tenure.next_at = now
        self._sends.clear()
        self._view_sent = float("-inf")
        self._said = None
        self._is_failing = False
        self.state = MemberState.JOINING
        return [ended, Began(self.identity), *self._move_on(now)]

    def _move_on(self, now: float) -> list[Action]:
        if self._is_warm():
            return self._become(MemberState.READY, now)
        return self._after(self._tenure.on(Tick(), now), now)

    def _is_warm(self) -> bool:
        """READY needs full caches, which a process that lost its Lease keeps, and a view that shows this incarnation: who would
        have to wait for its watch could not act for what it is given."""
        has_view = self._view_sent > float("-inf")
        return self.state is MemberState.JOINING and self._is_synced and has_view

    def _become(self, state: MemberState, now: float) -> list[Action]:
        if self.state in (MemberState.DRAINING, MemberState.LEFT):
            return []
        self.state = state
        self._hurry(now)
        return self._after(self._tenure.on(Tick(), now), now)

    def _hurry(self, now: float) -> None:
        """A state that others do not know yet is told at once, not with the next renewal; but never in a hot loop."""
        is_untold = self._said is not None and self._said is not self.state
        if is_untold and not self._tenure.is_busy and not self._is_failing:
            self._tenure.next_at = min(self._tenure.next_at, now)

    def _note_send(self, accepted: Accepted) -> None:
        self._said = self._saying
        self._sends[accepted.lease.resource_version] = accepted.sent
        while len(self._sends) > SENDS_KEPT:
            del self._sends[next(iter(self._sends))]
        self._hear_echoes()

    def _echo(self, lease: LeaseView) -> None:
        if is_newer(lease.resource_version, self._watched):
            self._watched = lease.resource_version
            self._hear_echoes()

    def _hear_echoes(self) -> None:
        """The watch shows a prefix of what happened: with one renewal all earlier ones have come back. Often it is quicker
        than the answer to the renewal, so either may come first."""
        if not self._watched:
            return
        for version in [version for version in self._sends if not is_newer(version, self._watched)]:
            self._view_sent = max(self._view_sent, self._sends.pop(version))

    def _begin(self) -> Tenure:
        identity = Identity(self._pod, self._pod_uid, self._nonce())
        return self._make(identity, self.timing, is_first=True, is_one_life=True)


def rank_of(pod: str, leader_epoch: int, candidates: list[str]) -> int:
    """The place of `pod` among the candidates for the leadership that follows `leader_epoch` (F17), 0 for the first."""
    order = ranked(f"leader/{leader_epoch}", [*candidates, pod])
    return order.index(pod)

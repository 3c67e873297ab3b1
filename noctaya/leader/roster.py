"""Who is in the fleet, and what each is to the plan: owner, receiver, donor, awaited, or gone.

Level-based: it is made from what the Leases and pods show *now*, so every worker that looks comes to the same picture.

Invariant: shards are taken for ownerless only when their owner cannot come back to them unseen: its Lease is held by nobody
(fenced, or left), by a newer incarnation that is not ready in time, or has been absent for as long as a silent one is
waited for. Anyone in doubt (silent but not fenced, missing but not for long, rejoining) keeps what it has and gets nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

from noctaya.leader.assignment import Candidate, Role
from noctaya.leader.member_record import MemberRecord, MemberState
from noctaya.leader.observation import Observation
from noctaya.leader.planner_events import MemberView

MAX_REMEMBERED = 1024
"""Of the dead, of ended containers and of pods that terminate: each."""

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


@dataclass(frozen=True, slots=True)
class RosterTiming:
    """Seconds."""

    doubt_after: float = 5.0
    """Silent for so long, two renewals are missing: nothing new is given to it."""
    rejoin_within: float = 8.5
    """A new incarnation in a pod that owned shards finds them again if it is ready by then, as after a restart in place."""
    remember_dead: float = 600.0


@dataclass(frozen=True, slots=True)
class Member:
    """A member whose Lease is there."""

    view: MemberView
    record: MemberRecord
    """The last one that could be read."""
    incarnation_since: float
    """When this holder was first seen, on our clock."""

    @property
    def is_held(self) -> bool:
        """Whether some incarnation holds the Lease."""
        return bool(self.view.incarnation)

    @property
    def is_ready(self) -> bool:
        """Whether it is warm and not about to go by its own word."""
        return self.is_held and self.record.state is MemberState.READY


@dataclass(frozen=True, slots=True)
class Picture:
    """The roster at one instant, for the plan."""

    candidates: tuple[Candidate, ...]
    doubted: frozenset[str]
    """Candidates that keep their shards only because nothing is proved about them."""
    left: frozenset[str]
    """Pods known to have ended of their own accord: no crash."""

    def roles(self) -> dict[str, Role]:
        """What each candidate is to the plan; the shards of who is not in it are ownerless."""
        return {candidate.pod: candidate.role for candidate in self.candidates}


class Roster:
    """See the module."""

    def __init__(self, pod: str, observation: Observation, timing: RosterTiming | None = None) -> None:
        self.pod = pod
        """Ours: never doubted."""
        self.timing = timing or RosterTiming()
        self.members: dict[str, Member] = {}
        self._observation = observation
        self._terminating: dict[str, None] = {}
        self._ended: dict[tuple[str, str], None] = {}
        self._dead: dict[str, tuple[float, bool]] = {}

    def seen(self, view: MemberView, now: float) -> Member | None:
        """Take a view in (that observation has not refused); the member as it was before, None for a new one."""
        before = self.members.get(view.pod)
        is_same = before is not None and before.view.incarnation == view.incarnation
        record = view.record or (before.record if before is not None and is_same else MemberRecord())
        since = before.incarnation_since if before is not None and is_same else now
        self.members[view.pod] = Member(view, record, since)
        if view.incarnation:
            self._dead.pop(view.pod, None)
        elif view.pod not in self._dead:
            _remember(self._dead, view.pod, (now, record.state is MemberState.LEFT))
        return before

    def gone(self, pod: str) -> None:
        """Its Lease is not there any more."""
        self.members.pop(pod, None)

    def terminating(self, pod: str, is_terminating: bool) -> None:
        """Whether the deletion of its pod was asked for."""
        if is_terminating:
            _remember(self._terminating, pod, None)
        else:
            self._terminating.pop(pod, None)

    def ended(self, pod: str, container: str) -> None:
        """This container of `pod` has ended, by the kubelet's word."""
        if container:
            _remember(self._ended, (pod, container), None)

    def proven_dead(self) -> list[Member]:
        """Members whose incarnation has ended for certain while its Lease still names it."""
        return [
            member
            for member in self.members.values()
            if member.is_held and (member.view.pod, member.record.container) in self._ended
        ]

    def held(self) -> list[Member]:
        """Members whose Lease somebody holds."""
        return [member for member in self.members.values() if member.is_held]

    def joining(self) -> bool:
        """Whether somebody is on the way to being ready."""
        return any(member.record.state is MemberState.JOINING for member in self.held())

    def picture(self, named: Iterable[str], now: float) -> Picture:
        """The fleet as the plan sees it. `named`: pods that a shard is, or should be, with."""
        candidates, doubted = [], set()
        for member in self.held():
            role, is_doubted = self._role(member, now)
            if role is not None:
                pod, record = member.view.pod, member.record
                candidates.append(Candidate(pod, role, record.capacity, record.version))
                if is_doubted:
                    doubted.add(pod)
        named = set(named)
        for pod in sorted(named - set(self.members)):
            if self._is_awaited(pod, now):
                candidates.append(Candidate(pod, Role.CORDONED))
                doubted.add(pod)
        self._forget(named, now)
        left = frozenset(pod for pod, (_, has_left) in self._dead.items() if has_left)
        return Picture(
            tuple(sorted(candidates, key=lambda candidate: candidate.pod)), frozenset(doubted), left
        )

    def versions(self) -> set[str]:
        """What members that hold their Lease run."""
        return {member.record.version for member in self.held()}

    def youngest(self) -> Member | None:
        """The member that was founded last."""
        return max(
            self.held(),
            key=lambda member: (member.view.created, member.incarnation_since, member.view.pod),
            default=None,
        )

    def _role(self, member: Member, now: float) -> tuple[Role | None, bool]:
        pod, state = member.view.pod, member.record.state
        if state is MemberState.JOINING:
            is_in_time = now - member.incarnation_since < self.timing.rejoin_within
            return (Role.CORDONED, True) if is_in_time else (None, False)
        if state is not MemberState.READY or pod in self._terminating or member.view.is_drain_asked:
            return Role.DONOR, False
        if pod != self.pod and self._observation.unchanged_for(pod, now) >= self.timing.doubt_after:
            return Role.CORDONED, True
        return (Role.CORDONED if member.view.is_cordon_asked else Role.OPEN), False

    def _is_awaited(self, pod: str, now: float) -> bool:
        """Whether an absent owner may still be alive: its Lease may have been deleted under it."""
        if pod in self._dead:
            return False
        self._observation.expect(pod, now)
        return not self._observation.expired([pod], now)

    def _forget(self, named: set[str], now: float) -> None:
        for pod, (since, _) in list(self._dead.items()):
            if pod not in self.members and now - since > self.timing.remember_dead:
                del self._dead[pod]
        for pod in self._observation.absent():
            if pod not in named:
                self._observation.forget(pod)


def _remember(memory: dict[_Key, _Value], key: _Key, value: _Value) -> None:
    """Keep `key` as the newest; beyond the bound the oldest goes."""
    memory.pop(key, None)
    memory[key] = value
    if len(memory) > MAX_REMEMBERED:
        del memory[next(iter(memory))]

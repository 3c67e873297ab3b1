"""The safety rules switched off one at a time, in the simulator only: each must show itself, or the simulator proves nothing.

Most are caught by some random schedule; `seeds` are such ones, found with `python -m tests.sim --mutants`. The rare ones have
a directed schedule (`directed.py`) that sets the trap on purpose.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from noctaya.leader import planner_events as leads
from noctaya.leader.lease_names import member_lease
from noctaya.leader.membership import Membership
from noctaya.leader.observation import Observation
from noctaya.leader.planner import Planner
from noctaya.leader.story import Story
from noctaya.leader.tenure import Standing, Tenure
from noctaya.workers.demand import Demand
from noctaya.workers.metric import Answers, Silence
from noctaya.workers.permission import Permission
from noctaya.workers.shard_heirs import heir_of
from noctaya.workers.shard_ownership import ShardOwnership
from noctaya.workers.shard_state import Phase, Shard, ShardTiming
from tests.sim import directed
from tests.sim.api import Api, Change
from tests.sim.rules import Rules

RULES = Rules()


class NoDeadline(Tenure):
    """Whoever holds its Lease acts until it hears otherwise."""

    def _deadline_of(self, sent: float, answered: float) -> float:
        del sent, answered
        return float("inf")


class LateDeadline(Tenure):
    """13 s instead of 6: later than others wait."""

    def _deadline_of(self, sent: float, answered: float) -> float:
        del answered
        return sent + 13.0


class DeadlineFromAnswer(Tenure):
    """Counted from when the answer came, not from when the renewal was sent."""

    def _deadline_of(self, sent: float, answered: float) -> float:
        del sent
        return answered + self.timing.self_deadline


class ManyLives(Tenure):
    """An incarnation that lost its Lease takes it again and goes on."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{**kwargs, "is_one_life": False})


class BlindMembership(Membership):
    """It acts however old its view of the Leases is."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs, view_deadline=1e9)


class TransfersFirst(ShardOwnership):
    """The record is given away first; what acts is stopped when that is known to have worked."""

    def _look_active(self, shard: Shard, now: float) -> None:
        heir = heir_of(self.state, shard, self.timing, now)
        if heir and not shard.request:
            self._write(shard, heir)

    def _accepted(self, request: int, version: str, now: float, standing: Standing) -> None:
        aim = self.state.aims.get(request)
        if aim is not None and self.state.shards[aim.shard].phase is Phase.ACTIVE:
            self._give_up(self.state.shards[aim.shard], Phase.NONE, "given away", now)
        super()._accepted(request, version, now, standing)


class ResumesOnRead(ShardOwnership):
    """A record that still names it is taken for the answer to a write that had none."""

    def _is_new_to_us(self, shard: Shard) -> bool:
        return shard.recorded >= shard.left


class TakesWithoutProof(ShardOwnership):
    """What the map gives it, it takes."""

    def _may_take(self, shard: Shard, now: float) -> bool:
        return self.state.listed_at is not None


class TakesAbsent(ShardOwnership):
    """A shard without a record is anybody's."""

    def _may_take(self, shard: Shard, now: float) -> bool:
        return not shard.version or super()._may_take(shard, now)


class BeginsUnvalidated(ShardOwnership):
    """A record that names it is enough to begin, however long ago that was."""

    def _may_begin(self, standing: Standing) -> bool:
        return True


class ForgetsEpochs(ShardOwnership):
    """The next epoch is counted from the record alone."""

    def _next_epoch(self, shard: Shard) -> int:
        return shard.recorded + 1


class ZeroForUnknown(Answers):
    """What is not known is told as zero."""

    def value(self, key: str, demand: Demand, permission: Permission, held: int = 0) -> int | Silence:
        answer = super().value(key, demand, permission, held)
        return 0 if isinstance(answer, Silence) else answer

    def is_active(self, key: str, demand: Demand, permission: Permission, held: int = 0) -> bool | Silence:
        answer = super().value(key, demand, permission, held)
        return False if isinstance(answer, Silence) else answer > 0


class UnclaimedPlanner(Planner):
    """A new leader sets to work without claiming the map."""

    def _must_claim(self) -> bool:
        return self.maps.map is None


class NeverBlind(Observation):
    """Silence counts against the others even where the watch showed nothing at all."""

    def _is_blind(self, now: float) -> bool:
        return False

    def _healthy_from(self) -> float:
        return float("-inf")


def _careless_planner(pod: str) -> Planner:
    return Planner(pod, story=Story(inputs=0, entries=200), observation=NeverBlind())


def _no_fence(api: Api, fence: leads.FenceMember, term: int, at: float) -> Change | None:
    """The fence is believed to have happened."""
    del term
    return replace(api.objects[member_lease(fence.pod)]) if member_lease(fence.pod) in api.objects else None


def _fence_anyway(api: Api, fence: leads.FenceMember, term: int, at: float) -> Change | None:
    """Whatever version the Lease is at by now."""
    found = api.objects.get(member_lease(fence.pod))
    base = str(found.version) if found is not None else None
    return api.put_lease(member_lease(fence.pod), base, "", term, at, fence.record)


@dataclass(frozen=True)
class Mutant:
    """A rule switched off. It counts as caught by any violation, in one of the seeds or in the story."""

    name: str
    rules: Rules
    seeds: tuple[int, ...] = ()
    """That catch it."""
    story: directed.Play | None = None


MUTANTS = (
    Mutant("no self-deadline", replace(RULES, tenure=NoDeadline)),
    Mutant("deadline of 13 s", replace(RULES, tenure=LateDeadline)),
    Mutant("deadline from the answer", replace(RULES, tenure=DeadlineFromAnswer), story=directed.late_answer),
    Mutant("no fence", replace(RULES, fence=_no_fence)),
    Mutant(
        "fence upon any version",
        replace(RULES, fence=_fence_anyway),
        story=directed.renewed_just_before_the_fence,
    ),
    Mutant("many lives", replace(RULES, tenure=ManyLives), story=directed.fenced_and_back),
    Mutant(
        "no view deadline", replace(RULES, membership=BlindMembership), story=directed.records_deleted_unseen
    ),
    Mutant("transfer before stopping", replace(RULES, ownership=TransfersFirst)),
    Mutant("resume on a read", replace(RULES, ownership=ResumesOnRead), story=directed.parked_handover),
    Mutant("acquire without proof", replace(RULES, ownership=TakesWithoutProof)),
    Mutant("begin without validity", replace(RULES, ownership=BeginsUnvalidated), story=directed.left_behind),
    Mutant(
        "epochs from the record alone",
        replace(RULES, ownership=ForgetsEpochs),
        story=directed.records_deleted_with_their_owner,
    ),
    Mutant(
        "absent record taken at once",
        replace(RULES, ownership=TakesAbsent),
        story=directed.records_deleted_unseen,
    ),
    Mutant(
        "absent member over at once",
        replace(RULES, shard_timing=ShardTiming(fence_after=0.0)),
        story=directed.member_deleted_unseen,
    ),
    Mutant("no epoch check at gateways", replace(RULES, is_newer_config=lambda new, old: True)),
    Mutant("zero for unknown", replace(RULES, answers=ZeroForUnknown)),
    Mutant("no map claim", replace(RULES, planner=lambda pod: UnclaimedPlanner(pod, story=Story(inputs=0)))),
)
"""Every one must be caught."""

CARELESS = Mutant("observation clocks not restarted", replace(RULES, planner=_careless_planner))
"""Safe, for a fence is a compare-and-swap; but it fences more. Caught by counting."""

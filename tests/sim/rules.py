"""The production cores that a simulated worker is made of; a mutant is a `Rules` with one of them replaced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from noctaya.leader import planner_events as leads
from noctaya.leader.lease_names import member_lease
from noctaya.leader.membership import Membership
from noctaya.leader.planner import Planner
from noctaya.leader.story import Story
from noctaya.leader.tenure import Tenure, Timing
from noctaya.workers.metric import Answers
from noctaya.workers.shard_ownership import ShardOwnership
from noctaya.workers.shard_state import ShardTiming
from tests.sim.api import Api, Change


def fence(api: Api, fence: leads.FenceMember, term: int, at: float) -> Change | None:
    """Compare-and-swap, as the shell does it: the term stays, nobody holds the Lease."""
    return api.put_lease(member_lease(fence.pod), fence.resource_version, "", term, at, fence.record)


def is_newer_config(new: tuple[int, int], old: tuple[int, int]) -> bool:
    """Whether a gateway takes a config of this (epoch, version)."""
    return new > old


def planner(pod: str) -> Planner:
    """A planner that keeps little of its story: thousands of them are made."""
    return Planner(pod, story=Story(inputs=0, entries=200))


@dataclass(frozen=True)
class Rules:
    """See the module."""

    timing: Timing = field(default_factory=Timing)
    shard_timing: ShardTiming = field(default_factory=ShardTiming)
    tenure: type[Tenure] = Tenure
    """Of the member Lease."""
    leader_tenure: type[Tenure] = Tenure
    membership: type[Membership] = Membership
    ownership: type[ShardOwnership] = ShardOwnership
    planner: Callable[[str], Planner] = planner
    answers: type[Answers] = Answers
    fence: Callable[[Api, leads.FenceMember, int, float], Change | None] = fence
    is_newer_config: Callable[[tuple[int, int], tuple[int, int]], bool] = is_newer_config

"""The leader's core: who is fenced, and which pod should own each shard. On no request's path.

Every worker runs one and tells it all it sees; only while its tenure acts does it ask for anything. Then, in this order:
1. the map is claimed by a write under our leader epoch before anything else is written (F13); a map claimed under a higher one
   makes us step down;
2. members whose end is proved, or who have been seen silent for long enough, are fenced by compare-and-swap upon the
   version that was observed (F14, F21, F23);
3. the next round of the plan is written into the map.

Invariants: at most one request is under way; each has its own deadline, and one that went unanswered is asked again upon
the same version, so that it happens once. Level-based: all that is known comes from Leases, map and pods, so that a new
leader goes on from whatever its predecessor had written (F12). While the watch is blind nothing is decided.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from noctaya.leader.assignment import Assignment
from noctaya.leader.explanation import Explanation, Forecast
from noctaya.leader.fleet import Fleet
from noctaya.leader.map_keeping import MapKeeping
from noctaya.leader.observation import Observation, ObservationTiming
from noctaya.leader.one_request import OneRequest
from noctaya.leader.planner_events import (
    Accepted,
    Action,
    BecameLeader,
    ContainerEnded,
    Event,
    FenceMember,
    LeasesListed,
    LostLeadership,
    MapGone,
    MapSeen,
    MemberGone,
    MemberSeen,
    PodSeen,
    Probe,
    ProbeAnswered,
    ReadMap,
    Refused,
    RolloutSeen,
    ShardSeen,
    StepDown,
    Tick,
    Unreachable,
    WatchAlive,
    WriteMap,
)
from noctaya.leader.planning import Planning, PlanningTiming
from noctaya.leader.roster import Member, Picture, RosterTiming
from noctaya.leader.rounds import Round
from noctaya.leader.shard_map import ShardMap
from noctaya.leader.story import Story
from noctaya.leader.suspicion import Suspicion


@dataclass(frozen=True, slots=True)
class PlannerTiming:
    """Seconds."""

    observation: ObservationTiming = field(default_factory=ObservationTiming)
    roster: RosterTiming = field(default_factory=RosterTiming)
    planning: PlanningTiming = field(default_factory=PlanningTiming)
    request_deadline: float = 5.0
    """A request that its shell never answered."""
    retry_after: float = 0.5
    reread_after: float = 0.05
    """A write that was refused is followed by a read, and both go on as fast as this at most."""


class Planner:
    """See the module."""

    def __init__(
        self,
        pod: str,
        timing: PlannerTiming | None = None,
        story: Story[Event] | None = None,
        observation: Observation | None = None,
    ) -> None:
        """`pod`: ours. `observation`: one that has run already, with the timing that it was made with."""
        self.pod = pod
        self.timing = timing or PlannerTiming()
        self.story: Story[Event] = story or Story()
        observation = observation or Observation(self.timing.observation)
        self.fleet = Fleet(pod, observation, self.timing.roster, self.story.tell)
        self.maps = MapKeeping()
        self.epoch: int | None = None
        """Ours while we lead."""
        self._suspicion = Suspicion(window=self.timing.observation.fence_after)
        self._planning = Planning(self.fleet, self.maps, self.timing.planning)
        self._requests: OneRequest[FenceMember | WriteMap | ReadMap] = OneRequest(
            self.timing.request_deadline
        )
        self._refused_fences: dict[str, str] = {}

    def on(self, event: Event, now: float) -> list[Action]:
        """Take `event` in; answer with what to do now. Without leadership that is nothing."""
        self.story.hear(event, now)
        self._take(event, now)
        return self._lead(now)

    # --- for people -------------------------------------------------------------------------------------------------------

    @property
    def map(self) -> ShardMap | None:
        """The map in force here."""
        return self.maps.map

    @property
    def is_leading(self) -> bool:
        """Whether we lead and the map is claimed under our epoch."""
        return self.epoch is not None and self.maps.is_claimed(self.epoch)

    def picture(self, now: float) -> Picture:
        """Who is in the fleet, as the plan sees it."""
        return self._planning.situation(now).picture

    def why(self, shard: int, now: float) -> Explanation:
        """Why `shard` is where it is, and where it goes (`noctaya why`)."""
        return self._planning.why(shard, now)

    def plan(self, workers: int, now: float) -> Forecast:
        """What `workers` open workers would own (`noctaya plan`)."""
        return self._planning.forecast(workers, now)

    def rebalance(self, now: float) -> Assignment:
        """The plan as if nothing held levelling off (`noctaya rebalance --dry-run`)."""
        return self._planning.level(now)

    # --- taking in --------------------------------------------------------------------------------------------------------

    def _take(self, event: Event, now: float) -> None:
        match event:
            case BecameLeader(epoch):
                self._begin(epoch, now)
            case LostLeadership():
                self._end(now, "our tenure does not act any more")
            case (
                LeasesListed()
                | MemberSeen()
                | MemberGone()
                | ShardSeen()
                | WatchAlive()
                | PodSeen()
                | ContainerEnded()
            ):
                if self.fleet.take(event, now):
                    self._planning.hold_off.joined(now)
            case MapSeen():
                self._map_seen(event, now)
            case MapGone(request):
                self._requests.answered(request)
                self.maps.gone()
                self.story.tell(now, "map", "there is none")
            case RolloutSeen(is_running, newest):
                self._planning.hold_off.told(is_running, newest)
            case ProbeAnswered(pod, incarnation, is_alive):
                if self._suspicion.answered(pod, incarnation, now, is_alive=is_alive):
                    self.fleet.observation.restart(pod, now)
                    self.story.tell(now, f"worker/{pod}", "silent, but it answers us: not fenced")
            case Accepted():
                self._accepted(event, now)
            case Refused(request):
                self._refused(request, now)
            case Unreachable(request):
                if self._requests.answered(request) is not None:
                    self._requests.wait(now + self.timing.retry_after)
            case Tick():
                pass

    def _begin(self, epoch: int, now: float) -> None:
        self.epoch = epoch
        self._requests.drop()
        self.story.tell(now, "leader", f"leading under epoch {epoch}")

    def _end(self, now: float, why: str) -> None:
        if self.epoch is not None:
            self.story.tell(now, "leader", why)
        self.epoch = None
        self._requests.drop()

    def _map_seen(self, event: MapSeen, now: float) -> None:
        self._requests.answered(event.request)
        before = self.maps.problem
        if not self.maps.seen(event):
            return
        if self.maps.problem is not None and str(self.maps.problem) != str(before):
            self.story.tell(now, "map", str(self.maps.problem))

    def _accepted(self, event: Accepted, now: float) -> None:
        self.fleet.observation.hear(now)
        pending = self._requests.answered(event.request)
        if pending is None:
            return
        match pending:
            case WriteMap(map=map_):
                self.maps.written(map_, event.resource_version, event.fleet)
            case FenceMember(pod=pod, record=record, is_proven=is_proven):
                self._refused_fences.pop(pod, None)
                if not is_proven:
                    self._suspicion.fenced(pod, now)
                member = self.fleet.roster.members.get(pod)
                if member is not None:
                    view = replace(
                        member.view, incarnation="", resource_version=event.resource_version, record=record
                    )
                    self.fleet.take(MemberSeen(view), now)
            case ReadMap():
                pass  # a read is answered by what it read

    def _refused(self, request: int, now: float) -> None:
        pending = self._requests.answered(request)
        match pending:
            case WriteMap():
                self.maps.refused()
                self._requests.wait(now + self.timing.reread_after)
                self.story.tell(now, "map", "our write met another version")
            case FenceMember(pod=pod, resource_version=version):
                # It renewed after all, or somebody else was there first: either way the watch will say.
                self.fleet.observation.restart(pod, now)
                self._refused_fences[pod] = version
                self.story.tell(now, f"worker/{pod}", "the fence was refused: its Lease has changed")
            case _:
                pass

    # --- leading ----------------------------------------------------------------------------------------------------------

    def _lead(self, now: float) -> list[Action]:
        if self.epoch is None:
            return []
        stored = self.maps.map
        if self.maps.problem is None and stored is not None and stored.leader_epoch > self.epoch:
            self._end(now, f"the map was claimed under epoch {stored.leader_epoch}, above ours")
            return [StepDown(stored.leader_epoch)]
        if not self._requests.is_free(now):
            return []
        if self.maps.needs_reading:
            return [self._ask(ReadMap(self._requests.number()), now)]
        if not self.maps.is_writable:
            return []
        if self._must_claim():
            return [self._write(self._claim(), now)]
        if not self.fleet.is_listed or not self.fleet.observation.is_healthy(now):
            return []
        actions, is_fencing = self._fence(now)
        return actions if is_fencing else [*actions, *self._assign(now)]

    def _must_claim(self) -> bool:
        return self.epoch is not None and not self.maps.is_claimed(self.epoch)

    def _claim(self) -> ShardMap:
        reason = (
            "claimed by a new leader"
            if self.maps.problem is None
            else "a map that was refused is written anew"
        )
        return self.maps.next(self.epoch or 0, reason)

    def _fence(self, now: float) -> tuple[list[Action], bool]:
        """Fences and probes that are due; True when a fence is under way now."""
        for member in self.fleet.roster.proven_dead():
            if (
                member.view.pod != self.pod
                and self._refused_fences.get(member.view.pod) != member.view.resource_version
            ):
                return [self._fence_one(member, "its container has ended", now, is_proven=True)], True
        others = {
            member.view.pod: member for member in self.fleet.roster.held() if member.view.pod != self.pod
        }
        expired = {pod: others[pod].view.incarnation for pod in self.fleet.observation.expired(others, now)}
        verdict = self._suspicion.judge(expired, len(self.fleet.roster.held()), now)
        actions: list[Action] = []
        for pod in verdict.probe:
            self.story.tell(
                now, f"worker/{pod}", "silent together with most others: probed before it is fenced"
            )
            actions.append(Probe(pod, expired[pod], others[pod].record.address))
        for pod in verdict.fence:
            silent = self.fleet.observation.unchanged_for(pod, now)
            why = f"no sign of life for {silent:.1f} s"
            return [*actions, self._fence_one(others[pod], why, now, is_proven=False)], True
        return actions, False

    def _fence_one(self, member: Member, why: str, now: float, *, is_proven: bool) -> Action:
        pod = member.view.pod
        self.story.tell(now, f"worker/{pod}", f"to be fenced: {why}")
        record = member.record.fenced(f"fenced by {self.pod}: {why}")
        fence = FenceMember(
            self._requests.number(),
            pod,
            member.view.incarnation,
            self._fence_version(member),
            record,
            is_proven,
        )
        return self._ask(fence, now)

    def _fence_version(self, member: Member) -> str:
        """The version that was observed unchanged: who renewed unseen has another one by now, and refuses (F21)."""
        return member.view.resource_version

    def _assign(self, now: float) -> list[Action]:
        step = self._planning.next(now)
        if step is None:
            return []
        wanted = self.maps.next(
            self.epoch or 0,
            step.round.reason(),
            desired=step.round.owners,
            draining=step.draining,
            cordoned=step.cordoned,
        )
        if self.maps.map is not None and wanted.is_same_plan_as(self.maps.map):
            return []
        self._tell_round(step.round, now)
        return [self._write(wanted, now)]

    def _write(self, wanted: ShardMap, now: float) -> Action:
        self.story.tell(now, "map", f"to be generation {wanted.generation}: {wanted.reason}")
        return self._ask(WriteMap(self._requests.number(), wanted, self.maps.version), now)

    def _ask(self, request: FenceMember | WriteMap | ReadMap, now: float) -> Action:
        self._requests.ask(request, now)
        return request

    def _tell_round(self, round_: Round, now: float) -> None:
        before = self.maps.map
        for cause, shards in round_.causes():
            for shard in shards:
                owner = before.owner(shard) if before is not None else None
                text = f"{cause}: from {owner or 'nobody'} to {round_.owners[shard]}"
                self.story.tell(now, f"shard/{shard}", text)

"""A fleet of model workers under one planner, in virtual time: Leases with compare-and-swap, and every map that was written.

Workers here are as simple as can be: they renew, they hand a shard over to the pod that the map names a moment after the map
says so, and take one whose holder is over. What the real ones do is `tests/sim`'s matter. Each map is checked as it is written
(I2, I3) and kept, so that a test can count moves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from noctaya.api.names import SHARD_COUNT
from noctaya.leader.lease_names import pod_of_incarnation
from noctaya.leader.member_record import MemberRecord, MemberState
from noctaya.leader.planner import Planner, PlannerTiming
from noctaya.leader.planner_events import (
    Accepted,
    Action,
    BecameLeader,
    Event,
    FenceMember,
    LeasesListed,
    MapGone,
    MapSeen,
    MemberGone,
    MemberSeen,
    MemberView,
    Probe,
    ProbeAnswered,
    ReadMap,
    Refused,
    ShardSeen,
    ShardView,
    StepDown,
    Tick,
    WatchAlive,
    WriteMap,
)
from noctaya.leader.shard_map import ShardMap, read_map

STEP = 0.25
HANDOVER_SECONDS = 0.25


@dataclass
class ModelWorker:
    """One pod's worker."""

    pod: str
    version: str = "1"
    capacity: float = 1.0
    nonce: int = 0
    state: MemberState = MemberState.READY
    is_alive: bool = True
    answers_probes: bool = False
    renewed_at: float = float("-inf")
    saw: ShardMap | None = None
    saw_at: float = 0.0

    @property
    def incarnation(self) -> str:
        return f"{self.pod}_uid_{self.nonce}"

    def record(self) -> MemberRecord:
        return MemberRecord(state=self.state, version=self.version, capacity=self.capacity, address=self.pod)


@dataclass
class FleetWorld:
    """See the module. `make`: the planner under test."""

    make: Callable[[str], Planner] = field(default=lambda pod: Planner(pod, PlannerTiming()))
    leader: str = "leader"
    now: float = 100.0
    epoch: int = 0
    version: int = 0
    fleet: str = "fleet-1"
    map: ShardMap | None = field(default_factory=ShardMap)
    map_version: str = "0"
    is_freeze_asked: bool = False
    members: dict[str, MemberView] = field(default_factory=dict)
    shards: dict[int, ShardView] = field(default_factory=dict)
    workers: dict[str, ModelWorker] = field(default_factory=dict)
    written: list[tuple[float, ShardMap]] = field(default_factory=list)
    fenced: list[tuple[float, str]] = field(default_factory=list)
    probed: list[str] = field(default_factory=list)
    moves: Counter[int] = field(default_factory=Counter)
    stepped_down: list[int] = field(default_factory=list)
    hidden: set[str] = field(default_factory=set)
    at_rest: object = None
    """When this has not changed, no shard has anything to do."""

    def __post_init__(self) -> None:
        self.planner = self.make(self.leader)

    # --- what happens to the fleet ----------------------------------------------------------------------------------------

    def join(self, *pods: str, version: str = "1", capacity: float = 1.0) -> None:
        for pod in pods:
            self.workers[pod] = ModelWorker(pod, version, capacity)
            self._renew(self.workers[pod])

    def joining(self, pod: str, version: str = "1") -> None:
        self.workers[pod] = ModelWorker(pod, version, state=MemberState.JOINING)
        self._renew(self.workers[pod])

    def crash(self, *pods: str) -> None:
        for pod in pods:
            self.workers[pod].is_alive = False

    def hide(self, *pods: str) -> None:
        """The watch shows nothing more of their Leases."""
        self.hidden |= set(pods)

    def drain(self, pod: str) -> None:
        self.workers[pod].state = MemberState.DRAINING
        self._renew(self.workers[pod])

    def leave(self, pod: str) -> None:
        """Gone cleanly: it has handed over what it could."""
        worker = self.workers.pop(pod)
        worker.state = MemberState.LEFT
        self._put(replace(self.members[pod], incarnation="", record=worker.record()))
        self.delete(pod)

    def delete(self, pod: str) -> None:
        del self.members[pod]
        self.feed(MemberGone(pod, self._next()))

    def wish(self, pod: str, *, cordon: bool = False, drain: bool = False) -> None:
        self._put(replace(self.members[pod], is_cordon_asked=cordon, is_drain_asked=drain))

    def touch_map(self) -> None:
        """Something beside the plan changed in the ShardMap's object: an annotation, say."""
        if self.map is not None:
            self.map_version = self._next()
            self.feed(MapSeen(self.fleet, self.map_version, self.map, self.is_freeze_asked))

    def lead(self, epoch: int | None = None) -> None:
        """A new leader: a fresh process that lists and is elected."""
        self.epoch = self.epoch + 1 if epoch is None else epoch
        self.planner = self.make(self.leader)
        self.feed(LeasesListed(str(self.version), tuple(self.members.values()), tuple(self.shards.values())))
        self.feed(BecameLeader(self.epoch))

    def run(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now += STEP
            for worker in list(self.workers.values()):
                if worker.is_alive and self.now - worker.renewed_at >= 2.5:
                    self._renew(worker)
            self._move_shards()
            self.feed(WatchAlive() if self.now % 1.0 == 0 else Tick())

    def until(self, claim: Callable[[], bool], limit: float = 120.0) -> float:
        """Run until `claim` holds; the seconds it took."""
        start = self.now
        while not claim():
            assert self.now - start < limit, f"not within {limit} s"
            self.run(STEP)
        return self.now - start

    # --- what can be asked ------------------------------------------------------------------------------------------------

    def counts(self) -> dict[str, int]:
        assert self.map is not None
        return dict(Counter(self.map.desired))

    def is_settled(self) -> bool:
        """Every shard is held by whom the map names, and that one lives."""
        if self.map is None or not self.map.desired:
            return False
        return all(
            owner in self.workers
            and self.workers[owner].is_alive
            and shard in self.shards
            and self.shards[shard].holder == self.workers[owner].incarnation
            for shard, owner in enumerate(self.map.desired)
        )

    def is_level(self) -> bool:
        counts = self.counts()
        open_ = [
            pod
            for pod, worker in self.workers.items()
            if worker.is_alive and worker.state is MemberState.READY
        ]
        held = [counts.get(pod, 0) for pod in open_]
        return self.is_settled() and max(held) - min(held) <= 1

    def moved_since(self, generation: int) -> int:
        """Changes of desired owner in maps after `generation`."""
        total = 0
        before: ShardMap | None = None
        for _, map_ in self.written:
            if before is not None and map_.generation > generation and before.desired:
                total += sum(a != b for a, b in zip(before.desired, map_.desired, strict=True))
            before = map_
        return total

    # --- machinery --------------------------------------------------------------------------------------------------------

    def feed(self, event: Event) -> None:
        for action in self.planner.on(event, self.now):
            self.feed_all(self.perform(action))

    def feed_all(self, events: list[Event]) -> None:
        for event in events:
            self.feed(event)

    def perform(self, action: Action) -> list[Event]:
        match action:
            case ReadMap(request):
                if self.map is None:
                    return [MapGone(request)]
                return [
                    MapSeen(self.fleet, self.map_version, self.map, self.is_freeze_asked, request=request)
                ]
            case WriteMap(request, map_, version):
                return self._write_map(request, map_, version)
            case FenceMember():
                return self._fence(action)
            case Probe(pod, incarnation):
                self.probed.append(pod)
                return [ProbeAnswered(pod, incarnation, self.workers[pod].answers_probes)]
            case StepDown(epoch):
                self.stepped_down.append(epoch)
                return []

    def _write_map(self, request: int, map_: ShardMap, version: str | None) -> list[Event]:
        if version != (self.map_version if self.map is not None else None):
            return [Refused(request)]
        assert read_map(map_.data()) == map_
        if self.map is None:
            self.fleet += "+"
        elif self.written:
            assert map_.supersedes(self.written[-1][1]), "I2"
        assert len(map_.desired) in (0, SHARD_COUNT), "I3"
        if self.map is not None and self.map.desired:
            self.moves.update(s for s in range(SHARD_COUNT) if self.map.desired[s] != map_.desired[s])
        self.map, self.map_version = map_, self._next()
        self.written.append((self.now, map_))
        for worker in self.workers.values():
            worker.saw, worker.saw_at = map_, self.now
        return [Accepted(request, self.map_version, self.fleet)]

    def _fence(self, fence: FenceMember) -> list[Event]:
        held = self.members.get(fence.pod)
        if held is None or held.resource_version != fence.resource_version:
            return [Refused(fence.request)]
        self.fenced.append((self.now, fence.pod))
        view = replace(held, incarnation="", record=fence.record, resource_version=self._next())
        self.members[fence.pod] = view
        return [Accepted(fence.request, view.resource_version), MemberSeen(view)]

    def _renew(self, worker: ModelWorker) -> None:
        held = self.members.get(worker.pod)
        if held is not None and not held.incarnation:
            worker.nonce += 1
        worker.renewed_at = self.now
        base = held or MemberView(worker.pod, "", "", None, created=f"{self.now:09.2f}-{worker.pod}")
        self._put(replace(base, incarnation=worker.incarnation, record=worker.record()))

    def _put(self, view: MemberView) -> None:
        view = replace(view, resource_version=self._next())
        self.members[view.pod] = view
        if view.pod not in self.hidden:
            self.feed(MemberSeen(view))

    def _move_shards(self) -> None:
        if self.map is None or not self.map.desired:
            return
        key = (
            self.map_version,
            tuple((each.incarnation, each.is_alive, each.state) for each in self.workers.values()),
            tuple(view.incarnation for view in self.members.values()),
            len(self.shards),
        )
        if key == self.at_rest:
            return
        self.at_rest = key
        for shard, owner in enumerate(self.map.desired):
            taker, held = self.workers.get(owner), self.shards.get(shard)
            if taker is None or not taker.is_alive or taker.state is MemberState.JOINING:
                continue
            if held is not None and held.holder == taker.incarnation:
                continue
            giver = self.workers.get(pod_of_incarnation(held.holder)) if held is not None else None
            if giver is not None and held is not None and giver.incarnation == held.holder:
                is_over = not self.members[giver.pod].incarnation if giver.pod in self.members else False
                if not is_over and (not giver.is_alive or self.now - taker.saw_at < HANDOVER_SECONDS):
                    self.at_rest = None
                    continue
            view = ShardView(shard, taker.incarnation, (held.epoch if held else 0) + 1)
            self.shards[shard] = view
            self.at_rest = None
            self.feed(ShardSeen(view))

    def _next(self) -> str:
        self.version += 1
        return str(self.version)


def started(count: int, make: Callable[[str], Planner] | None = None, *, version: str = "1") -> FleetWorld:
    """A settled and level fleet of `count` workers `w0`, `w1`, …, led by a pod of its own that owns nothing."""
    world = FleetWorld(make) if make is not None else FleetWorld()
    world.join(*(f"w{index}" for index in range(count)), version=version)
    world.lead()
    world.until(world.is_level)
    return world

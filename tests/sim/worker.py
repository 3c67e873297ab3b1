"""One worker process: the production cores under a shell that is as dull as the real one must be.

It turns what comes in into events, carries out actions, and decides nothing. A pause (`SIGSTOP`, a long collection) keeps
everything that comes in until it ends, and lets it loose in any order; a crash forgets all but what others hold.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from noctaya.leader import planner_events as leads
from noctaya.leader.member_record import MemberRecord, MemberState
from noctaya.leader.membership import Began, Departed, DrainAsked, Ended, Synced, rank_of
from noctaya.leader.tenure import (
    Accepted,
    HigherEpochSeen,
    Identity,
    Leaving,
    Read,
    Refused,
    Seen,
    Standing,
    Tick,
    Unreachable,
    Watched,
    Write,
)
from noctaya.leader.tenure import (
    Event as TenureEvent,
)
from noctaya.workers import shard_events as owns
from noctaya.workers.demand import DemandBook
from noctaya.workers.metric import Silence
from noctaya.workers.permission import Permission
from noctaya.workers.shard_state import Phase
from tests.sim.api import LEADER, MAP, Change, member_lease, shard_lease
from tests.sim.watching import Watching

if TYPE_CHECKING:
    from tests.sim.world import Pod, World

TICK = 0.25
PLAN_TICK = 0.4
"""Of a leader's planner, when nothing else was told to it: half of a schedule's work would be ticks of it."""


class Worker:
    """See the module. `pod` outlives it."""

    def __init__(self, world: World, pod: Pod, *, is_founder: bool) -> None:
        self.world, self.pod, self.name = world, pod, pod.name
        self.clockwork, self.network, self.api = world.clockwork, world.network, world.api
        self.is_alive = True
        self.container = f"{pod.uid}/{pod.restarts}"
        parts, rules = world.parts, world.rules
        self.membership = rules.membership(
            pod.name, pod.uid, rules.timing, nonce=world.nonce, tenure=rules.tenure
        )
        self.ownership = rules.ownership(
            pod.name, standing=self.membership.standing, timing=rules.shard_timing, shards=parts
        )
        self.tenure = rules.leader_tenure(
            Identity(pod.name, pod.uid, world.nonce()), rules.timing, is_first=is_founder
        )
        self.planner = rules.planner(pod.name)
        self.book, self.answers = DemandBook(), rules.answers()
        self.watching = Watching(self)
        self._led_epoch: int | None = None
        self._had: tuple[Standing, MemberState] = (Standing.NONE, MemberState.JOINING)
        self._backlog: list[tuple[Callable[[], None], bool]] = []
        self._effect_at = self._ticks = 0
        self._planned_at = 0.0
        self._told_status: dict[int, int] = {}
        self.owned: dict[int, None] = {}

    # -- its life ------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """The container starts."""
        self.book.begin(self.clock())
        self._owns(owns.Began(str(self.membership.identity)))
        self.watching.start()
        self._tick_later(self.clockwork.random.uniform(0.0, TICK))

    def synced(self) -> None:
        """The first list has come."""
        self._member(Synced())

    def drain(self) -> None:
        """SIGTERM."""
        self.run(lambda: self._member(DrainAsked()))

    def die(self) -> None:
        """SIGKILL, or the end of a clean exit."""
        self.is_alive = False
        self.watching.stop()
        self.world.checker.ended(self)

    def clock(self) -> float:
        """Its own steady clock: an offset and a rate that are nobody else's."""
        return self.pod.offset + self.clockwork.now * self.pod.rate

    def run(self, work: Callable[[], None], *, is_watch: bool = False) -> None:
        """Something came in: handled now, after the pause, or never. `is_watch`: on the one stream that is read in order."""
        if not self.is_alive:
            return
        if self.pod.paused:
            self._backlog.append((work, is_watch))
        else:
            work()

    def resume(self) -> None:
        """The pause is over; the loop runs what is ready, and nobody says in which order, but for what one stream has brought."""
        backlog, self._backlog = self._backlog, []
        in_order = iter([work for work, is_watch in backlog if is_watch])
        self.clockwork.random.shuffle(backlog)
        for work, is_watch in backlog:
            self.run(next(in_order) if is_watch else work, is_watch=is_watch)

    def permission(self, shard: int) -> Permission:
        """What it may do just now."""
        return self.ownership.permission(shard, self.clock())

    # -- ticks ---------------------------------------------------------------------------------------------------------

    def _tick_later(self, delay: float) -> None:
        self.clockwork.later(delay, lambda: self.run(self._tick))

    def _tick(self) -> None:
        now = self.clock()
        if now >= self.membership.next_at:
            self._member(Tick())
        if self.membership.state is MemberState.READY and now >= self.tenure.next_at:
            self._stand(Tick())
        elif self._led_epoch is not None or self.tenure.standing(now) is not Standing.NONE:
            self._stand(Tick())
        self._follow_leadership()
        if self.planner.epoch is not None and now - self._planned_at >= PLAN_TICK:
            self._plan(leads.Tick())
        state = self.ownership.state
        if state.restless or state.drains_since is not None:
            self._owns(owns.Tick())
        self._ticks += 1
        if self._ticks % 2 == 0:
            self._act(now)
        self._tick_later(TICK)

    def _act(self, now: float) -> None:
        """One of the shards that it owns has something to do."""
        if not self.owned:
            return
        self._effect_at += 1
        owned = list(self.owned)
        shard = owned[self._effect_at % len(owned)]
        if self.ownership.permission(shard, now) is not Permission.ACT:
            return
        epoch = self.ownership.epoch(shard)
        self.world.checker.effect(self, shard, epoch)
        self.world.publish(self, shard, epoch, self._effect_at)
        if self._told_status.get(shard) != epoch:
            self._write_status(shard, epoch)

    def _write_status(self, shard: int, epoch: int) -> None:
        def serve() -> bool:
            accepted = self.api.put_status(shard, epoch, self.clockwork.now)
            if accepted:
                self._told_status[shard] = epoch
                self.world.changed()
            else:
                self.world.checker.figures.stale_refused += 1
            return accepted

        self.network.ask_api(self.name, serve, lambda accepted: None, lambda: None)

    # -- membership ----------------------------------------------------------------------------------------------------

    def _member(self, event: object) -> None:
        actions = self.membership.on(event, self.clock())  # type: ignore[arg-type]
        for action in actions:
            match action:
                case Read():
                    self._read(member_lease(self.name), self._member)
                case Write():
                    record = self._record(action)
                    self._write(member_lease(self.name), action, self._member, record)
                case Ended():
                    self._owns(owns.Began(""))
                case Began(identity):
                    self._owns(owns.Began(str(identity)))
        self._note_standing()

    def _record(self, write: Write) -> MemberRecord:
        state = self.membership.state if write.holder else MemberState.LEFT
        return MemberRecord(
            state=state, version=self.pod.version, container=self.container, address=self.name
        )

    def _note_standing(self) -> None:
        had, self._had = self._had, (self.membership.standing(self.clock()), self.membership.state)
        if had[1] is not self._had[1] and self._had[1] is not MemberState.LEFT:
            self._owns(owns.StateSeen(self._had[1]))

    def _read(self, name: str, feed: Callable[[TenureEvent], None]) -> None:
        def answered(change: Change | None) -> None:
            self.run(lambda: feed(Seen(change.view if change is not None else None)))

        self.network.ask_api(
            self.name, lambda: self.api.read(name), answered, lambda: self.run(lambda: feed(Unreachable()))
        )

    def _write(
        self,
        name: str,
        write: Write,
        feed: Callable[[TenureEvent], None],
        record: MemberRecord | None = None,
    ) -> None:
        sent = self.clock()

        def serve() -> Change | None:
            change = self.api.put_lease(
                name, write.resource_version, write.holder, write.epoch, self.clockwork.now, record
            )
            self.world.changed()
            return change

        def answered(change: Change | None) -> None:
            event = Refused() if change is None or change.view is None else Accepted(sent, change.view)
            self.run(lambda: feed(event))

        self.network.ask_api(
            self.name, serve, answered, lambda: self.run(lambda: feed(Unreachable())), what=(name, write)
        )

    # -- leading -------------------------------------------------------------------------------------------------------

    def _stand(self, event: TenureEvent) -> None:
        for action in self.tenure.on(event, self.clock()):
            if isinstance(action, Read):
                self._read(LEADER, self._stand)
            else:
                self._write(LEADER, action, self._stand)
        self._follow_leadership()

    def _follow_leadership(self) -> None:
        epoch = self.tenure.epoch if self.tenure.standing(self.clock()) is Standing.ACT else None
        if epoch == self._led_epoch:
            return
        self._led_epoch = epoch
        self._plan(leads.BecameLeader(epoch) if epoch is not None else leads.LostLeadership())

    def _plan(self, event: leads.Event) -> None:
        self._planned_at = now = self.clock()
        for action in self.planner.on(event, now):
            self._lead(action)

    def _lead(self, action: leads.Action) -> None:
        match action:
            case leads.StepDown(epoch):
                self._stand(HigherEpochSeen(epoch))
            case leads.Probe(pod, incarnation, _):
                self._probe(pod, incarnation)
            case leads.ReadMap(request):
                self._read_map(request)
            case _ if self.tenure.standing(self.clock()) is not Standing.ACT:
                self._plan(leads.Unreachable(action.request))
            case leads.WriteMap():
                self._write_map(action)
            case leads.FenceMember():
                self._fence(action)

    def _fence(self, fence: leads.FenceMember) -> None:
        epoch = self.tenure.epoch

        def serve() -> Change | None:
            before = self.api.read(member_lease(fence.pod))
            term = before.view.epoch if before is not None and before.view is not None else 0
            change = self.world.rules.fence(self.api, fence, term, self.clockwork.now)
            if change is not None:
                self.world.checker.fenced(self.name, epoch)
                self.world.changed()
            return change

        self._ask_for_plan(fence, serve)

    def _write_map(self, write: leads.WriteMap) -> None:
        def serve() -> Change | None:
            change = self.api.put_map(write.resource_version, write.map, self.clockwork.now)
            if change is not None:
                self.world.checker.mapped(change.uid, write.map)
                self.world.changed()
            return change

        self._ask_for_plan(write, serve)

    def _ask_for_plan(
        self, action: leads.FenceMember | leads.WriteMap, serve: Callable[[], Change | None]
    ) -> None:
        request = action.request

        def answered(change: Change | None) -> None:
            event: leads.Event = leads.Refused(request)
            if change is not None:
                event = leads.Accepted(request, str(change.version), change.uid)
            self.run(lambda: self._plan(event))

        self.network.ask_api(
            self.name,
            serve,
            answered,
            lambda: self.run(lambda: self._plan(leads.Unreachable(request))),
            what=action,
        )

    def _read_map(self, request: int) -> None:
        def answered(change: Change | None) -> None:
            event: leads.Event = leads.MapGone(request)
            if change is not None and change.map is not None:
                event = leads.MapSeen(change.uid, str(change.version), change.map, request=request)
            self.run(lambda: self._plan(event))

        self.network.ask_api(
            self.name,
            lambda: self.api.read(MAP),
            answered,
            lambda: self.run(lambda: self._plan(leads.Unreachable(request))),
        )

    def _probe(self, pod: str, incarnation: str) -> None:
        is_open = [True]

        def result(is_alive: bool) -> None:
            if is_open[0]:
                is_open[0] = False
                self.run(lambda: self._plan(leads.ProbeAnswered(pod, incarnation, is_alive)))

        def ask(peer: Worker) -> None:
            if str(peer.membership.identity) == incarnation:
                peer.tell(self.name, lambda worker: result(True))

        self.clockwork.later(1.0, lambda: result(False))
        self.tell(pod, ask)

    # -- owning --------------------------------------------------------------------------------------------------------

    def _owns(self, event: owns.Event) -> None:
        actions: Sequence[owns.Action] = self.ownership.on(event, self.clock())
        for action in actions:
            self._own(action)

    def _own(self, action: owns.Action) -> None:
        me = str(self.membership.identity)
        match action:
            case owns.CasShard():
                self._cas(action)
            case owns.StartShard(shard, epoch):
                self.owned[shard] = None
                self.answers.forget(f"s{shard}")
                self.world.checker.started(self, shard, epoch)
                self._write_status(shard, epoch)
            case owns.StopShard(shard):
                self.owned.pop(shard, None)
                phase = self.ownership.state.shards[shard].phase
                self.world.checker.stopped(self, shard, is_graceful=phase is Phase.STOPPING)
                self.clockwork.later(
                    self.world.stop_seconds(), lambda: self.run(lambda: self._owns(owns.Stopped(shard)))
                )
            case owns.Prepare(peer, shard):
                self.tell_incarnation(peer, owns.PrepareAsked(me, shard))
            case owns.AnswerPrepared(peer, shard):
                self.tell_incarnation(peer, owns.Prepared(me, shard))
            case owns.SendState(peer, shard):
                self._send_state(peer, shard)
            case owns.Announce(shard, holder, epoch, version):
                self.tell_incarnation(holder, owns.Told(shard, holder, epoch, version))
            case owns.AskResign(shard, holder, epoch):
                self.tell_incarnation(holder, owns.ResignAsked(me, shard, holder, epoch))
            case owns.AnswerResigned(peer, shard, holder, epoch):
                self.tell_incarnation(peer, owns.Resigned(shard, holder, epoch))
            case owns.AskEpoch(shard):
                for pod in list(self.world.workers):
                    if pod != self.name:
                        self.tell(pod, lambda worker: worker._owns(owns.EpochAsked(me, shard)))
            case owns.AnswerEpoch(peer, shard, epoch):
                self.tell_incarnation(peer, owns.HigherEpochSeen(shard, epoch))
            case owns.Drained():
                self._leave()

    def _cas(self, cas: owns.CasShard) -> None:
        def serve() -> Change | None:
            change = self.api.put_lease(
                shard_lease(cas.shard), cas.version, cas.holder, cas.epoch, self.clockwork.now
            )
            if change is not None:
                self.world.checker.recorded(cas.shard, cas.holder, cas.epoch)
                self.world.changed()
            return change

        def answered(change: Change | None) -> None:
            event: owns.Event = owns.CasRefused(cas.request)
            if change is not None:
                event = owns.CasAccepted(cas.request, str(change.version))
            self.run(lambda: self._owns(event))

        self.network.ask_api(
            self.name,
            serve,
            answered,
            lambda: self.run(lambda: self._owns(owns.CasUnanswered(cas.request))),
            what=cas,
        )

    def _send_state(self, peer: str, shard: int) -> None:
        def taken(worker: Worker) -> None:
            worker._owns(owns.StateTaken(peer, shard))

        def ask(worker: Worker) -> None:
            if str(worker.membership.identity) == peer:
                worker.tell(self.name, taken)

        self.tell(peer.partition("_")[0], ask)

    def _leave(self) -> None:
        """Everything is handed over: leadership last, then the member Lease, then the process ends."""
        self._stand(Leaving())
        self._member(Departed())
        self.clockwork.later(0.5, lambda: self.world.exited(self))

    # -- peers ---------------------------------------------------------------------------------------------------------

    def tell(self, pod: str, deliver: Callable[[Worker], None]) -> None:
        """A message to whatever process runs in `pod` when it arrives."""
        world = self.world

        def arrive() -> None:
            worker = world.workers.get(pod)
            if worker is not None:
                worker.run(lambda: deliver(worker))

        self.network.tell(self.name, pod, arrive)

    def tell_incarnation(self, incarnation: str, event: owns.Event) -> None:
        """A message to one incarnation; none other takes it."""

        def deliver(worker: Worker) -> None:
            if str(worker.membership.identity) == incarnation:
                worker._owns(event)

        self.tell(incarnation.partition("_")[0], deliver)

    # -- what the watch shows ------------------------------------------------------------------------------------------

    def take(self, change: Change) -> None:
        """One change, in order."""
        if change.leads is not None:
            self._plan(change.leads)
        if change.name == LEADER:
            self._rank()
            self._watch_leader(change)
        elif change.owns is not None:
            self._owns(change.owns)
        if change.name == member_lease(self.name):
            self._member(Watched(change.view))

    def take_list(self, version: int, objects: dict[str, Change], gone: list[Change]) -> None:
        """A complete list; `gone` are changes that say of what was seen before that it is not there."""
        members = [change for change in objects.values() if isinstance(change.leads, leads.MemberSeen)]
        shards = [change for change in objects.values() if isinstance(change.leads, leads.ShardSeen)]
        self._plan(
            leads.LeasesListed(
                str(version),
                tuple(
                    change.leads.member for change in members if isinstance(change.leads, leads.MemberSeen)
                ),
                tuple(change.leads.shard for change in shards if isinstance(change.leads, leads.ShardSeen)),
            )
        )
        # Members first: of two halves of one list, the one that is ahead must be theirs (`shard_proof.py`).
        for change in (*members, *gone, *shards):
            if change.owns is not None:
                self._owns(change.owns)
        for change in objects.values():
            if not isinstance(change.leads, leads.MemberSeen | leads.ShardSeen):
                self.take(change)
        if MAP not in objects:
            self._plan(leads.MapGone())
        self._owns(owns.Listed())
        own = objects.get(member_lease(self.name))
        self._member(Watched(own.view if own is not None else None))

    def _watch_leader(self, change: Change) -> None:
        if self.membership.state is MemberState.READY:
            self._stand(Watched(change.view))

    def _rank(self) -> None:
        ready = list(self.ownership.state.proof.receivers())
        self.tenure.rank = rank_of(self.name, self.tenure.shown_epoch, ready)

    def hear_epochs(self, config: dict[int, tuple[str, int, int]]) -> None:
        """A gateway reports under which epochs it knows the shards."""
        shards = self.ownership.state.shards
        for shard, (_, epoch, _) in config.items():
            if epoch > shards[shard].floor:
                self._owns(owns.HigherEpochSeen(shard, epoch))

    # -- KEDA ----------------------------------------------------------------------------------------------------------

    def is_active(self, service: str, shard: int) -> bool | Silence:
        """What it tells KEDA about a service of its own shard."""
        now = self.clock()
        return self.answers.is_active(
            service, self.book.demand(service, now), self.ownership.permission(shard, now)
        )

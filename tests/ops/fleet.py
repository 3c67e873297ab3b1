"""A model fleet whose first worker answers on a real admin port: its planner, ownership and membership are the product's cores.

The world runs on virtual time. `step` runs it on, and every question to the port steps it, so that what a client waits for
happens while it waits.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry

from noctaya.leader.member_record import MemberState
from noctaya.leader.membership import Membership, Synced
from noctaya.leader.tenure import (
    Accepted,
    LeaseView,
    Read,
    Seen,
    Standing,
    Tick,
    Timing,
    Watched,
    Write,
)
from noctaya.workers import shard_events as owns
from noctaya.workers.admin import Query, admin_app
from noctaya.workers.fleet_queries import fleet_queries
from noctaya.workers.fleet_views import Cores
from noctaya.workers.listening import listening
from noctaya.workers.problems import Problems
from noctaya.workers.shard_ownership import ShardOwnership
from noctaya.workers.shard_story import Recording
from tests.leader.fleet_world import FleetWorld

ME = "w0"
STEP_SECONDS = 1.0


@dataclass
class Fleet:
    """See the module. `w0` leads, and is the worker that is asked."""

    world: FleetWorld
    membership: Membership
    ownership: ShardOwnership
    versions: Any = field(default_factory=lambda: count(1))
    records: dict[int, tuple[str, int]] = field(default_factory=dict)
    before_step: Callable[[], None] = lambda: None
    asked: list[str] = field(default_factory=list)

    @property
    def cores(self) -> Cores:
        return Cores(self.world.planner, self.ownership, self.membership)

    @property
    def now(self) -> float:
        return self.world.now

    def clock(self) -> float:
        return self.world.now

    def step(self, seconds: float = STEP_SECONDS) -> None:
        """Run the world on; w0's ownership sees what its planner saw."""
        self.before_step()
        self.world.run(seconds)
        renew(self.membership, self.now)
        self.follow()

    def follow(self) -> None:
        for pod, view in self.world.members.items():
            self.own(owns.MemberSeen(pod, view.incarnation, view.record.state if view.record else None))
        for pod in set(self.ownership.state.proof.peers) - set(self.world.members):
            self.own(owns.MemberGone(pod))
        for shard, record in self.world.shards.items():
            if self.records.get(shard) != (record.holder, record.epoch):
                self.records[shard] = (record.holder, record.epoch)
                self.own(owns.RecordSeen(shard, record.holder, record.epoch, str(next(self.versions))))
        if self.world.map is not None:
            found = self.world.map
            self.own(owns.PlanSeen(self.world.planner.maps.fleet, found.generation, found.desired))

    def own(self, event: owns.Event) -> None:
        self.ownership.on(event, self.now)

    def queries(self) -> dict[str, Query]:
        return {
            name: self._stepping(name, query) for name, query in fleet_queries(self.cores, self.clock).items()
        }

    def _stepping(self, name: str, query: Query) -> Query:
        def answer(parameters: Mapping[str, str]) -> Any:
            self.asked.append(name)
            self.step()
            return query(parameters)

        return answer

    @asynccontextmanager
    async def serving(self, host: str = "127.0.0.1") -> AsyncIterator[str]:
        """The address of w0's admin port."""
        app = admin_app(
            is_synced=lambda: True,
            problems=Problems(),
            metrics=CollectorRegistry(),
            views={},
            queries=self.queries(),
        )
        async with listening(app, "admin port", host, 0, "NOCTAYA_ADMIN__PORT") as port:
            yield f"http://{host}:{port}"


def fleet_of(workers: int = 3, *, version: str = "1") -> Fleet:
    """A settled, level fleet of `w0`, `w1`, …"""
    world = FleetWorld(leader=ME)
    world.join(*(f"w{index}" for index in range(workers)), version=version)
    world.lead()
    world.until(world.is_level)
    membership = member(world.now)
    ownership = ShardOwnership(ME, standing=lambda now: Standing.ACT)
    ownership.recording = Recording()
    fleet = Fleet(world, membership, ownership)
    fleet.own(owns.Began(world.workers[ME].incarnation))
    fleet.own(owns.StateSeen(MemberState.READY))
    fleet.follow()
    fleet.own(owns.Listed())
    fleet.step(15.0)
    return fleet


def member(now: float) -> Membership:
    """READY, valid, its claim seen on the watch."""
    made = Membership(ME, "uid", Timing(), nonce=lambda: "0")
    made.on(Tick(), now)
    made.on(Synced(), now)
    renew(made, now)
    assert (made.standing(now), made.state) == (Standing.ACT, MemberState.READY)
    return made


def renew(membership: Membership, now: float) -> None:
    """Answer all that it asks at `now`, as a healthy API server does."""
    asked = [*membership.on(Tick(), now)] or [Read()]
    for _ in range(4):
        done, asked = asked, []
        for action in done:
            match action:
                case Read():
                    holder = membership.holder
                    asked += membership.on(
                        Seen(LeaseView(holder, membership.term, _version(now)) if holder else None), now
                    )
                case Write(holder, epoch):
                    lease = LeaseView(holder, epoch, _version(now))
                    asked += membership.on(Accepted(now, lease), now)
                    asked += membership.on(Watched(lease), now)


_versions = count(1_000_000)


def _version(now: float) -> str:
    del now
    return str(next(_versions))


def reword(fleet: Fleet, pod: str, **changes: Any) -> None:
    """Another record on the member Lease of `pod`, until its next renewal."""
    view = fleet.world.members[pod]
    assert view.record is not None
    fleet.world._put(replace(view, record=msgspec.structs.replace(view.record, **changes)))

"""The planner's shell: what the watches show goes in, and what a leader asks for is done by one request each.

Every worker runs one. `hear` and `tenure_changed` are called from the loop and never wait; `run` lets time pass and makes the
requests (`leader_requests.py`), whose answers are heard like everything else. Nothing is decided here.

Fails safe: while nobody runs `run`, or the tenure does not act, nothing is written; the map that is in force stays so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from noctaya.kube.client import Client
from noctaya.kube.clock import boottime
from noctaya.kube.leases import Leases
from noctaya.leader.leader_requests import LeaderRequests, Request
from noctaya.leader.membership import rank_of
from noctaya.leader.planner import Planner
from noctaya.leader.planner_events import (
    BecameLeader,
    Event,
    FenceMember,
    LostLeadership,
    StepDown,
    Tick,
    WriteMap,
)
from noctaya.leader.renewal import Renewal
from noctaya.leader.shard_map import ShardMap
from noctaya.leader.story import Entry
from noctaya.leader.tenure import Standing, Tenure
from noctaya.telemetry import context

log = logging.getLogger(__name__)

LEADING_TICK_SECONDS: Final = 0.25
IDLE_TICK_SECONDS: Final = 1.0
MAX_WAITING: Final = 2048
"""Requests that `run` has not begun yet: one, and a probe for every member. Beyond it (nobody runs `run`) they are dropped, as
if they had never been answered."""


class Leading:
    """See the module. `planner` may be looked at and asked; it is told things through this object alone."""

    def __init__(
        self,
        pod: str,
        renewal: Renewal[Tenure],
        leases: Leases,
        client: Client,
        namespace: str,
        *,
        probe: Callable[[str, str], Awaitable[bool]],
        on_map: Callable[[str, ShardMap], None],
        planner: Planner | None = None,
        clock: Callable[[], float] = boottime,
    ) -> None:
        """`probe(incarnation, address)`: whether that very incarnation answers. `on_map(fleet, map)`: the map in force, whenever
        it or the fleet's id has changed; it must not raise.
        """
        self.planner = planner or Planner(pod)
        self.planner.story.on_entry = self._log
        self._pod = pod
        self._renewal = renewal
        self._on_map = on_map
        self._clock = clock
        self._requests = LeaderRequests(
            leases, client, namespace, acts_under=self.acts_under, probe=probe, clock=clock
        )
        self._epoch: int | None = None
        """Of the tenure that the planner was last told of; None while it does not act."""
        self._waiting: asyncio.Queue[tuple[Request, int | None]] = asyncio.Queue(MAX_WAITING)
        self._told: tuple[str, ShardMap | None] = ("", None)

    @property
    def problem(self) -> str:
        """Why what this leader asks for is not done, each request's verb and resource named; empty when all is well."""
        return self._requests.problem

    @property
    def map_problem(self) -> str:
        """Why the ShardMap that is stored is not obeyed; empty when it is."""
        problem = self.planner.maps.problem
        return str(problem) if problem is not None else ""

    def hear(self, event: Event) -> None:
        """Take in what the watches show, on every worker, whether it leads or not."""
        actions = self.planner.on(event, self._clock())
        self._tell_map()
        for action in actions:
            if isinstance(action, StepDown):
                self._renewal.see_epoch(action.epoch)
            else:
                self._do_later(action)

    def tenure_changed(self) -> None:
        """Standing or epoch of the leader's tenure may have changed."""
        epoch = self._renewal.tenure.epoch
        now_under = epoch if self.acts_under(epoch) else None
        if now_under == self._epoch:
            return
        self._epoch = now_under
        if now_under is None:
            self._requests.forget_problems()
        self.hear(BecameLeader(now_under) if now_under is not None else LostLeadership())

    def tell_writes(self, hear: Callable[[FenceMember | WriteMap, int | None], None]) -> None:
        """`hear(request, epoch)` directly before each write of ours, from now on."""
        self._requests.on_write = hear

    def acts_under(self, epoch: int | None) -> bool:
        """Whether our tenure acts at this instant, and under `epoch`: asked directly before every write."""
        tenure = self._renewal.tenure
        return tenure.standing(self._clock()) is Standing.ACT and tenure.epoch == epoch

    def rank(self, ready: Sequence[str]) -> None:
        """Take the place among `ready` (pods) that is ours when the Lease becomes free."""
        tenure = self._renewal.tenure
        tenure.rank = rank_of(self._pod, tenure.shown_epoch, list(ready))

    async def run(self) -> None:
        """Let time pass for the planner and make its requests, until cancelled. Cancelling writes nothing."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._tick())
            while True:
                request, epoch = await self._waiting.get()
                tasks.create_task(self._answer(request, epoch))

    async def _tick(self) -> None:
        while True:
            self.tenure_changed()  # a deadline passes without an event
            self.hear(Tick())
            await asyncio.sleep(LEADING_TICK_SECONDS if self._epoch is not None else IDLE_TICK_SECONDS)

    async def _answer(self, request: Request, epoch: int | None) -> None:
        self.hear(await self._requests.carry_out(request, epoch))

    def _do_later(self, request: Request) -> None:
        try:
            self._waiting.put_nowait((request, self._epoch))
        except asyncio.QueueFull:
            log.warning("a leader's request is dropped", extra=context(request=type(request).__name__))

    def _tell_map(self) -> None:
        fleet, map_ = self.planner.maps.fleet, self.planner.maps.map
        told_fleet, told = self._told
        if map_ is None or (map_ is told and fleet == told_fleet):
            return
        self._told = (fleet, map_)
        if map_ != told or fleet != told_fleet:
            self._on_map(fleet, map_)

    def _log(self, entry: Entry) -> None:
        """Shards move by the dozen, and who does not lead only sees what the leader tells anyway: both for who looks closer."""
        is_quiet = self.planner.epoch is None or entry.subject.startswith("shard/")
        log.log(
            logging.DEBUG if is_quiet else logging.INFO,
            "leading",
            extra=context(subject=entry.subject, text=entry.text, epoch=self.planner.epoch),
        )

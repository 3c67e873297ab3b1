"""Where demand comes in: gateways' reports and the API's view of gateways go into the book, its edges come out as pushes.

Every worker takes every report, owner or not, so that a new owner has fresh ones at hand, and pushes on the streams that KEDA
holds here: `true` is safe from anyone (DESIGN section 4), and only who holds a stream can follow it up.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from noctaya.api.names import shard_of
from noctaya.kube import Store
from noctaya.kube.clock import boottime
from noctaya.kube.objects import Pod
from noctaya.telemetry import context
from noctaya.wire import control
from noctaya.workers.demand import DemandBook, Edge, Rose, Share
from noctaya.workers.gateways import PodName, gateway_containers
from noctaya.workers.objects import service_key, shard_of_key
from noctaya.workers.permission import Permission
from noctaya.workers.pushes import Push, Pushes
from noctaya.workers.recency import LONGEST_HOLD_SECONDS, Recency
from noctaya.workers.wakes import WakeLog

log = logging.getLogger(__name__)

SWEEP_SECONDS = 1.0
ALERT_SECONDS = 300.0
"""Demand that is unknown for so long is worth a person's look."""


class Authority(Protocol):
    """What of `Ownership` is asked."""

    fleet: str

    def permission(self, shard: int) -> Permission: ...
    def epoch(self, shard: int) -> int: ...
    def owned(self) -> list[int]: ...
    def see_epoch(self, shard: int, epoch: int) -> None: ...


class Intake:
    """See the module. `push` sends what the push policy decided."""

    def __init__(
        self,
        book: DemandBook,
        pushes: Pushes,
        authority: Authority,
        *,
        push: Callable[[Iterable[Push]], None],
        wakes: WakeLog | None = None,
        recency: Recency | None = None,
        clock: Callable[[], float] = boottime,
    ) -> None:
        self.book = book
        self.wakes = wakes if wakes is not None else WakeLog()
        self.recency = recency if recency is not None else Recency()
        self.reports = {"accepted": 0, "stale": 0}
        """Reports and wakes by what became of them."""
        self.unknown_since: float | None = None
        """Since when demand has not been known, while we own shards; None while it is."""
        self._pushes = pushes
        self._authority = authority
        self._push = push
        self._clock = clock
        self._shadowed: list[str] = []

    # -- the link ----------------------------------------------------------------------------------------------------

    def hello(self, pod: PodName, boot_id: str, stream: int) -> None:
        """A gateway process opened a stream."""
        self._act(self.book.hello(pod, boot_id, stream, self._clock()))

    def closed(self, pod: PodName, boot_id: str, stream: int) -> None:
        """Its stream ended without a word."""
        self._act(self.book.closed(pod, boot_id, stream, self._clock()))

    def bye(self, pod: PodName, boot_id: str) -> None:
        """It is going for good."""
        self._act(self.book.bye(pod, boot_id, self._clock()))

    def report(self, pod: PodName, boot_id: str, report: control.DemandReport) -> None:
        """All of a gateway's demand."""
        now = self._clock()
        shares = {service_key(told.namespace, told.name): _share(told, now) for told in report.services}
        edges = self.book.report(pod, boot_id, report.sequence, shares, now)
        self._count(edges)
        self._act(edges or [])
        for told in report.services:
            self._compare_epoch(told)

    def wake(self, pod: PodName, boot_id: str, wake: control.Wake) -> bool:
        """A cold request; returns whether its service's shard is ours."""
        now, told = self._clock(), wake.service
        edges = self.book.wake(
            pod, boot_id, wake.sequence, service_key(told.namespace, told.name), _share(told, now), now
        )
        self._count(edges)
        self._act(edges or [])
        self._compare_epoch(told)
        return self._is_ours(service_key(told.namespace, told.name))

    # -- the cluster -------------------------------------------------------------------------------------------------

    def is_in_use(self, key: str) -> bool:
        """Somebody uses the service, or did in the last ten minutes: what its callers may do must be up to date."""
        now = self._clock()
        return self.book.seen(key, now) > 0 or self.recency.is_recent(key, now, LONGEST_HOLD_SECONDS)

    def slept(self, key: str) -> None:
        """Its replicas went to none. A request that came as they did needs another `true`: its edge is past."""
        now = self._clock()
        if self.book.seen(key, now) > 0:
            self._push(self._pushes.rose(key, now))

    async def run(self, gateways: Store[Pod]) -> None:
        """Follow the gateways' pods, and the time, until cancelled."""
        self.book.begin(self._clock())
        await gateways.synced.wait()
        gateways.subscribe(lambda change: self._observe(gateways))
        self._observe(gateways)
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            self.book.follow(gateways.problem is None, self._clock())
            self._act(self.book.sweep(self._clock()))
            self._watch_knowledge()
            self._watch_names()

    def _observe(self, gateways: Store[Pod]) -> None:
        self._act(self.book.observe(gateway_containers(gateways.items()), self._clock()))

    def _watch_knowledge(self) -> None:
        now = self._clock()
        if not self._authority.owned() or self.book.is_known(now):
            if self.unknown_since is not None:
                log.info("demand is known again", extra=context(after=f"{now - self.unknown_since:.0f}s"))
            self.unknown_since = None
        elif self.unknown_since is None:
            self.unknown_since = now
            log.info(
                "demand is not known: nothing scales down",
                extra=context(silent=self.book.silent_gateways(now)),
            )

    def _watch_names(self) -> None:
        shadowed = self.book.shadowed(self._clock())
        if set(shadowed) - set(self._shadowed):
            log.error(
                "gateways share a pod's name: only the newest is counted, nothing scales down",
                extra=context(pods=",".join(shadowed), setting="NOCTAYA_POD__NAME"),
            )
        self._shadowed = shadowed

    # -- how ---------------------------------------------------------------------------------------------------------

    def _act(self, edges: Iterable[Edge]) -> None:
        for edge in edges:
            if isinstance(edge, Rose):
                now = self._clock()
                self.wakes.rose(edge.key, now)
                is_ours = self._is_ours(edge.key)
                log.info(
                    "demand rose",
                    extra=context(service=edge.key, demand=self.book.seen(edge.key, now), owner=is_ours),
                )
                self._push(self._pushes.rose(edge.key, now))
            else:
                self.recency.ended(edge.key, self._clock())
                self._pushes.fell(edge.key)

    def _is_ours(self, key: str) -> bool:
        return self._authority.permission(shard_of_key(key)) is not Permission.NONE

    def _count(self, edges: list[Edge] | None) -> None:
        self.reports["stale" if edges is None else "accepted"] += 1

    def _compare_epoch(self, told: control.ServiceDemand) -> None:
        shard = shard_of(told.namespace, told.name)
        self._authority.see_epoch(shard, told.epoch_known)


def _share(told: control.ServiceDemand, now: float) -> Share:
    remaining = told.lease_remaining_ms / 1000
    return Share(told.pending, now + remaining if remaining else 0.0)

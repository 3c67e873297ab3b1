"""An API server with one Lease behind a network that loses, delays and reorders, and workers whose clocks disagree.

Time is virtual. Requests and answers each take their own time; a request may be lost on the way, or take effect and lose its
answer, or arrive after its sender gave up. Every worker's clock has its own offset and rate.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from noctaya.leader.tenure import (
    Accepted,
    Action,
    Event,
    LeaseView,
    Read,
    Refused,
    Seen,
    Standing,
    Tenure,
    Tick,
    Unreachable,
    Write,
)

ATTEMPT_SECONDS = 1.5


@dataclass
class Server:
    """Compare-and-swap on one Lease."""

    lease: LeaseView | None = None
    version: int = 0
    history: list[tuple[str, int]] = field(default_factory=list)

    def serve(self, action: Action, sent: float) -> Event:
        if isinstance(action, Read):
            return Seen(self.lease)
        if action.resource_version != (self.lease.resource_version if self.lease else None):
            return Refused()
        self.version += 1
        self.lease = LeaseView(action.holder, action.epoch, str(self.version))
        if action.holder and (not self.history or self.history[-1] != (action.holder, action.epoch)):
            self.history.append((action.holder, action.epoch))
        return Accepted(sent, self.lease)


@dataclass
class Worker:
    """A tenure with a clock of its own."""

    tenure: Tenure
    offset: float = 0.0
    rate: float = 1.0
    attempt: int = 0
    is_paused_until: float = 0.0

    def clock(self, at: float) -> float:
        return self.offset + at * self.rate


class World:
    """Runs workers against a server; `check` is called at every instant at which anything happened."""

    def __init__(self, rng: random.Random, workers: list[Worker], *, loss: float, slowest: float) -> None:
        self.rng = rng
        self.workers = workers
        self.server = Server()
        self.loss = loss
        self.slowest = slowest
        self.now = 0.0
        self.outages: list[tuple[float, float]] = []
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._serial = 0
        self.both_acted: list[float] = []
        self.acted: set[int] = set()

    def later(self, delay: float, what: Callable[[], None]) -> None:
        self._serial += 1
        heapq.heappush(self._queue, (self.now + delay, self._serial, what))

    def run(self, until: float) -> None:
        for worker in self.workers:
            self._tick_later(worker, self.rng.uniform(0, 0.5))
        while self._queue and self._queue[0][0] <= until:
            at, _, what = heapq.heappop(self._queue)
            # Two tenures can only overlap over an interval; looking just before and at each event finds every one.
            self._look(max(self.now, at - 1e-6))
            self.now = at
            what()
            self._look(at)

    def _look(self, at: float) -> None:
        acting = [
            index
            for index, worker in enumerate(self.workers)
            if worker.tenure.standing(worker.clock(at)) is Standing.ACT
        ]
        self.acted.update(acting)
        if len(acting) > 1:
            self.both_acted.append(at)

    def _tick_later(self, worker: Worker, delay: float) -> None:
        def tick() -> None:
            if self.now < worker.is_paused_until:
                self._tick_later(worker, worker.is_paused_until - self.now)
                return
            self.feed(worker, Tick())
            self._tick_later(worker, 0.2)

        self.later(delay, tick)

    def feed(self, worker: Worker, event: Event) -> None:
        for action in worker.tenure.on(event, worker.clock(self.now)):
            self._send(worker, action)

    def _is_out(self) -> bool:
        return any(start <= self.now < end for start, end in self.outages)

    def _send(self, worker: Worker, action: Action) -> None:
        worker.attempt += 1
        attempt, sent = worker.attempt, worker.clock(self.now)

        def answered(event: Event) -> None:
            if worker.attempt == attempt:  # else its sender gave up before
                worker.attempt += 1
                if self.now < worker.is_paused_until:
                    self.later(worker.is_paused_until - self.now, lambda: self.feed(worker, event))
                else:
                    self.feed(worker, event)

        def arrived() -> None:
            if self._is_out():
                return
            event = self.server.serve(action, sent)
            if self.rng.random() >= self.loss:
                self.later(self.rng.uniform(0, self.slowest), lambda: answered(event))

        if self.rng.random() >= self.loss:
            self.later(self.rng.uniform(0, self.slowest), arrived)
        self.later(ATTEMPT_SECONDS, lambda: answered(Unreachable()))


def is_release(action: Action) -> bool:
    return isinstance(action, Write) and action.holder == ""

"""Gateways with clients that wait, and KEDA, which asks any worker and is relayed to the owner.

A gateway knows the truth: who waits, since when. It tells every worker that it has a stream to, in full every 2 s and at once
when a first client comes; a stream that is cut is noticed after `CUT_SECONDS`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from noctaya.workers.demand import Share
from noctaya.workers.gateways import GatewayContainer, Phase
from noctaya.workers.metric import Silence

if TYPE_CHECKING:
    from tests.sim.worker import Worker
    from tests.sim.world import World

FULL_SECONDS = 2.0
CUT_SECONDS = 4.0
SERVICES = 4
"""Of those with clients; one a shard, so as many shards are watched closely."""


@dataclass(eq=False)
class Stream:
    """From one gateway process to one worker process."""

    number: int
    worker: Worker
    cut_for: float = 0.0


@dataclass(eq=False)
class Gateway:
    """One gateway process; a restart makes another one in the same pod."""

    world: World
    name: str
    boot: str
    is_alive: bool = True
    sequence: int = 0
    waiting_since: dict[str, float] = field(default_factory=dict)
    streams: dict[Worker, Stream] = field(default_factory=dict)
    config: dict[int, tuple[str, int, int]] = field(default_factory=dict)
    fleets: list[str] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, str]:
        """Of its pod, as the API shows it."""
        return ("noctaya-system", self.name)

    def start(self) -> None:
        """Its loops begin."""
        self.world.clockwork.later(self.world.clockwork.random.uniform(0.0, 0.5), self._tick)
        self.world.clockwork.later(self.world.clockwork.random.uniform(1.0, 6.0), self._client)

    def _tick(self) -> None:
        if not self.is_alive:
            return
        self._connect()
        self.sequence += 1
        for stream in list(self.streams.values()):
            if self.world.network.is_cut(self.name, stream.worker.name):
                stream.cut_for += FULL_SECONDS
                if stream.cut_for >= CUT_SECONDS:
                    self._close(stream)
            else:
                stream.cut_for = 0.0
                self._report(stream.worker)
        self.world.clockwork.later(FULL_SECONDS, self._tick)

    def _connect(self) -> None:
        for worker in self.world.workers.values():
            if (
                worker in self.streams
                or self.world.network.is_cut(self.name, worker.name)
                or worker.pod.paused
            ):
                continue
            stream = self.streams[worker] = Stream(self.world.next_stream(), worker)
            worker.run(
                lambda worker=worker, stream=stream: worker.book.hello(  # type: ignore[misc]
                    self.key, self.boot, stream.number, worker.clock()
                )
            )

    def _close(self, stream: Stream) -> None:
        del self.streams[stream.worker]
        worker = stream.worker
        worker.run(lambda: _ignore(worker.book.closed(self.key, self.boot, stream.number, worker.clock())))

    def _report(self, worker: Worker) -> None:
        shares = {service: Share(1) for service in self.waiting_since}
        sequence = self.sequence
        config = dict(self.config)

        def deliver() -> None:
            worker.book.report(self.key, self.boot, sequence, shares, worker.clock())
            worker.hear_epochs(config)

        worker.run(deliver)

    def _client(self) -> None:
        """Somebody comes, or whoever waited is served."""
        if not self.is_alive:
            return
        dice = self.world.clockwork.random
        service = f"s{dice.randrange(min(SERVICES, self.world.parts))}"
        if self.waiting_since.pop(service, None) is None and not self.world.is_quiet:
            self.waiting_since[service] = self.world.clockwork.now
            self.sequence += 1
            for worker in list(self.streams):
                if not self.world.network.is_cut(self.name, worker.name):
                    self._wake(worker, service)
        self.world.clockwork.later(dice.uniform(2.0, 12.0), self._client)

    def _wake(self, worker: Worker, service: str) -> None:
        sequence = self.sequence
        worker.run(
            lambda: _ignore(
                worker.book.wake(self.key, self.boot, sequence, service, Share(1), worker.clock())
            )
        )

    def forget(self, worker: Worker) -> None:
        """The worker's process ended: its connections break."""
        self.streams.pop(worker, None)

    def die(self) -> None:
        """The process ends, and its clients are gone with it."""
        self.is_alive = False
        for stream in list(self.streams.values()):
            self._close(stream)

    def configure(self, fleet: str, shard: int, epoch: int, version: int) -> None:
        """A worker's config for a shard arrives."""
        old_fleet, *before = self.config.get(shard, ("", 0, 0))
        if fleet != old_fleet:
            if fleet in self.fleets[:-1]:
                return  # of a fleet that another one has replaced
            if fleet not in self.fleets:
                self.fleets.append(fleet)
            self.config[shard] = (fleet, epoch, version)
            return
        old = (before[0], before[1])
        if self.world.rules.is_newer_config((epoch, version), old):
            self.world.checker.configured(self.name, old, (epoch, version))
            self.config[shard] = (fleet, epoch, version)


def containers(gateways: list[Gateway]) -> dict[tuple[str, str], GatewayContainer]:
    """What the API shows of them."""
    return {
        gateway.key: GatewayContainer(Phase.RUNNING if gateway.is_alive else Phase.ENDED, gateway.boot)
        for gateway in gateways
    }


def ask_keda(world: World) -> None:
    """KEDA asks any worker about any service; one that does not own it relays to whom it believes to be the owner."""
    dice = world.clockwork.random
    workers = list(world.workers.values())
    shard = dice.randrange(min(SERVICES, world.parts))
    service = f"s{shard}"
    if workers:
        front = dice.choice(workers)
        owner = world.workers.get(front.ownership.owner(shard)[0].partition("_")[0])
        if (
            front.pod.paused
            or owner is None
            or owner.pod.paused
            or world.network.is_cut(front.name, owner.name)
        ):
            world.checker.answered(front.name, service, "unavailable", None)
        else:
            answer = owner.is_active(service, shard)
            since = [gateway.waiting_since.get(service) for gateway in world.gateways if gateway.is_alive]
            waiting = [world.clockwork.now - start for start in since if start is not None]
            text = "unavailable" if isinstance(answer, Silence) else str(answer).lower()
            world.checker.answered(owner.name, service, text, max(waiting, default=None))
    world.clockwork.later(dice.uniform(0.3, 1.0), lambda: ask_keda(world))


def _ignore(result: object) -> None:
    del result

"""A fleet, its API server, its gateways and KEDA; and the verbs by which a schedule does harm to them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from noctaya.leader import planner_events as leads
from noctaya.workers.permission import Permission
from tests.sim.api import Api
from tests.sim.checker import Checker
from tests.sim.clockwork import Clockwork
from tests.sim.gateways import Gateway, ask_keda, containers
from tests.sim.network import Network
from tests.sim.rules import Rules
from tests.sim.watching import Watching
from tests.sim.worker import Worker


@dataclass
class Pod:
    """A worker's pod; what is here outlives a process."""

    name: str
    uid: str
    version: str
    offset: float
    rate: float
    restarts: int = 0
    paused: int = 0
    replica_lag: float = 0.0
    is_watch_silent: bool = False
    believes_silence_for: float = 10.0
    """Seconds after which a silent watch is taken for broken."""
    is_leaving: bool = False


@dataclass
class World:
    """See the module."""

    seed: int
    parts: int
    rules: Rules = field(default_factory=Rules)
    drift: float = 0.1

    def __post_init__(self) -> None:
        self.clockwork = Clockwork(self.seed)
        self.network = Network(self.clockwork)
        self.api = Api()
        self.checker = Checker(self.parts)
        self.pods: dict[str, Pod] = {}
        self.workers: dict[str, Worker] = {}
        self.watchers: dict[Watching, None] = {}
        self.gateways: list[Gateway] = []
        self.is_quiet = False
        self.version = "v1"
        self._serial = 0
        self._ended: list[leads.ContainerEnded] = []
        self.clockwork.after_step = self._look

    def _look(self) -> None:
        self.checker.now = self.clockwork.now
        self.checker.look()

    # -- what the shells need ------------------------------------------------------------------------------------------

    def nonce(self) -> str:
        """One that nobody has had."""
        self._serial += 1
        return f"n{self._serial}"

    def next_stream(self) -> int:
        """A number for a stream."""
        self._serial += 1
        return self._serial

    def changed(self) -> None:
        """The API server has something new to tell."""
        for watching in self.watchers:
            watching.notice()

    def stop_seconds(self) -> float:
        """How long what runs for a shard takes to end."""
        dice = self.clockwork.random
        return dice.uniform(0.0, 0.15) if dice.random() < 0.95 else dice.uniform(0.0, 2.5)

    def publish(self, worker: Worker, shard: int, epoch: int, version: int) -> None:
        """A config goes to every gateway; it may come late."""
        dice = self.clockwork.random
        fleet = worker.ownership.state.fleet
        for gateway in self.gateways:
            if gateway.is_alive and not self.network.is_cut(worker.name, gateway.name):
                if dice.random() < 0.1:
                    delay = dice.uniform(0.0, 6.0)
                    self.clockwork.later(
                        delay,
                        lambda gateway=gateway: gateway.configure(fleet, shard, epoch, version),  # type: ignore[misc]
                    )
                else:
                    gateway.configure(fleet, shard, epoch, version)

    def exited(self, worker: Worker) -> None:
        """A clean exit: the pod goes with it."""
        if worker.is_alive:
            self._end(worker)
            self.pods.pop(worker.name, None)

    # -- what happens to it --------------------------------------------------------------------------------------------

    def begin(self, workers: int, gateways: int) -> None:
        """The fleet is founded."""
        for index in range(gateways):
            gateway = Gateway(self, f"g{index}", self.nonce())
            self.gateways.append(gateway)
            gateway.start()
        for index in range(workers):
            self.join(is_founder=index == 0)
        self.clockwork.later(3.0, lambda: ask_keda(self))

    def join(self, *, is_founder: bool = False) -> Worker:
        """A new pod."""
        dice = self.clockwork.random
        self._serial += 1
        name = f"w{self._serial}"
        rate = 1.0 + dice.uniform(-self.drift, self.drift)
        self.pods[name] = Pod(name, f"{self._serial:08d}-uid", self.version, dice.uniform(0, 1e4), rate)
        return self._start(self.pods[name], is_founder=is_founder)

    def _start(self, pod: Pod, *, is_founder: bool = False) -> Worker:
        worker = self.workers[pod.name] = Worker(self, pod, is_founder=is_founder)
        worker.start()
        for ended in self._ended:
            worker.run(lambda ended=ended: worker._plan(ended))  # type: ignore[misc]
        return worker

    def _end(self, worker: Worker) -> None:
        worker.die()
        if self.workers.get(worker.name) is worker:
            del self.workers[worker.name]
        for gateway in self.gateways:
            gateway.forget(worker)

    def crash(self, name: str, *, restarts_in: float | None, is_told: bool) -> None:
        """The process dies. `is_told`: the kubelet says so; `restarts_in`: the container comes again, else a new pod does."""
        worker, pod = self.workers.get(name), self.pods.get(name)
        if worker is None or pod is None:
            return
        self._end(worker)
        if is_told:
            ended = leads.ContainerEnded(name, worker.container)
            self.clockwork.later(
                self.clockwork.random.uniform(0.3, 2.0), lambda: self._container_ended(ended)
            )
        if pod.is_leaving:
            del self.pods[name]  # a pod that is being deleted is not started again
        elif restarts_in is None:
            del self.pods[name]
            self.clockwork.later(self.clockwork.random.uniform(1.0, 6.0), lambda: _ignore(self.join()))
        else:
            self.clockwork.later(restarts_in, lambda: self._restart(pod))

    def _restart(self, pod: Pod) -> None:
        if self.pods.get(pod.name) is pod and pod.name not in self.workers:
            pod.restarts += 1
            self._start(pod)

    def _container_ended(self, ended: leads.ContainerEnded) -> None:
        self._ended.append(ended)
        for worker in list(self.workers.values()):
            if self.network.reaches_api(worker.name):
                worker.run(lambda worker=worker: worker._plan(ended))  # type: ignore[misc]

    def pause(self, name: str, seconds: float) -> None:
        """SIGSTOP, and SIGCONT later."""
        pod = self.pods.get(name)
        if pod is None:
            return
        pod.paused += 1

        def resume() -> None:
            pod.paused -= 1
            worker = self.workers.get(pod.name)
            if not pod.paused and worker is not None and worker.pod is pod:
                worker.resume()

        self.clockwork.later(seconds, resume)

    def drain(self, name: str, *, is_replaced: bool) -> None:
        """SIGTERM; with `is_replaced` another pod comes first, as in a rolling update."""
        worker, pod = self.workers.get(name), self.pods.get(name)
        if pod is None or pod.is_leaving:
            return
        if worker is None:  # its container is about to start again
            self.clockwork.later(1.0, lambda: self.drain(name, is_replaced=is_replaced))
            return
        pod.is_leaving = True
        if is_replaced:
            self.join()
        worker.drain()
        self.clockwork.later(60.0, lambda: self.exited(worker))  # the grace ends in SIGKILL

    def roll(self, every: float) -> None:
        """A new version, pod by pod: one more comes, then one old goes."""
        self.version = f"v{int(self.version[1:]) + 1}"
        for index, name in enumerate(list(self.pods)):
            self.clockwork.later(every * index, lambda name=name: self.drain(name, is_replaced=True))  # type: ignore[misc]

    def cut(self, one: str, other: str, seconds: float) -> None:
        """Nothing passes between these two for a while."""
        self.network.cut(one, other)
        self.clockwork.later(seconds, lambda: self.network.mend(one, other))

    def api_outage(self, seconds: float) -> None:
        """The API server does not answer, and every watch is silent."""
        self.network.is_api_up = False

        def back() -> None:
            self.network.is_api_up = True
            for watching in list(self.watchers):
                watching.drop()

        self.clockwork.later(seconds, back)

    def drop_watch(self, name: str) -> None:
        """A watch breaks off."""
        if name in self.workers:
            self.workers[name].watching.drop()

    def silence_watch(self, name: str, seconds: float) -> None:
        """A watch shows nothing more, and its connection seems alive."""
        pod = self.pods.get(name)
        if pod is not None:
            pod.is_watch_silent = True
            self.clockwork.later(seconds, lambda: setattr(pod, "is_watch_silent", False))

    def lag(self, name: str, lag: float, seconds: float) -> None:
        """The API server that this worker watches is behind the others."""
        pod = self.pods.get(name)
        if pod is None:
            return
        pod.replica_lag = lag
        self.drop_watch(name)

        def catch_up() -> None:
            pod.replica_lag = 0.0
            self.drop_watch(name)

        self.clockwork.later(seconds, catch_up)

    def delete(self, names: Iterable[str]) -> None:
        """An operator deletes objects."""
        for name in names:
            self.api.delete(name, self.clockwork.now)
            if name.startswith("noctaya-shard-"):
                self.checker.lost(int(name.removeprefix("noctaya-shard-")))
        self.changed()

    def crash_gateway(self, index: int) -> None:
        """A gateway's process dies and starts again in its pod."""
        gateway = self.gateways[index]
        gateway.die()
        self._show_all()

        def restart() -> None:
            fresh = self.gateways[index] = Gateway(self, gateway.name, self.nonce())
            fresh.start()
            self._show_all()

        self.clockwork.later(self.clockwork.random.uniform(1.0, 5.0), restart)

    def _show_all(self) -> None:
        for worker in list(self.workers.values()):
            delay = self.clockwork.random.uniform(0.1, 1.0)
            self.clockwork.later(delay, lambda worker=worker: self.show_gateways(worker))  # type: ignore[misc]

    def show_gateways(self, worker: Worker) -> None:
        """The watch of pods shows this worker the gateways."""
        if self.network.reaches_api(worker.name):
            worker.run(lambda: _ignore(worker.book.observe(containers(self.gateways), worker.clock())))

    # -- how it stands -------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """I6: every shard is acted for, by one of the workers that are ready, and all have as many."""
        owners: dict[int, str] = {}
        for worker in self.workers.values():
            for shard in worker.owned:
                if worker.permission(shard) is Permission.ACT:
                    owners[shard] = worker.name
        counts = dict.fromkeys(self.workers, 0)
        for name in owners.values():
            counts[name] += 1
        missing = [shard for shard in range(self.parts) if shard not in owners]
        if missing:
            self.checker.fail("I6", f"nobody acts for shards {missing}; {self.describe(missing[0])}")
        if max(counts.values()) - min(counts.values()) > 1:
            self.checker.fail("I6", f"shards are shared unevenly: {counts}")

    def describe(self, shard: int) -> str:
        """Where a shard stands everywhere."""
        record = self.api.read(f"noctaya-shard-{shard:03d}")
        found = self.api.read("noctaya-shardmap")
        desired = found.map.owner(shard) if found is not None and found.map is not None else None
        phases = {
            name: f"{worker.ownership.state.shards[shard].phase.value}/{worker.membership.state.value}/"
            f"{worker.membership.standing(worker.clock()).value}"
            for name, worker in self.workers.items()
        }
        return f"recorded {record.view if record else None}, desired {desired}, {phases}"


def _ignore(result: object) -> None:
    del result

"""The fleet that stories happen to: an API server with a way of its own for every worker, workers, gateways, models, KEDA.

Everything is of this process but the workers, which are real ones. What ends here ends everything that it started.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from noctaya.api.crds import crds
from noctaya.kube import Client, ClusterConfig
from noctaya.kube.errors import KubeError
from noctaya.kube.resources import CRDS, DEPLOYMENTS, INFERENCERUNTIMES, LLMSERVICES, NAMESPACES
from noctaya.local.apiserver.server import ApiServer
from noctaya.local.keda import crds as keda_crds
from tests.api.samples import inferenceruntime, llmservice
from tests.chaos.api_record import ApiRecord
from tests.chaos.audit_tail import AuditTail
from tests.chaos.crowd import Crowd
from tests.chaos.history import FaultBegan, FaultEnded, Notebook
from tests.chaos.keda_stand_in import KedaStandIn
from tests.chaos.scripted_gateway import ScriptedGateway
from tests.chaos.worker_process import DEFAULT, LABELS, Tenure, WorkerPod
from tests.faults import FaultProxy
from tests.workers.reconcile.cluster import SYSTEM

TICK_SECONDS = 0.05
START_SECONDS = 90.0
"""Until processes that were started are a fleet; the machine may be busy."""
STALL_SECONDS = 0.4
"""Of the harness's own loop: beyond, the truth of its gateways reaches workers late."""


class NotSettled(Exception):
    """The fleet did not become whole in time; the message says what is missing."""


@dataclass
class Fleet:
    """See the module; made by `running`."""

    folder: Path
    server: ApiServer
    client: Client
    proxy: FaultProxy
    notes: Notebook
    record: ApiRecord
    rng: random.Random
    tenure: Tenure
    services: tuple[str, ...]
    workers: dict[str, WorkerPod] = field(default_factory=dict)
    """Every pod that is there, in the order in which they were made."""
    gateways: list[ScriptedGateway] = field(default_factory=list)
    version: str = "v1"
    made: int = 0
    tail: AuditTail = field(init=False)
    last_fault_at: float = 0.0

    def __post_init__(self) -> None:
        self.tail = AuditTail(self.folder)

    # -- workers -----------------------------------------------------------------------------------------------------

    def running(self) -> list[WorkerPod]:
        """The pods whose process runs."""
        return [pod for pod in self.workers.values() if pod.is_running]

    def leader(self) -> WorkerPod:
        """The leader's."""
        found = self.workers.get(self.record.leader_pod())
        if found is None or not found.is_running:
            raise NotSettled("nobody leads")
        return found

    def any_worker(self, *, but: WorkerPod | None = None) -> WorkerPod:
        """One whose process runs, by chance."""
        return self.rng.choice([pod for pod in self.running() if pod is not but])

    def follower(self) -> WorkerPod:
        """One that does not lead."""
        return self.any_worker(but=self.leader())

    async def join(self) -> WorkerPod:
        """A new pod, started."""
        name = f"w{self.made}"
        self.made += 1
        pod = WorkerPod(
            name=name, client=self.client, folder=self.folder, notes=self.notes, tenure=self.tenure,
            version=self.version, way=await self.proxy.client(name),
        )  # fmt: skip
        await pod.create()
        for gateway in self.gateways:
            await gateway.meet(name, pod.peers.address, pod.control_port)
        self.workers[name] = pod
        await pod.start()
        return pod

    async def kill(self, pod: WorkerPod) -> float:
        """SIGKILL; the moment of it."""
        at = pod.kill(self.record.members.get(pod.name, ("", ""))[0])
        await pod.wait(10.0)
        self.struck()
        return at

    async def bury(self, pod: WorkerPod) -> None:
        """A pod whose process has ended is gone for good, and another one of that name will never come."""
        del self.workers[pod.name]
        await pod.remove()
        for gateway in self.gateways:
            await gateway.part(pod.name)

    async def leave(self, pod: WorkerPod, seconds: float = 70.0) -> float:
        """SIGTERM as a scale-in does it; how long the process took."""
        asked = self.notes.now
        await pod.terminating()
        pod.terminate()
        await pod.wait(seconds)
        took = self.notes.now - asked
        await self.bury(pod)
        return took

    async def rollout(self, *, is_on: bool) -> None:
        """What the workers' Deployment says: old pods beside new ones, or none."""
        count = len(self.running())
        status = {
            "observedGeneration": 1, "replicas": count, "updatedReplicas": count - 1 if is_on else count,
            "readyReplicas": count,
        }  # fmt: skip
        await self.client.patch(
            DEPLOYMENTS, SYSTEM, "noctaya-worker", {"status": status}, subresource="status"
        )

    # -- waiting -----------------------------------------------------------------------------------------------------

    async def settled(self, seconds: float = START_SECONDS) -> None:
        """Until every shard is owned by whom the map wants, all running workers share evenly, and gateways are linked."""
        missing = "nothing was looked at"
        try:
            async with asyncio.timeout(seconds):
                while missing := self.missing():  # noqa: ASYNC110
                    await asyncio.sleep(TICK_SECONDS)
        except TimeoutError:
            raise NotSettled(f"not whole after {seconds:.0f} s: {missing}") from None

    def missing(self) -> str:
        """What keeps the fleet from being whole; empty when nothing does."""
        for pod in self.workers.values():
            if not pod.is_running:
                return f"{pod.name} does not run: {pod.last_words()}"
            if self.record.members.get(pod.name, ("", ""))[0] in ("", pod.former):
                return f"{pod.name} is no member again yet"
        names = set(self.workers)
        if self.record.leader_pod() not in names:
            return "nobody leads"
        for gateway in self.gateways:
            if gateway.is_running and not names <= gateway.linked:
                return f"{gateway.name} is linked with {sorted(gateway.linked)} only"
            if gateway.is_running and gateway.fleet != self.record.fleet:
                return f"{gateway.name} holds config of another fleet than the map's"
        if missing := self.record.is_whole(names):
            return missing
        self.tail.catch_up()
        for holder, _ in set(self.record.records.values()):
            if self.tail.standing.get(holder) != "act":
                return f"{holder} may not act"
        idle = self.tail.idle(self.record.records)
        return f"shards {idle[:5]} are recorded and not acted for" if idle else ""

    async def until(self, claim: Any, seconds: float, what: str) -> float:
        """Until `claim()` holds; how long that took."""
        began = self.notes.now
        try:
            async with asyncio.timeout(seconds):
                while not claim():  # noqa: ASYNC110 - of anything, events or not
                    await asyncio.sleep(TICK_SECONDS)
        except TimeoutError:
            raise NotSettled(f"not within {seconds:.0f} s: {what}") from None
        return self.notes.now - began

    # -- faults ------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def fault(self, name: str, *, slows_reports: bool = False) -> Any:
        """Around a fault: when it was in force."""
        self.notes.write(FaultBegan(at=self.notes.now, name=name, slows_reports=slows_reports))
        try:
            yield
        finally:
            self.notes.write(FaultEnded(at=self.notes.now, name=name))
            self.last_fault_at = self.notes.now

    def struck(self) -> None:
        """A fault of a moment has just happened."""
        self.last_fault_at = self.notes.now

    async def change_models(self) -> None:
        """Somebody edits models all the time, so that their owners have something to write."""
        number = 0
        while True:
            service = self.services[number % len(self.services)]
            number += 1
            with contextlib.suppress(KubeError):
                await self.client.patch(
                    LLMSERVICES, "ai", service.partition("/")[2], {"spec": {"scaling": {"max": 1 + number % 3}}}
                )  # fmt: skip
            await asyncio.sleep(0.5)

    async def watch_itself(self) -> None:
        """A stall of this process is a fault of what it stands in for."""
        while True:
            before = self.notes.now
            await asyncio.sleep(0.1)
            now = self.notes.now
            if now - before > STALL_SECONDS:
                self.notes.write(FaultBegan(at=before, name="harness", slows_reports=True))
                self.notes.write(FaultEnded(at=now, name="harness"))


@asynccontextmanager
async def running(
    folder: Path,
    *,
    workers: int,
    gateways: int = 2,
    models: int = 12,
    seed: int = 0,
    tenure: Tenure = DEFAULT,
    with_keda: bool = True,
) -> AsyncIterator[Fleet]:
    """A whole fleet whose lines are in `folder`, which is there and empty."""
    async with contextlib.AsyncExitStack() as stack:
        notes = stack.enter_context(Notebook(folder))
        server = await stack.enter_async_context(ApiServer())
        config = ClusterConfig.load(str(server.kubeconfig(folder / "kubeconfig")))
        client = await stack.enter_async_context(Client(config, user_agent="chaos"))
        services = tuple(f"ai/model-{number}" for number in range(models))
        await _furnish(client, services)
        proxy = await stack.enter_async_context(FaultProxy(config, seed=seed))
        record = ApiRecord(server.storage, notes)
        fleet = Fleet(
            folder, server, client, proxy, notes, record, random.Random(seed), tenure, services
        )  # fmt: skip
        stack.push_async_callback(_end, fleet)
        beside = await stack.enter_async_context(asyncio.TaskGroup())
        tasks = [beside.create_task(record.run())]
        for number in range(gateways):
            gateway = ScriptedGateway(
                f"g{number}", client, notes, lambda: [pod.name for pod in fleet.running()], fleet.rng
            )
            await gateway.create()
            await gateway.start()
            fleet.gateways.append(gateway)
        for _ in range(workers):
            await fleet.join()
        keda = KedaStandIn(
            client, notes, services, lambda: [(p.name, p.scaler_port) for p in fleet.running()]
        )
        crowd = Crowd(services, fleet.gateways, fleet.rng)
        try:
            await fleet.settled()
            if with_keda:
                tasks += [
                    beside.create_task(work) for work in (keda.run(), crowd.run(), fleet.change_models())
                ]
            tasks.append(beside.create_task(fleet.watch_itself()))
            yield fleet
        finally:
            for task in tasks:
                task.cancel()


async def _end(fleet: Fleet) -> None:
    for gateway in fleet.gateways:
        await gateway.close()
    for pod in list(fleet.workers.values()):
        await pod.end()


async def _furnish(client: Client, services: tuple[str, ...]) -> None:
    for definition in (*crds(), *keda_crds()):
        await client.create(CRDS, None, definition)
    for name in ("ai", SYSTEM):
        await client.create(NAMESPACES, None, {"metadata": {"name": name}})
    await client.create(INFERENCERUNTIMES, None, inferenceruntime("vllm"))
    for service in services:
        body = llmservice(service.partition("/")[2], model={"source": {"uri": "pvc://weights/model"}})
        await client.create(LLMSERVICES, "ai", body)
    template = {
        "metadata": {"labels": LABELS},
        "spec": {"containers": [{"name": "worker", "image": "noctaya"}]},
    }
    deployment = {
        "metadata": {"name": "noctaya-worker", "labels": LABELS},
        "spec": {"replicas": 3, "selector": {"matchLabels": LABELS}, "template": template},
    }
    await client.create(DEPLOYMENTS, SYSTEM, deployment)

"""Gateways whose requests are a script: the product's own control link and demand ledger, and nobody at the public port.

The truth that is written down is never above what really waits: a request counts once the gateway has heard of it, and until just
before the gateway hears that it is over. Each gateway has a way of its own to every worker, to be frozen or cut.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any

import grpc.aio

from noctaya.gateway.demand import DemandLedger
from noctaya.gateway.links import Links
from noctaya.gateway.metrics import Metrics
from noctaya.gateway.routing import Applied as Took
from noctaya.gateway.routing import Refused
from noctaya.gateway.settings import GatewaySettings, LinkSettings, PodSettings
from noctaya.gateway.state import GatewayState
from noctaya.kube import Client
from noctaya.kube.resources import PODS
from noctaya.wire import control
from noctaya.wire.mutual_tls import open_plaintext
from tests.chaos.history import Applied, Notebook, Truth
from tests.chaos.kubelet import tell_status
from tests.chaos.tcp_way import TcpWay
from tests.workers.reconcile.cluster import SYSTEM

CONTACT = "any-worker:0"
NOWHERE = "127.0.0.1:9"
"""A port at which nobody listens."""


class _NotedState(GatewayState):
    """Writes down what it holds whenever a config was taken."""

    def __init__(self, settings: GatewaySettings, clock: Callable[[], float]) -> None:
        super().__init__(settings, clock)
        self.on_taken: Callable[[control.ShardUpdate], None] = lambda update: None

    def take(self, update: control.ShardUpdate, *, is_fresh: bool = True) -> Took | Refused:
        result = super().take(update, is_fresh=is_fresh)
        if not isinstance(result, Refused):
            self.on_taken(update)
        return result


class ScriptedGateway:
    """See the module. `workers()` gives the pods of running workers: what the Service would lead to."""

    def __init__(
        self, name: str, client: Client, notes: Notebook, workers: Callable[[], list[str]], rng: Any
    ) -> None:
        self.name = name
        self.inside: Counter[str] = Counter()
        """Requests by service."""
        self.ways: dict[str, TcpWay] = {}
        self.refused = 0
        self.boots = 0
        self._pods: dict[str, str] = {}
        self._client = client
        self._notes = notes
        self._workers = workers
        self._rng = rng
        self._links: Links | None = None
        self._demand: DemandLedger | None = None
        self._state: GatewayState | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        """Whether there is a process."""
        return self._task is not None

    @property
    def linked(self) -> set[str]:
        """Workers to which the link is up."""
        return set(self._links.linked().values()) if self._links is not None else set()

    @property
    def fleet(self) -> str:
        """Whose config it holds; empty: nobody's yet."""
        return self._state.routes.fleet if self._state is not None else ""

    async def meet(self, pod: str, address: str, control_port: int) -> None:
        """A worker that will be told as `address` may be dialled."""
        self.ways[pod] = await TcpWay(control_port).start()
        self._pods[address] = pod

    async def part(self, pod: str) -> None:
        """That worker is gone for good."""
        await self.ways.pop(pod).close()

    async def create(self) -> None:
        """Its pod."""
        labels = {"app.kubernetes.io/name": "noctaya", "app.kubernetes.io/component": "gateway"}
        spec = {"containers": [{"name": "gateway", "image": "noctaya"}]}
        await self._client.create(
            PODS, SYSTEM, {"metadata": {"name": self.name, "labels": labels}, "spec": spec}
        )

    async def start(self) -> None:
        """A fresh process, empty."""
        self.boots += 1
        await self._tell_status({"running": {"startedAt": "2026-01-01T00:00:00Z"}})
        clock = asyncio.get_running_loop().time
        pod = PodSettings(namespace=SYSTEM, name=self.name)
        settings = GatewaySettings(link=LinkSettings(workers=(CONTACT,)), pod=pod)
        self._state = state = _NotedState(settings, clock)
        self._demand = DemandLedger(settings.hold.lease_linger_seconds, clock)
        self._links = Links(settings.link, pod, state, self._demand, Metrics(clock), clock, self._open)
        boot = f"{self.name}-{self.boots}"
        state.on_taken = lambda update: self._notes.write(
            Applied(
                at=self._notes.now, gateway=self.name, boot=boot, fleet=update.fleet, shard=update.shard,
                epoch=update.epoch, version=update.version,
            )
        )  # fmt: skip
        self._task = asyncio.create_task(self._links.run(), name=boot)

    async def kill(self, *, is_reported: bool = True) -> None:
        """It ends without a word, with everybody inside; `is_reported`: the kubelet tells at once."""
        for service in list(self.inside):
            self._tell_truth(service, 0)
        self.inside.clear()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._demand is not None:
            self._demand.close()
        self._task = self._links = self._demand = self._state = None
        if is_reported:
            await self.tell_end()

    async def tell_end(self) -> None:
        """The kubelet's word."""
        await self._tell_status({"terminated": {"exitCode": 137}})

    async def close(self) -> None:
        """Let nothing of it behind."""
        await self.kill(is_reported=False)
        for way in self.ways.values():
            await way.close()

    # -- requests ----------------------------------------------------------------------------------------------------

    def arrive(self, service: str) -> None:
        """A request comes in and waits."""
        if self._demand is None:
            return
        self.inside[service] += 1
        self._demand.arrived(service)
        self._demand.began_waiting(service)
        self._tell_truth(service, self.inside[service])

    def leave(self, service: str) -> None:
        """One is over."""
        if self._demand is None or not self.inside[service]:
            return
        self.inside[service] -= 1
        self._tell_truth(service, self.inside[service])
        self._demand.served(service)
        self._demand.finished(service)
        if not self.inside[service]:
            del self.inside[service]

    def _tell_truth(self, service: str, pending: int) -> None:
        self._notes.write(Truth(at=self._notes.now, gateway=self.name, service=service, pending=pending))

    # -- how ---------------------------------------------------------------------------------------------------------

    def _open(self, address: str) -> grpc.aio.Channel:
        if address == CONTACT:
            there = [pod for pod in self._workers() if pod in self.ways]
            way = self.ways[self._rng.choice(there)] if there else None
        else:
            way = self.ways.get(self._pods.get(address, ""))
        return open_plaintext(way.address if way is not None else NOWHERE)

    async def _tell_status(self, state: dict[str, object]) -> None:
        await tell_status(
            self._client,
            self.name,
            "gateway",
            restarts=max(self.boots - 1, 0),
            container=f"chaos://{self.name}-{self.boots}",
            state=state,
        )

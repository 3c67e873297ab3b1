"""All links of a gateway: keeps them up, applies what workers say, and tells them what this gateway demands.

A worker that is gone takes nothing with it: the last good routes go on serving. Reports are built here, once for all links:
every `full_report_seconds`, and at once (but never closer than `edge_seconds`) when demand begins or ends.
"""

import asyncio
import logging
import random
import uuid
from collections.abc import Callable

from noctaya import __version__
from noctaya.gateway.demand import DemandLedger
from noctaya.gateway.link import Link, Outbox
from noctaya.gateway.link_core import LinkCore, SendWake
from noctaya.gateway.metrics import Metrics
from noctaya.gateway.routing import Refused
from noctaya.gateway.settings import LinkSettings, PodSettings
from noctaya.gateway.state import GatewayState
from noctaya.telemetry import context
from noctaya.wire import control
from noctaya.wire.mutual_tls import ChannelMaker, open_plaintext

log = logging.getLogger(__name__)


class Links:
    """Implements `link.Listener` for every link."""

    def __init__(
        self,
        settings: LinkSettings,
        pod: PodSettings,
        state: GatewayState,
        demand: DemandLedger,
        metrics: Metrics,
        clock: Callable[[], float],
        open_channel: ChannelMaker = open_plaintext,
    ) -> None:
        self._open_channel = open_channel
        self._settings, self._pod, self._state, self._demand, self._metrics = (
            settings,
            pod,
            state,
            demand,
            metrics,
        )
        self._clock = clock
        self._core = LinkCore(settings.workers, settings.wake_ack_seconds)
        self._links: dict[str, Link] = {}
        self._supervised: dict[str, asyncio.Task[None]] = {}
        self._boot_id = uuid.uuid4().hex
        self._sequence = 0
        self._report_due = asyncio.Event()
        self._peers_changed = asyncio.Event()
        self._escalation: asyncio.TimerHandle | None = None
        self._is_ending = False
        self.first_welcome_at: float | None = None
        demand.on_wake = self.wake
        demand.on_report_due = self._report_due.set

    # Running

    async def run(self) -> None:
        """Keep every wanted link up and report; runs until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._report_forever(), name="demand reports")
            try:
                while True:
                    self._supervise(tasks)
                    await self._peers_changed.wait()
                    self._peers_changed.clear()
            finally:
                if self._escalation is not None:
                    self._escalation.cancel()

    async def say_bye(self) -> None:
        """Withdraw this gateway's demand from every worker: the last thing that it does."""
        self._is_ending = True
        for link in self._links.values():
            link.outbox.put_bye()
        if self._supervised:
            await asyncio.wait(self._supervised.values(), timeout=self._settings.bye_seconds)

    def _supervise(self, tasks: asyncio.TaskGroup) -> None:
        self._supervised = {address: task for address, task in self._supervised.items() if not task.done()}
        wanted = self._core.wanted()
        for address in wanted - self._supervised.keys():
            self._supervised[address] = tasks.create_task(self._keep_up(address), name=f"link {address}")
        for address in self._supervised.keys() - wanted:
            if self._is_redundant(address):
                self._supervised[address].cancel()

    def _is_redundant(self, address: str) -> bool:
        """An unwanted link is cut only when it is down, or another one leads to the same worker."""
        linked = self._core.linked
        worker = linked.get(address)
        return worker is None or any(name == worker for other, name in linked.items() if other != address)

    async def _keep_up(self, address: str) -> None:
        pause = self._settings.reconnect_min_seconds
        while self._should_dial(address):
            link = self._links[address] = Link(address, self._settings, self, self._open_channel)
            try:
                await link.run()
            finally:
                del self._links[address]
            if link.was_welcomed:
                pause = self._settings.reconnect_min_seconds
            if self._should_dial(address):
                await asyncio.sleep(random.uniform(pause / 2, pause))
                pause = min(pause * 2, self._settings.reconnect_max_seconds)
        self._peers_changed.set()

    def _should_dial(self, address: str) -> bool:
        return not self._is_ending and address in self._core.wanted()

    async def _report_forever(self) -> None:
        while True:
            try:
                async with asyncio.timeout(self._settings.full_report_seconds):
                    await self._report_due.wait()
            except TimeoutError:
                pass
            self._report_due.clear()
            services, is_unfinished = self._report()
            if is_unfinished:
                self._report_due.set()
            for link in self._links.values():
                if link.was_welcomed:
                    link.outbox.put_report(services)
            await asyncio.sleep(self._settings.edge_seconds)

    def _report(self) -> "tuple[list[control.ServiceDemand], bool]":
        demands, is_unfinished = self._demand.take_report()
        return [
            self._service_demand(demand.key, demand.pending, demand.lease_seconds) for demand in demands
        ], is_unfinished

    def _service_demand(self, key: str, pending: int, lease_seconds: float) -> "control.ServiceDemand":
        namespace, _, name = key.partition("/")
        service = self._state.routes.get(key)
        return control.ServiceDemand(
            namespace=namespace,
            name=name,
            pending=pending,
            lease_remaining_ms=round(lease_seconds * 1000),
            epoch_known=self._state.routes.epoch_of(service.shard) if service else 0,
        )

    # Wakes

    def wake(self, key: str) -> None:
        """Tell the owner of this service's shard now that somebody needs it."""
        service = self._state.routes.get(key)
        if service is None:
            return
        self._metrics.of(key).woken()
        self._send(self._core.wake(key, service.shard, self._clock()))

    def _send(self, wakes: list[SendWake]) -> None:
        for wake in wakes:
            link = self._links.get(wake.address)
            if link is None:
                continue
            demand = self._demand.demand(wake.key)
            said = self._service_demand(wake.key, demand.pending, demand.lease_seconds)
            link.outbox.put_wake(control.Wake(service=said, wake_id=wake.wake_id), wake.key)
            self._state.mark_demand_sent(wake.key)
        self._arm()

    def _arm(self) -> None:
        if self._escalation is not None:
            self._escalation.cancel()
            self._escalation = None
        deadline = self._core.deadline()
        if deadline is not None:
            self._escalation = asyncio.get_running_loop().call_at(deadline, self._escalate)

    def _escalate(self) -> None:
        self._escalation = None
        wanted = set(self._demand.wanted())
        for key in self._core.outstanding() - wanted:
            self._core.unwanted(key)
        self._send(self._core.tick(self._clock()))

    # What the links tell us

    def hello(self) -> "control.Hello":
        """Who we are and what we hold."""
        routes = self._state.routes
        return control.Hello(
            namespace=self._pod.namespace,
            pod=self._pod.name,
            boot_id=self._boot_id,
            version=__version__,
            fleet=routes.fleet,
            known=routes.known(),
        )

    def next_sequence(self) -> int:
        """Rises with every report and wake that is put into an outbox, of whichever link."""
        self._sequence += 1
        return self._sequence

    def reported(self) -> None:
        """A report was written."""
        self._metrics.reports.labels("success").inc()

    def welcomed(self, address: str, welcome: "control.Welcome", outbox: Outbox) -> None:
        """A link is up: it gets the whole demand first, then the wakes that nobody confirmed."""
        self.first_welcome_at = self.first_welcome_at or self._clock()
        self._state.welcome(welcome)
        outbox.put_report(
            [
                self._service_demand(d.key, d.pending, d.lease_seconds)
                for d in map(self._demand.demand, self._demand.wanted())
            ]
        )
        wanted = set(self._demand.wanted())
        for key in self._core.outstanding() - wanted:
            self._core.unwanted(key)
        self._send(self._core.welcomed(address, welcome.worker))
        self._peers_changed.set()

    def closed(self, address: str) -> None:
        """A link that was up ended."""
        self._send(self._core.closed(address))
        self._peers_changed.set()

    def told(self, address: str, message: "control.WorkerMessage", outbox: Outbox) -> None:
        """One message of a worker."""
        kind = message.WhichOneof("kind")
        if kind == "shard":
            self._take(address, message.shard, outbox)
        elif kind == "wake_ack":
            key, wakes = self._core.acknowledged(
                address, message.wake_ack.wake_id, is_owner=message.wake_ack.is_owner
            )
            if key is not None:
                self._state.mark_wake_confirmed(key)
            self._send(wakes)
        elif kind == "workers":
            self._core.listed(address, {worker.address: worker.name for worker in message.workers.workers})
            self._peers_changed.set()
        elif kind == "welcome":
            self._state.welcome(message.welcome)
        elif kind == "drain":
            log.info("worker drains", extra=context(address=address))

    def _take(self, address: str, update: "control.ShardUpdate", outbox: Outbox) -> None:
        fleet = self._state.routes.fleet
        result = self._state.take(update)
        if isinstance(result, Refused):
            self._metrics.shard_updates.labels("refused").inc()
            log.warning(
                "shard update refused",
                extra=context(worker=address, shard=update.shard, epoch=update.epoch, why=result.detail),
            )
            nack = control.Nack(
                shard=update.shard,
                epoch=result.epoch,
                version=result.version,
                reason=result.reason,
                detail=result.detail,
            )
            outbox.put_answer(update.shard, control.GatewayMessage(nack=nack))
            return
        self._metrics.shard_updates.labels("applied").inc()
        if fleet and update.fleet != fleet:
            self._core.fleet_changed()
        ack = control.Ack(shard=update.shard, epoch=update.epoch, version=update.version)
        outbox.put_answer(update.shard, control.GatewayMessage(ack=ack))
        self._send(self._core.owner_spoke(address, update.shard, update.epoch, self._clock()))

    # For a look inside

    def linked(self) -> dict[str, str]:
        """address → name of every worker whose link is up."""
        return self._core.linked

"""One worker, put together: which part asks which. Nothing is decided here.

`Worker` builds the parts, `run` runs them until it is told to stop, then drains: shards go to other workers, the Leases are
released, KEDA's streams end with OK, gateways hear Drain, the ports close.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import grpc.aio

from noctaya.api.names import shard_of
from noctaya.kube import Change, Client
from noctaya.kube.clock import boottime
from noctaya.kube.objects import Deployment
from noctaya.leader.certificate_keeping import CertificateKeeping
from noctaya.leader.tenure import Standing
from noctaya.telemetry import context
from noctaya.wire import SERVER_OPTIONS, control_grpc, externalscaler_grpc, peer_grpc
from noctaya.workers.admin import admin_app
from noctaya.workers.audit import Audit
from noctaya.workers.claims import Claims
from noctaya.workers.control_security import ControlSecurity, keeping_problems
from noctaya.workers.demand import DemandBook
from noctaya.workers.demand_problems import demand_problems
from noctaya.workers.errors import ClusterWentBack
from noctaya.workers.fleet_queries import fleet_queries
from noctaya.workers.intake import Intake
from noctaya.workers.introduction import KnownFleet
from noctaya.workers.keys import KeyRing, SecretName
from noctaya.workers.link import ControlLink, FleetFacts
from noctaya.workers.listening import bind, listening
from noctaya.workers.metrics import registry
from noctaya.workers.objects import LLMService, service_key, split_key
from noctaya.workers.peer_service import PeerService
from noctaya.workers.place import Place
from noctaya.workers.place_problems import place_problems
from noctaya.workers.problems import Problem, Problems, store_problems
from noctaya.workers.publisher import Publisher
from noctaya.workers.pushes import Pushes
from noctaya.workers.recency import Recency
from noctaya.workers.reconcile import Reconciler
from noctaya.workers.relay import Relay, Respondent
from noctaya.workers.render import Fleet
from noctaya.workers.scaler import SCALER_OPTIONS, ExternalScaler
from noctaya.workers.scaler_probe import ScalerProbe
from noctaya.workers.settings import WorkerSettings
from noctaya.workers.shard_memory import ShardMemory, adopt, memory_of
from noctaya.workers.specs import Specs
from noctaya.workers.stores import Stores
from noctaya.workers.views import Parts, views
from noctaya.workers.wakes import WakeLog

log = logging.getLogger(__name__)

STOP_GRACE_SECONDS = 0.5
"""For unary calls in flight when the servers close; streams have been ended before."""
DRAIN_SECONDS = 46.0
"""Ownership gives up what it could not hand over after 45 s (`ShardTiming.drain_budget`); a pod has 60 s."""


class Worker:
    """The parts of one worker process. `fleet` was read from the cluster before; `problems` gets this worker's too."""

    def __init__(
        self,
        settings: WorkerSettings,
        client: Client,
        lease_client: Client,
        *,
        fleet: KnownFleet,
        problems: Problems,
    ) -> None:
        self.settings = settings
        self._client = client
        self.ports: dict[str, int] = {}
        """Where it listens, once it is started: scaler, control, admin."""
        pod = settings.pod
        self.stores = Stores(client, own_namespace=pod.namespace)
        self._specs = Specs()
        self.claims = Claims(settings.gateway.cluster_domain)
        self.security = ControlSecurity(settings.tls, pod.namespace)
        self.place = Place(
            settings,
            client,
            lease_client,
            fleet=fleet,
            acting=self,
            neighbours=self,
            address=self._address,
            security=self.security,
        )
        self._keeping = CertificateKeeping(
            client, pod.namespace, may_write=self.place.is_leading, timing=settings.tls.timing()
        )
        self.ownership = self.place.ownership
        self.audit = Audit(settings.audit.file, who=lambda: self.place.incarnation)
        self.place.leading.tell_writes(self.audit.led)
        self.wakes, self.recency = WakeLog(), Recency()
        pushes, book = Pushes(self._is_served), DemandBook(stale_after=settings.demand.stale_after_seconds)
        self.relay = Relay(self.place.peers.ask, self.ownership, me=lambda: self.place.incarnation)
        self.scaler = ExternalScaler(
            demand=book.demand,
            permission=self.ownership.permission,
            is_known=self._is_known,
            pushes=pushes,
            replicas=self._replicas,
            is_current=self._is_current,
            relay=self.relay.ask,
            stream_seconds=settings.scaler.stream_seconds,
            drain_spread_seconds=settings.scaler.drain_spread_seconds,
            wakes=self.wakes,
            recency=self.recency,
            audit=self.audit,
        )
        self.intake = Intake(
            book, pushes, self.ownership, push=self.scaler.push, wakes=self.wakes, recency=self.recency
        )
        self.publisher = Publisher(
            self.stores,
            self._specs,
            self.claims,
            on_routes=self._routes_changed,
            on_conflicts=self._conflicts_changed,
        )
        self.publisher.keys = self._keys = KeyRing(
            client, fleet.secret, wanted=self._wanted_secrets, on_change=self._keys_changed
        )
        facts = FleetFacts(
            worker=pod.name,
            key_digest_secret=fleet.secret,
            open_namespaces=settings.gateway.open_namespaces,
        )
        self.link = ControlLink(
            facts,
            self.publisher.book,
            self.intake,
            self.ownership,
            is_ready=lambda: self.publisher.is_ready,
            audit=self.audit,
        )
        self.peers = PeerService(
            fleet=lambda: self.ownership.fleet,
            me=lambda: self.place.incarnation,
            hear=self.ownership.hear,
            adopt=self._adopt,
            answer=Respondent(self.ownership, self.scaler.answer).answer,
        )
        self.probe = ScalerProbe(settings.scaler.probe_address or settings.scaler.address)
        self.reconciler = Reconciler(
            self.stores,
            client,
            self.ownership,
            Fleet(
                scaler_address=settings.scaler.address,
                polling_interval_seconds=settings.scaler.polling_interval_seconds,
                gateway_host=f"{settings.gateway.service}.{pod.namespace}.svc.{settings.gateway.cluster_domain}",
            ),
            instance=pod.name,
            ready_to_autoscale=self.probe.ready_to_autoscale,
            conflicts=self.claims.conflicts,
            audit=self.audit,
        )
        self.problems = problems
        self.problems.add(self._problems)
        self._standing = Standing.NONE

    # -- running -----------------------------------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event, started: Callable[[Worker], None] = lambda worker: None) -> None:
        """Run until `stop` is set, then drain and return; `started` is called once it listens.

        Raises:
            PortInUse: by name and setting.
            ClusterWentBack: to be started anew.
        """
        settings = self.settings
        app = admin_app(
            is_synced=self.is_synced,
            problems=self.problems,
            metrics=registry(self._parts()),
            views=views(self._parts()),
            queries=fleet_queries(self.place.cores, boottime),
        )
        scaler_server = grpc.aio.server(options=SCALER_OPTIONS)
        control_server = grpc.aio.server(options=SERVER_OPTIONS, interceptors=self.security.interceptors())
        externalscaler_grpc.add_ExternalScalerServicer_to_server(self.scaler, scaler_server)
        control_grpc.add_ControlServicer_to_server(self.link, control_server)
        peer_grpc.add_PeerServicer_to_server(self.peers, control_server)
        self.ports["scaler"] = bind(
            scaler_server.add_insecure_port,
            "scaler",
            settings.scaler.host,
            settings.scaler.port,
            "NOCTAYA_SCALER__PORT",
        )
        self.ports["control"] = bind(
            lambda address: self.security.add_port(control_server, address),
            "control link",
            settings.control.host,
            settings.control.port,
            "NOCTAYA_CONTROL__PORT",
        )
        async with listening(
            app, "admin port", settings.admin.host, settings.admin.port, "NOCTAYA_ADMIN__PORT"
        ) as admin_port:
            self.ports["admin"] = admin_port
            await scaler_server.start()
            await control_server.start()
            try:
                await self._work(stop, started)
            finally:
                await asyncio.gather(
                    scaler_server.stop(STOP_GRACE_SECONDS), control_server.stop(STOP_GRACE_SECONDS)
                )

    async def _work(self, stop: asyncio.Event, started: Callable[[Worker], None]) -> None:
        self.stores.services.subscribe(self._service_changed)
        self.stores.deployments.subscribe(self._deployment_changed)
        async with asyncio.TaskGroup() as group:
            place = {name: group.create_task(work, name=name) for name, work in self.place.works().items()}
            tasks = {
                name: group.create_task(work, name=name)
                for name, work in {
                    "stores": self.stores.run(),
                    **{f"fleet's {store.resource.plural}": store.run() for store in self.place.watch},
                    "publisher": self.publisher.run(),
                    "intake": self.intake.run(self.stores.gateways),
                    "scaler": self.scaler.run(),
                    "probe": self.probe.run(),
                    "certificate": self.security.run(self._client),
                    "certificates": self._keep_certificates(),
                    "reconcile": self.reconciler.run(self.settings.reconcile.concurrency),
                }.items()
            }
            log.info(
                "worker started",
                extra=context(
                    **self.ports,
                    fleet=self.ownership.fleet,
                    open=",".join(self.settings.gateway.open_namespaces),
                ),
            )
            started(self)
            was_asked = await self._told_to_stop(stop)
            if was_asked:
                await self._drain(tasks["reconcile"], list(place.values()))
            for task in (*place.values(), *tasks.values()):
                task.cancel()
        if not was_asked:
            raise ClusterWentBack
        log.info("worker stopped")

    async def _drain(self, reconciling: asyncio.Task[None], place: list[asyncio.Task[Any]]) -> None:
        """Hand the shards over, and only then stop what acts for them; KEDA and gateways are let go last."""
        log.info("worker draining", extra=context(streams=self.scaler.stream_count))
        await self.place.drain(DRAIN_SECONDS)
        reconciling.cancel()
        await asyncio.wait([reconciling])
        await self.place.leave(place)
        await asyncio.gather(self.scaler.drain(), self.link.drain(self.settings.control.drain_seconds))

    async def _keep_certificates(self) -> None:
        tls = self.settings.tls
        if tls.directory and tls.kept_by == "leader":
            await self._keeping.run()

    async def _told_to_stop(self, stop: asyncio.Event) -> bool:
        """True when `stop` was set, False when the cluster was set back."""
        waits = [asyncio.ensure_future(event.wait()) for event in (stop, self.place.went_back_event)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        return stop.is_set()

    def is_synced(self) -> bool:
        """Whether everything has been listed once and the routes are whole."""
        return self.stores.is_settled and self.publisher.is_ready

    def rights_changed(self) -> None:
        """This worker may do what it was refused, or the other way round."""
        self.stores.hurry()
        for store in self.place.watch:
            store.hurry()
        self._keys.watched.hurry()
        self.reconciler.enqueue_all()

    # -- shards come and go (Acting) -----------------------------------------------------------------------------------

    def begin(self, shard: int, epoch: int) -> None:
        """The shard is ours."""
        self.audit.started(shard, epoch)
        log.info("shard acquired", extra=context(shard=shard, epoch=epoch))
        for service in self._of(shard):
            self.scaler.answers.forget(service.key)
        self.link.routes_changed([shard])
        self.reconciler.enqueue_shard(shard)

    async def end(self, shard: int) -> None:
        """The shard is not ours any more."""
        self.audit.stopped(shard)
        await self.reconciler.end_shard(shard)

    def memory(self, shard: int) -> ShardMemory:
        """For the next owner of the shard."""
        keys = [service.key for service in self._of(shard)]
        return memory_of(shard, self.ownership.epoch(shard), keys, self.intake.book, self.recency, boottime())

    def _adopt(self, memory: ShardMemory) -> None:
        adopt(memory, self.intake.book, self.recency, boottime())

    def _of(self, shard: int) -> list[LLMService]:
        return self.stores.services.by_index("shard", str(shard))

    # -- the fleet (Neighbourhood) -------------------------------------------------------------------------------------

    def standing_changed(self) -> None:
        """What we may do at all has changed."""
        before, self._standing = self._standing, self.place.member.standing(boottime())
        self.audit.stood(self._standing.value)
        self.link.ownership_changed()
        if self._standing is not Standing.ACT:
            return
        if before is Standing.NONE:  # what changed meanwhile was let pass
            for shard in self.ownership.owned():
                self.reconciler.enqueue_shard(shard)
        self.reconciler.permitted()

    def members_changed(self, workers: tuple[tuple[str, str], ...], ready: int) -> None:
        """Workers came, went or moved."""
        self.link.workers_changed(workers)
        self.scaler.pushes.share(ready, boottime())

    def refounded(self) -> None:
        """The fleet has another id."""
        self.link.refounded()

    def _address(self) -> str:
        advertised, pod = self.settings.control.advertise, self.settings.pod
        if advertised or not pod.ip or "control" not in self.ports:
            return advertised
        return f"[{pod.ip}]:{self.ports['control']}" if ":" in pod.ip else f"{pod.ip}:{self.ports['control']}"

    # -- who hears what ----------------------------------------------------------------------------------------------

    def _service_changed(self, change: Change[LLMService]) -> None:
        if change.new is None:
            self.scaler.answers.forget(change.subject.key)
            self.scaler.pushes.forget(change.subject.key)
        else:
            service = change.new
            self.ownership.see_epoch(shard_of(service.namespace, service.name), service.status.shard_epoch)

    def _deployment_changed(self, change: Change[Deployment]) -> None:
        old, new = change.old, change.new
        if old is not None and new is not None and old.spec.replicas > 0 and new.spec.replicas == 0:
            self.intake.slept(service_key(new.namespace, new.name))

    def _routes_changed(self, shards: set[int]) -> None:
        self.link.routes_changed(shards)
        if self.is_synced():
            self.place.member.synced()

    def _conflicts_changed(self, keys: set[str]) -> None:
        for key in keys:
            self.reconciler.enqueue(key)

    def _keys_changed(self, namespace: str, name: str) -> None:
        self.publisher.keys_changed(namespace, name)
        self.reconciler.secret_changed(namespace, name)

    def _wanted_secrets(self) -> Mapping[SecretName, bool]:
        wanted = dict[SecretName, bool]()
        for key, secret in self.publisher.key_secrets().items():
            wanted[secret] = wanted.get(secret, False) or self.intake.is_in_use(key)
        return wanted

    def _is_known(self, key: str) -> bool | None:
        if self.stores.services.get(*split_key(key)) is not None:
            return True
        return False if self.stores.services.synced.is_set() else None

    def _is_served(self, key: str) -> bool:
        return self._replicas(key) > 0

    def _is_current(self) -> bool:
        return self.stores.deployments.synced.is_set() and self.stores.deployments.problem is None

    def _replicas(self, key: str) -> int:
        deployment = self.stores.deployments.get(*split_key(key))
        return deployment.spec.replicas if deployment is not None else 0

    # -- what it shows -----------------------------------------------------------------------------------------------

    def _problems(self) -> Iterator[Problem]:
        stores = [*self.stores, *self.place.watch, self._keys.watched]
        yield from store_problems(stores, keda=self.stores.scaledobjects)
        if self.probe.problem is not None:
            yield Problem("ScalerUnreachable", self.probe.problem)
        yield from place_problems(self.place)
        yield from demand_problems(self.intake)
        yield from self.security.problems()
        yield from keeping_problems(self._keeping)

    def _parts(self) -> Parts:
        return Parts(
            self.intake,
            self.scaler,
            self.link,
            self.publisher,
            self.ownership,
            self.reconciler,
            self.stores,
            self.problems,
            self.place,
            self.relay,
            self.security,
        )

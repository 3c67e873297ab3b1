"""One worker, put together: which part asks which. Nothing is decided here.

`Worker` builds the parts, `run` runs them until it is told to stop, then drains: reconciling stops, the Lease is released, so
that the next worker acts meanwhile, KEDA's streams end with OK, gateways hear Drain, the ports close.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Iterator, Mapping

import grpc.aio

from noctaya.api.names import shard_of
from noctaya.kube import Change, Client
from noctaya.kube.clock import boottime
from noctaya.kube.leases import Leases
from noctaya.kube.objects import Deployment
from noctaya.leader import Identity, Renewal, Tenure, Timing
from noctaya.telemetry import context
from noctaya.wire import SERVER_OPTIONS, control_grpc, externalscaler_grpc
from noctaya.workers.admin import admin_app
from noctaya.workers.claims import Claims
from noctaya.workers.demand import DemandBook
from noctaya.workers.intake import ALERT_SECONDS, Intake
from noctaya.workers.introduction import KnownFleet
from noctaya.workers.keys import KeyRing, SecretName
from noctaya.workers.link import ControlLink, FleetFacts
from noctaya.workers.listening import bind, listening
from noctaya.workers.metrics import registry
from noctaya.workers.objects import LLMService, service_key, split_key
from noctaya.workers.ownership import LEASE, Ownership
from noctaya.workers.permission import Permission
from noctaya.workers.problems import Problem, Problems, store_problems
from noctaya.workers.publisher import Publisher
from noctaya.workers.pushes import Pushes
from noctaya.workers.recency import Recency
from noctaya.workers.reconcile import Reconciler
from noctaya.workers.render import Fleet
from noctaya.workers.scaler import SCALER_OPTIONS, ExternalScaler
from noctaya.workers.scaler_probe import ScalerProbe
from noctaya.workers.settings import WorkerSettings
from noctaya.workers.specs import Specs
from noctaya.workers.stores import Stores
from noctaya.workers.views import Parts, views
from noctaya.workers.wakes import WakeLog

log = logging.getLogger(__name__)

STOP_GRACE_SECONDS = 0.5
"""For unary calls in flight when the servers close; streams have been ended before."""


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
        self.ports: dict[str, int] = {}
        """Where it listens, once it is started: scaler, control, admin."""
        pod = settings.pod
        self.stores = Stores(client, own_namespace=pod.namespace)
        self._specs = Specs()
        self.claims = Claims(settings.gateway.cluster_domain)
        identity = Identity(pod.name, pod.uid, secrets.token_hex(4))
        tenure = settings.tenure
        timing = Timing(tenure.renew_every_seconds, tenure.self_deadline_seconds, tenure.fence_after_seconds)
        self.renewal = Renewal(
            Tenure(identity, timing, is_first=fleet.is_founder),
            Leases(lease_client, pod.namespace),
            namespace=pod.namespace,
            name=LEASE,
            on_change=self._ownership_changed,
        )
        self.ownership = Ownership(self.renewal.tenure, fleet.id, see_epoch=self.renewal.see_epoch)
        wakes, recency = WakeLog(), Recency()
        pushes, book = Pushes(self._is_served), DemandBook(stale_after=settings.demand.stale_after_seconds)
        self.scaler = ExternalScaler(
            demand=book.demand,
            permission=self.ownership.permission,
            is_known=self._is_known,
            pushes=pushes,
            replicas=self._replicas,
            stream_seconds=settings.scaler.stream_seconds,
            drain_spread_seconds=settings.scaler.drain_spread_seconds,
            wakes=wakes,
            recency=recency,
        )
        self.intake = Intake(
            book, pushes, self.ownership, push=self.scaler.push, wakes=wakes, recency=recency
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
        advertised = settings.control.advertise
        facts = FleetFacts(
            fleet=fleet.id,
            worker=pod.name,
            key_digest_secret=fleet.secret,
            open_namespaces=settings.gateway.open_namespaces,
            workers=((pod.name, advertised),) if advertised else (),
        )
        self.link = ControlLink(
            facts, self.publisher.book, self.intake, self.ownership, is_ready=lambda: self.publisher.is_ready
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
        )
        self.problems = problems
        self.problems.add(self._problems)
        self._had: tuple[Permission, int] = (Permission.NONE, 0)

    # -- running -----------------------------------------------------------------------------------------------------

    async def run(self, stop: asyncio.Event, started: Callable[[Worker], None] = lambda worker: None) -> None:
        """Run until `stop` is set, then drain and return; `started` is called once it listens. Raises PortInUse."""
        settings = self.settings
        app = admin_app(
            is_synced=self.is_synced,
            problems=self.problems,
            metrics=registry(self._parts()),
            views=views(self._parts()),
        )
        scaler_server = grpc.aio.server(options=SCALER_OPTIONS)
        control_server = grpc.aio.server(options=SERVER_OPTIONS)
        externalscaler_grpc.add_ExternalScalerServicer_to_server(self.scaler, scaler_server)
        control_grpc.add_ControlServicer_to_server(self.link, control_server)
        self.ports["scaler"] = bind(
            scaler_server, "scaler", settings.scaler.host, settings.scaler.port, "NOCTAYA_SCALER__PORT"
        )
        self.ports["control"] = bind(
            control_server,
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
            tasks = {
                name: group.create_task(work, name=name)
                for name, work in {
                    "stores": self.stores.run(),
                    "tenure": self._hold_tenure(),
                    "publisher": self.publisher.run(),
                    "intake": self.intake.run(self.stores.gateways),
                    "scaler": self.scaler.run(),
                    "probe": self.probe.run(),
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
            await stop.wait()
            log.info("worker draining", extra=context(streams=self.scaler.stream_count))
            await self._resign(tasks["reconcile"], tasks["tenure"])
            await asyncio.gather(self.scaler.drain(), self.link.drain(self.settings.control.drain_seconds))
            for task in tasks.values():
                task.cancel()
        log.info("worker stopped")

    async def _resign(self, *acting: asyncio.Task[None]) -> None:
        """Stop what acts by the Lease, then release it."""
        for task in acting:
            task.cancel()
        await asyncio.wait(acting)
        await self.renewal.leave()

    async def _hold_tenure(self) -> None:
        # The epoch must be above every one that a status carries, so those are read first.
        await self.stores.services.synced.wait()
        await self.renewal.run()

    def is_synced(self) -> bool:
        """Whether everything has been listed once and the routes are whole."""
        return self.stores.is_settled and self.publisher.is_ready

    def rights_changed(self) -> None:
        """This worker may do what it was refused, or the other way round."""
        self.stores.hurry()
        self._keys.watched.hurry()
        self.reconciler.enqueue_all()

    # -- who hears what ----------------------------------------------------------------------------------------------

    def _ownership_changed(self) -> None:
        before, now = self._had, (self.ownership.permission(0), self.ownership.epoch(0))
        self._had = now
        if before[1] != now[1]:
            self.scaler.answers.begin()
        self.ownership.changed()
        self.intake.ownership_changed()
        self.link.ownership_changed()
        if now[0] is Permission.ACT and (before[0] is Permission.NONE or before[1] != now[1]):
            self.reconciler.enqueue_all()
        elif now[0] is Permission.ACT:
            self.reconciler.permitted()

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

    def _replicas(self, key: str) -> int:
        deployment = self.stores.deployments.get(*split_key(key))
        return deployment.spec.replicas if deployment is not None else 0

    # -- what it shows -----------------------------------------------------------------------------------------------

    def _problems(self) -> Iterator[Problem]:
        yield from store_problems([*self.stores, self._keys.watched], keda=self.stores.scaledobjects)
        if self.probe.problem is not None:
            yield Problem("ScalerUnreachable", self.probe.problem)
        if self.ownership.permission(0) is Permission.GROW:
            yield Problem(
                "TenureUnrenewed",
                f"the Lease {LEASE} cannot be renewed ({self.renewal.problem}): nothing is scaled down, nothing is changed.",
            )
        elif self.ownership.permission(0) is Permission.NONE and self.renewal.problem is not None:
            yield Problem(
                "TenureUnattained",
                f"this worker cannot get the Lease {LEASE} ({self.renewal.problem}): it changes nothing and answers KEDA nothing. "
                "It goes on trying.",
            )
        if shadowed := self.intake.book.shadowed(boottime()):
            yield Problem(
                "GatewayNameTaken",
                f"more than one gateway process calls itself {', '.join(shadowed)}: only the newest is counted, so nothing is "
                "scaled down. Give each its pod's name (NOCTAYA_POD__NAME, NOCTAYA_POD__NAMESPACE), as deploy/kustomize does.",
            )
        since = self.intake.unknown_since
        if since is not None and boottime() - since > ALERT_SECONDS:
            silent = self.intake.book.silent_gateways(boottime())
            reason = (
                "the API server does not show the gateways' pods."
                if silent is None
                else f"gateway {', '.join(silent)} runs and does not report."
            )
            yield Problem("DemandUnknown", f"demand is not known for 5 min: {reason}")

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
        )

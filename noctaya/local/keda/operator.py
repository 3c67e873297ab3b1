"""The stand-in itself: watches, five reconcile workers, and a loop per ScaledObject and per HPA, in one TaskGroup.

It keeps nothing that a restart would lose: every loop starts again from the API server's objects, lastActiveTime included
(L7). A failure of the API server or of a scaler never ends it; anything else is a defect and does.
"""

import asyncio
import logging
import time
from collections.abc import Callable

from noctaya.errors import NoctayaError
from noctaya.kube.client import Client
from noctaya.local.keda import changes, hpaobject
from noctaya.local.keda.channels import Channels, Resolve
from noctaya.local.keda.cluster import KubeCluster
from noctaya.local.keda.execution import Execution
from noctaya.local.keda.hpaloop import HpaLoop
from noctaya.local.keda.keyedtasks import KeyedTasks
from noctaya.local.keda.limiter import Limiter
from noctaya.local.keda.ports import Cluster, Scalers
from noctaya.local.keda.queries import MetricQueries, PolledValues
from noctaya.local.keda.reconciling import Reconciler
from noctaya.local.keda.records import Record, Records
from noctaya.local.keda.servicenames import ServiceNames
from noctaya.local.keda.settings import KedaSettings
from noctaya.local.keda.status import StatusWriter
from noctaya.local.keda.workqueue import WorkQueue
from noctaya.telemetry import context

log = logging.getLogger(__name__)

MakeScalers = Callable[[asyncio.TaskGroup], Scalers]
"""Makes the scalers inside the operator's TaskGroup, where their connections live."""


class Operator:
    """KEDA's operator, its metrics adapter and the horizontal pod autoscaler over one `Cluster`."""

    def __init__(
        self,
        cluster: Cluster,
        scalers: MakeScalers,
        settings: KedaSettings,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self._cluster = cluster
        self._make_scalers = scalers
        self._settings = settings
        self._wall = wall
        self._records = Records()
        self._hpas = Records()
        self._polled = PolledValues()
        self._queue = WorkQueue(settings.retry_first_seconds, settings.retry_most_seconds)
        self._queries: MetricQueries | None = None
        self._hpa_loops: KeyedTasks | None = None
        self.metrics_server_is_up = True
        """Set to False to stand for a broken metrics adapter: 0→1 still works, 1→N does not (H6)."""

    async def run(self) -> None:
        """Run until cancelled; every stream is cancelled and every channel closed on the way out."""
        limiter = Limiter(self._settings.status_writes_per_second, self._settings.status_writes_burst)
        try:
            async with asyncio.TaskGroup() as tasks:
                scalers = self._make_scalers(tasks)
                writer = StatusWriter(self._cluster, self._records, limiter)
                execution = Execution(self._cluster, self._hpas, writer, self._wall)
                self._queries = MetricQueries(
                    self._records, scalers, self._polled, is_up=lambda: self.metrics_server_is_up
                )
                self._hpa_loops = KeyedTasks(tasks)
                reconciler = Reconciler(
                    self._cluster,
                    self._records,
                    self._hpas,
                    scalers,
                    execution,
                    writer,
                    self._polled,
                    KeyedTasks(tasks),
                )
                for _ in range(self._settings.reconciles):
                    tasks.create_task(self._work(reconciler))
                tasks.create_task(self._cluster.watch(self._saw_scaledobject, self._saw_hpa))
        finally:
            self._queue.close()

    async def _work(self, reconciler: Reconciler) -> None:
        while True:
            key = await self._queue.get()
            failed = True
            try:
                await reconciler.reconcile(key)
                failed = False
            except NoctayaError as error:
                log.info("a reconcile failed", extra=context(scaledobject="/".join(key), error=str(error)))
            finally:
                self._queue.done(key, failed=failed)

    def _saw_scaledobject(self, before: Record | None, after: Record | None) -> None:
        if after is not None:
            self._records.saw(after)
        elif before is not None:
            self._records.saw_gone(before)
        one = after or before
        if one is not None and changes.of_scaledobject(before, after):
            self._queue.add(one.key)

    def _saw_hpa(self, before: Record | None, after: Record | None) -> None:
        one = after or before
        if one is None or self._queries is None or self._hpa_loops is None:
            return
        owner = hpaobject.owner(one)
        if after is None:
            self._hpas.saw_gone(one)
            self._hpa_loops.cancel(one.key)
        else:
            self._hpas.saw(after)
            if owner is not None and one.key not in self._hpa_loops:
                loop = HpaLoop(one.key, self._hpas, self._cluster, self._queries, self._settings, self._wall)
                self._hpa_loops.start(one.key, loop.run)
        if owner is not None and changes.of_hpa(before, after):
            self._queue.add(owner)


class KedaStandIn:
    """KEDA for the embedded cluster: `await KedaStandIn(client).run()`.

    `resolve` turns the host of a `scalerAddress` into the addresses of its ready pods; the embedded cluster has no DNS, so
    without one the EndpointSlices are read.
    """

    def __init__(
        self, client: Client, resolve: Resolve | None = None, settings: KedaSettings | None = None
    ) -> None:
        settings = settings or KedaSettings()
        resolve = resolve or ServiceNames(client).resolve
        self.operator = Operator(
            KubeCluster(client), lambda tasks: Channels(resolve, settings, tasks), settings
        )

    async def run(self) -> None:
        """Run until cancelled."""
        await self.operator.run()

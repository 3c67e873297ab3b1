"""One HPA looked at every 15 seconds: the shell around `hpa.Autoscaler` (behaviours H1 to H6).

It changes only a target with at least one replica. Its write carries the resourceVersion that it read, so that it cannot
bring back replicas which KEDA took to zero in between.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from noctaya.errors import NoctayaError
from noctaya.kube.objects import format_time
from noctaya.local.keda import hpaobject
from noctaya.local.keda.executor import Event
from noctaya.local.keda.hpa import Autoscaler, Metric, Recommendation, Replicas
from noctaya.local.keda.ports import Cluster, Target
from noctaya.local.keda.queries import MetricQueries
from noctaya.local.keda.records import Key, Record, Records
from noctaya.local.keda.settings import KedaSettings
from noctaya.local.keda.values import quantity
from noctaya.telemetry import context

log = logging.getLogger(__name__)

AUTOSCALER = "kube-controller-manager"
"""Field manager of the horizontal pod autoscaler's writes."""


class HpaLoop:
    """One HPA, from its creation to its deletion."""

    def __init__(
        self,
        key: Key,
        hpas: Records,
        cluster: Cluster,
        queries: MetricQueries,
        settings: KedaSettings,
        wall: Callable[[], float],
    ) -> None:
        self._key = key
        self._hpas = hpas
        self._cluster = cluster
        self._queries = queries
        self._settings = settings
        self._wall = wall
        self._autoscaler = Autoscaler()

    async def run(self) -> None:
        """Sync for ever. A failed sync is logged and repeated at the next one."""
        while True:
            await asyncio.sleep(self._settings.hpa_sync_seconds)
            try:
                await self.sync()
            except NoctayaError as error:
                log.warning("could not sync an HPA", extra=context(hpa="/".join(self._key), error=str(error)))

    async def sync(self) -> None:
        """Look once; raises NoctayaError when the API server or the target fails."""
        record = self._hpas.get(self._key)
        owner = hpaobject.owner(record) if record is not None else None
        if record is None or owner is None:
            return
        name = hpaobject.target_name(record)
        target = await self._cluster.read_target(record.namespace, name)
        bounds = hpaobject.bounds(record)
        asks = bounds.minimum <= target.spec_replicas <= bounds.maximum
        metrics = await self._read(record, owner) if asks else []
        now = asyncio.get_running_loop().time()
        replicas = Replicas(target.spec_replicas, target.status_replicas, target.ready_replicas)
        wanted = self._autoscaler.recommend(bounds, replicas, metrics, now)
        scaled = wanted.replicas != target.spec_replicas
        if scaled:
            await self._cluster.scale_target(
                record.namespace,
                name,
                wanted.replicas,
                by=AUTOSCALER,
                resource_version=target.resource_version,
            )
            self._autoscaler.scaled(target.spec_replicas, wanted.replicas, now)
            self._cluster.tell(record, Event("SuccessfulRescale", f"New size: {wanted.replicas}"))
        await self._record(record, target, wanted, metrics, scaled=scaled)

    async def _read(self, record: Record, owner: Key) -> list[Metric]:
        metrics = []
        for name, kind, amount in hpaobject.metric_targets(record):
            total, error = None, ""
            try:
                async with asyncio.timeout(self._settings.metrics_deadline_seconds):
                    total = await self._queries.total(owner, name)
            except (NoctayaError, TimeoutError) as failure:
                error = str(failure) or "the scaler did not answer in time"
            metrics.append(Metric(name, kind, amount, total, error))
        return metrics

    async def _record(
        self, record: Record, target: Target, wanted: Recommendation, metrics: list[Metric], *, scaled: bool
    ) -> None:
        stamp = format_time(datetime.fromtimestamp(self._wall(), UTC))
        status: dict[str, Any] = {
            "currentReplicas": target.status_replicas,
            "desiredReplicas": wanted.replicas,
            "conditions": _conditions(record, wanted, stamp, scaled=scaled),
            "currentMetrics": [_current(metric, target) for metric in metrics if metric.total is not None],
        }
        if scaled:
            status["lastScaleTime"] = stamp
        if any(record.status.get(field) != value for field, value in status.items()):
            self._hpas.saw(await self._cluster.patch_hpa_status(record, status))


def _current(metric: Metric, target: Target) -> dict[str, Any]:
    total = metric.total or 0
    if metric.kind == "Value":
        current = {"value": quantity(total)}
    else:
        current = {"averageValue": quantity(-(-total // max(1, target.status_replicas)))}
    return {"type": "External", "external": {"metric": {"name": metric.name}, "current": current}}


def _conditions(record: Record, wanted: Recommendation, stamp: str, *, scaled: bool) -> list[dict[str, str]]:
    able = (
        ("SucceededRescale", "the target was scaled")
        if scaled
        else ("ReadyForNewScale", "the target can be scaled")
    )
    limited = wanted.limited_by
    entries = [
        ("AbleToScale", "True", *able),
        ("ScalingActive", "True" if wanted.scaling_active else "False", wanted.reason, wanted.message),
    ]
    if wanted.scaling_active:
        within = ("DesiredWithinRange", "the desired count is within the acceptable range")
        beyond = (limited, "the desired count was limited")
        entries.append(("ScalingLimited", "True" if limited else "False", *(beyond if limited else within)))
    before = {entry["type"]: entry for entry in record.status.get("conditions") or []}
    found = []
    for type_, status, reason, message in entries:
        old = before.get(type_, {})
        since = (
            old["lastTransitionTime"]
            if old.get("status") == status and "lastTransitionTime" in old
            else stamp
        )
        found.append(
            {
                "type": type_,
                "status": status,
                "reason": reason,
                "message": message,
                "lastTransitionTime": since,
            }
        )
    return found

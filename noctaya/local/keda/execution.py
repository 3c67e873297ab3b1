"""Carries out the executor's decisions: reads the target, writes its scale, then records the outcome in the status.

Invariant: the caller holds the ScaledObject's mutex. A failed scale write is an event and no lastActiveTime, never an
exception: the next poll tries again, as KEDA does.
"""

import logging
from collections.abc import Callable, Mapping

from noctaya.errors import NoctayaError
from noctaya.local.keda import conditions, executor
from noctaya.local.keda.conditions import HPA_ACTIVE, Condition
from noctaya.local.keda.errors import TargetUnreadable
from noctaya.local.keda.executor import Outcome, Situation
from noctaya.local.keda.ports import Cluster
from noctaya.local.keda.records import Record, Records
from noctaya.local.keda.spec import Scaling, created_at, last_active_at, pause_of
from noctaya.local.keda.status import StatusChange, StatusWriter
from noctaya.telemetry import context

log = logging.getLogger(__name__)

KEDA = "keda"
"""Field manager of everything that KEDA writes."""


class Execution:
    """Table 4.4, carried out. `wall` is the wall clock in seconds."""

    def __init__(
        self, cluster: Cluster, hpas: Records, writer: StatusWriter, wall: Callable[[], float]
    ) -> None:
        self._cluster = cluster
        self._hpas = hpas
        self._writer = writer
        self._wall = wall

    async def execute(
        self, record: Record, scaling: Scaling, *, active: bool, error: bool, activity: Mapping[str, bool]
    ) -> None:
        """Bring the target to what `active` and `error` ask for, and the status to what came of it."""
        try:
            target = await self._cluster.read_target(scaling.namespace, scaling.target)
        except TargetUnreadable as unreadable:
            await self._record(record, StatusChange((conditions.replicas_unknown(str(unreadable)),)))
            return
        pause = pause_of(record)
        decision = executor.decide(
            Situation(
                active=active,
                error=error,
                current=target.spec_replicas,
                minimum=scaling.minimum,
                idle=scaling.idle,
                created_at=created_at(record),
                last_active_at=last_active_at(record),
                cooldown_seconds=scaling.cooldown_seconds,
                initial_cooldown_seconds=scaling.initial_cooldown_seconds,
                active_status=conditions.read(record.status, conditions.ACTIVE).status,
                is_paused=pause.is_paused,
                blocks_scale_in=pause.blocks_scale_in,
                blocks_scale_out=pause.blocks_scale_out,
                forces_activation=pause.forces_activation,
            ),
            self._wall(),
        )
        outcome = decision.on_success
        replicas = target.spec_replicas
        if decision.replicas is not None:
            if await self._scale(record, scaling, decision.replicas):
                replicas = decision.replicas
            else:
                outcome = decision.on_failure
        await self._record(record, self._change(scaling, outcome, activity, replicas))
        if outcome.event is not None:
            self._cluster.tell(record, outcome.event)

    async def _scale(self, record: Record, scaling: Scaling, replicas: int) -> bool:
        try:
            await self._cluster.scale_target(scaling.namespace, scaling.target, replicas, by=KEDA)
        except NoctayaError as error:
            log.warning(
                "could not scale",
                extra=context(scaledobject=_name(record), replicas=replicas, error=str(error)),
            )
            return False
        return True

    def _change(
        self, scaling: Scaling, outcome: Outcome, activity: Mapping[str, bool], replicas: int
    ) -> StatusChange:
        return StatusChange(
            conditions=(
                *outcome.conditions,
                conditions.FALLBACK_FALSE,
                *self._hpa_condition(scaling, replicas),
            ),
            last_active_at=self._wall() if outcome.marks_active else None,
            activity=activity,
        )

    def _hpa_condition(self, scaling: Scaling, replicas: int) -> tuple[Condition, ...]:
        if replicas == 0:
            return (Condition(HPA_ACTIVE, "True", "ScalingDisabled", "The target rests at zero replicas"),)
        hpa = self._hpas.get((scaling.namespace, scaling.hpa_name))
        found = conditions.read(hpa.status, "ScalingActive") if hpa is not None else None
        if found is None or found.status == "Unknown" or found.reason == "ScalingDisabled":
            return ()
        if found.status == "True":
            return (Condition(HPA_ACTIVE, "True", "HPAActive", "The HPA reads its metrics"),)
        return (Condition(HPA_ACTIVE, "False", found.reason, found.message),)

    async def _record(self, record: Record, change: StatusChange) -> None:
        try:
            await self._writer.write(record.key, change)
        except NoctayaError as error:
            log.warning(
                "could not write a status", extra=context(scaledobject=_name(record), error=str(error))
            )


def _name(record: Record) -> str:
    return f"{record.namespace}/{record.name}"

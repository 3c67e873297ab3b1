"""One ScaledObject brought in line: finalizer, label, status, HPA, and its scale loop started or stopped (keda.md, 2.4, 4.6, 5).

Level-based: everything is read anew from the records each time. A failure is written into Ready=False with its message and
raised, and the queue brings the key back later (L2); until GetMetricSpec has worked there is no HPA, no stream and no poll.
"""

from typing import Any

from noctaya.errors import NoctayaError
from noctaya.local.keda import conditions, hpaobject
from noctaya.local.keda.errors import InvalidScaledObject
from noctaya.local.keda.execution import KEDA, Execution
from noctaya.local.keda.executor import Event
from noctaya.local.keda.keyedtasks import KeyedTasks
from noctaya.local.keda.ports import Cluster, Scalers
from noctaya.local.keda.queries import PolledValues
from noctaya.local.keda.records import Key, Record, Records
from noctaya.local.keda.scaleloop import ScaleLoop
from noctaya.local.keda.spec import TRIGGER_TYPE, Scaling, pause_of, understand
from noctaya.local.keda.status import StatusChange, StatusWriter
from noctaya.local.keda.triggers import Asking

FINALIZER = "finalizer.keda.sh"


class Reconciler:
    """Holds which generation each loop was last started for."""

    def __init__(
        self,
        cluster: Cluster,
        records: Records,
        hpas: Records,
        scalers: Scalers,
        execution: Execution,
        writer: StatusWriter,
        polled: PolledValues,
        loops: KeyedTasks,
    ) -> None:
        self._cluster = cluster
        self._records = records
        self._hpas = hpas
        self._scalers = scalers
        self._execution = execution
        self._writer = writer
        self._polled = polled
        self._loops = loops
        self._started_for: dict[Key, tuple[str, int]] = {}

    async def reconcile(self, key: Key) -> None:
        """Raises NoctayaError when it must be tried again."""
        record = self._records.get(key)
        if record is None:
            await self._stop(key)
            self._writer.forget(key)
        elif record.metadata.is_deleting:
            await self._finalize(record)
        else:
            await self._check(record)

    async def _check(self, record: Record) -> None:
        record = await self._with_finalizer(record)
        if not record.status.get("conditions"):
            await self._writer.write(record.key, StatusChange(conditions.INITIAL))
        try:
            if await self._pause(record):
                return
            await self._serve(await self._with_label(record))
        except NoctayaError as error:
            event = Event("ScaledObjectCheckFailed", str(error), "Warning")
            await self._report(record, event, conditions.check_failed(str(error)), conditions.ACTIVE_UNKNOWN)
            raise
        await self._report(
            record, Event("ScaledObjectReady", "The ScaledObject is ready for scaling"), conditions.READY_TRUE
        )

    async def _report(self, record: Record, event: Event, *changes: conditions.Condition) -> None:
        newest = self._records.get(record.key) or record
        before = conditions.read(newest.status, conditions.READY)
        if event.type == "Warning" or before.status != "True":
            self._cluster.tell(newest, event)
        await self._writer.write(record.key, StatusChange(changes))

    async def _with_finalizer(self, record: Record) -> Record:
        if FINALIZER in record.metadata.finalizers:
            return record
        return await self._patch(record, {"finalizers": [*record.metadata.finalizers, FINALIZER]})

    async def _with_label(self, record: Record) -> Record:
        record = self._records.get(record.key) or record
        if record.metadata.labels.get(hpaobject.NAME_LABEL) == record.name:
            return record
        return await self._patch(record, {"labels": {hpaobject.NAME_LABEL: record.name}})

    async def _patch(self, record: Record, metadata: dict[str, Any]) -> Record:
        # A list of finalizers is replaced as a whole; with the resourceVersion a concurrent writer's is not lost.
        version = record.metadata.resource_version
        patched = await self._cluster.patch_scaledobject(
            record, {"metadata": {**metadata, "resourceVersion": version}}
        )
        self._records.saw(patched)
        return patched

    async def _pause(self, record: Record) -> bool:
        pause = pause_of(record)
        was_paused = conditions.read(record.status, conditions.PAUSED).status == "True"
        if not pause.is_paused:
            if was_paused:
                self._cluster.tell(record, Event("ScaledObjectUnpaused", "The ScaledObject scales again"))
                change = StatusChange((conditions.PAUSED_FALSE,), fields={"pausedReplicaCount": None})
                await self._writer.write(record.key, change)
            return False
        await self._stop(record.key)
        scaling = understand(record)
        await self._delete_hpa((record.namespace, scaling.hpa_name))
        if pause.replicas is not None:
            await self._cluster.scale_target(record.namespace, scaling.target, pause.replicas, by=KEDA)
        if not was_paused:
            self._cluster.tell(
                record, Event("ScaledObjectPaused", "The ScaledObject is paused by an annotation")
            )
        await self._writer.write(
            record.key,
            StatusChange(
                (conditions.READY_TRUE, conditions.PAUSED_TRUE), fields={"pausedReplicaCount": pause.replicas}
            ),
        )
        return True

    async def _serve(self, record: Record) -> None:
        scaling = understand(record)
        self._refuse_second(record, scaling)
        target = await self._cluster.read_target(record.namespace, scaling.target)
        offered = [
            (trigger, spec)
            for trigger in scaling.triggers
            for spec in await Asking(self._scalers, scaling).specs_once(trigger)
        ]
        wanted = hpaobject.manifest(record, scaling, pause_of(record), offered)
        fields: dict[str, Any] = {
            "scaleTargetKind": "apps/v1.Deployment",
            "scaleTargetGVKR": {
                "group": "apps",
                "version": "v1",
                "kind": "Deployment",
                "resource": "deployments",
            },
            "hpaName": scaling.hpa_name,
            "externalMetricNames": [
                entry["external"]["metric"]["name"] for entry in wanted["spec"]["metrics"]
            ],
            "triggersTypes": TRIGGER_TYPE,
        }
        newest = self._records.get(record.key) or record
        if newest.status.get("originalReplicaCount") is None:
            fields["originalReplicaCount"] = target.spec_replicas
        is_new = await self._keep_hpa(record, scaling, wanted)
        await self._writer.write(record.key, StatusChange(fields=fields))
        incarnation = (record.uid, record.metadata.generation)
        if is_new or record.key not in self._loops or self._started_for.get(record.key) != incarnation:
            loop = ScaleLoop(scaling, self._records, self._scalers, self._execution, self._polled)
            await self._loops.restart(record.key, loop.run)
            self._started_for[record.key] = incarnation
            self._cluster.tell(record, Event("KEDAScalersStarted", "Started watching the scalers"))

    def _refuse_second(self, record: Record, scaling: Scaling) -> None:
        # KEDA's admission webhook refuses the later one; ties by uid, so that exactly one of two goes on.
        mine = (record.metadata.creation_timestamp or "", record.uid)
        for other in self._records:
            if other.namespace != record.namespace or other.uid == record.uid:
                continue
            theirs = (other.metadata.creation_timestamp or "", other.uid)
            if (other.spec.get("scaleTargetRef") or {}).get("name") == scaling.target and theirs < mine:
                raise InvalidScaledObject(
                    f"Deployment {scaling.target} is already scaled by ScaledObject {other.name}; delete one of them"
                )

    async def _keep_hpa(self, record: Record, scaling: Scaling, wanted: dict[str, Any]) -> bool:
        """Whether the HPA had to be created."""
        found = self._hpas.get((record.namespace, scaling.hpa_name))
        if found is None:
            old_name = record.status.get("hpaName")
            if old_name and old_name != scaling.hpa_name:
                await self._delete_hpa((record.namespace, old_name))
            self._hpas.saw(await self._cluster.create_hpa(wanted))
            return True
        if not hpaobject.is_same(found, wanted):
            self._hpas.saw(await self._cluster.replace_hpa(found, wanted))
        return False

    async def _delete_hpa(self, key: Key) -> None:
        await self._cluster.delete_hpa(*key)
        found = self._hpas.get(key)
        if found is not None:
            self._hpas.saw_gone(found)

    async def _finalize(self, record: Record) -> None:
        await self._stop(record.key)
        if FINALIZER not in record.metadata.finalizers:
            return
        original = record.status.get("originalReplicaCount")
        advanced = record.spec.get("advanced") or {}
        target = (record.spec.get("scaleTargetRef") or {}).get("name")
        if advanced.get("restoreToOriginalReplicaCount") and original is not None and target:
            try:
                await self._cluster.scale_target(record.namespace, target, original, by=KEDA)
            except NoctayaError as error:
                # The target may be gone already; a ScaledObject must not hang in Terminating for it.
                self._cluster.tell(
                    record, Event("KEDAScalerFailed", f"could not restore replicas: {error}", "Warning")
                )
        left = [finalizer for finalizer in record.metadata.finalizers if finalizer != FINALIZER]
        await self._patch(record, {"finalizers": left})

    async def _stop(self, key: Key) -> None:
        self._started_for.pop(key, None)
        await self._loops.stop(key)

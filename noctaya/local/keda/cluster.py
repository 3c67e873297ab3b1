"""`ports.Cluster` over `noctaya.kube`: which verbs and subresources KEDA uses, and nothing else.

ScaledObjects and HPAs come from list+watch stores; the target is read when it is needed, so that a decision never rests on
a watch that lags. Errors of the client pass through, except that an unreadable target is a `TargetUnreadable`.
"""

import asyncio
from collections.abc import Mapping
from typing import Any

from noctaya.kube.client import Client, PatchType
from noctaya.kube.errors import KubeError, NotFound
from noctaya.kube.events import EventRecorder, reference
from noctaya.kube.reflector import Change
from noctaya.kube.resources import DEPLOYMENTS, HPAS, SCALEDOBJECTS, Resource
from noctaya.kube.store import Store
from noctaya.local.keda import hpaobject
from noctaya.local.keda.errors import TargetUnreadable
from noctaya.local.keda.execution import KEDA
from noctaya.local.keda.executor import Event
from noctaya.local.keda.ports import Seen, Target
from noctaya.local.keda.records import Record

COMPONENT = "keda-operator"


class KubeCluster:
    """The API server as KEDA uses it."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._recorder = EventRecorder(client, COMPONENT)

    async def watch(self, on_scaledobject: Seen, on_hpa: Seen) -> None:
        """Feed both callbacks until cancelled. HPAs first: a ScaledObject whose HPA exists must not look new."""
        hpas = Store(self._client, HPAS, Record)
        scaledobjects = Store(self._client, SCALEDOBJECTS, Record)
        hpas.subscribe(lambda change: on_hpa(*_sides(change)))
        scaledobjects.subscribe(lambda change: on_scaledobject(*_sides(change)))
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._recorder.run())
            tasks.create_task(hpas.run())
            await hpas.synced.wait()
            tasks.create_task(scaledobjects.run())

    async def patch_scaledobject(self, record: Record, patch: Mapping[str, Any]) -> Record:
        """Merge-patch metadata."""
        return await self._patched(SCALEDOBJECTS, record, patch)

    async def patch_scaledobject_status(self, record: Record, status: Mapping[str, Any]) -> Record:
        """Merge-patch the status subresource."""
        return await self._patched(SCALEDOBJECTS, record, {"status": status}, "status")

    async def read_target(self, namespace: str, name: str) -> Target:
        """The Deployment's counts."""
        try:
            found = await self._client.get(DEPLOYMENTS, namespace, name, into=Record)
        except KubeError as error:
            raise TargetUnreadable(
                f"cannot read the replicas of Deployment {namespace}/{name}: {error}"
            ) from error
        return Target(
            spec_replicas=found.spec.get("replicas", 1),
            status_replicas=found.status.get("replicas", 0),
            ready_replicas=found.status.get("readyReplicas", 0),
            resource_version=found.metadata.resource_version,
        )

    async def scale_target(
        self, namespace: str, name: str, replicas: int, *, by: str, resource_version: str | None = None
    ) -> None:
        """Replace the Deployment's scale."""
        metadata = {"name": name, "namespace": namespace}
        if resource_version:
            metadata["resourceVersion"] = resource_version
        body = {
            "apiVersion": "autoscaling/v1",
            "kind": "Scale",
            "metadata": metadata,
            "spec": {"replicas": replicas},
        }
        await self._client.replace(DEPLOYMENTS, namespace, name, body, subresource="scale", field_manager=by)

    async def create_hpa(self, manifest: Mapping[str, Any]) -> Record:
        """Create it."""
        created = await self._client.create(
            HPAS, manifest["metadata"]["namespace"], manifest, into=Record, field_manager=KEDA
        )
        return _record(created)

    async def replace_hpa(self, record: Record, manifest: Mapping[str, Any]) -> Record:
        """Replace it, unless somebody was faster."""
        metadata = {**manifest["metadata"], "resourceVersion": record.metadata.resource_version}
        body = {**manifest, "metadata": metadata}
        replaced = await self._client.replace(
            HPAS, record.namespace, record.name, body, into=Record, field_manager=KEDA
        )
        return _record(replaced)

    async def delete_hpa(self, namespace: str, name: str) -> None:
        """Delete it; gone already is fine."""
        try:
            await self._client.delete(HPAS, namespace, name)
        except NotFound:
            return

    async def patch_hpa_status(self, record: Record, status: Mapping[str, Any]) -> Record:
        """Merge-patch the status subresource."""
        return await self._patched(HPAS, record, {"status": status}, "status")

    def tell(self, record: Record, event: Event) -> None:
        """Hand an event to the recorder, which drops the oldest when too many wait."""
        resource = HPAS if hpaobject.owner(record) is not None else SCALEDOBJECTS
        self._recorder.record(reference(resource, record), event.reason, event.message, event.type)

    async def _patched(
        self, resource: Resource, record: Record, patch: Mapping[str, Any], subresource: str | None = None
    ) -> Record:
        patched = await self._client.patch(
            resource,
            record.namespace,
            record.name,
            patch,
            PatchType.MERGE,
            into=Record,
            subresource=subresource,
            field_manager=KEDA,
        )
        return _record(patched)


def _sides(change: Change[Record]) -> tuple[Record | None, Record | None]:
    return change.old, change.new


def _record(answer: object) -> Record:
    if not isinstance(answer, Record):
        raise TypeError(f"the client decoded {type(answer).__name__} where a Record was asked for")
    return answer

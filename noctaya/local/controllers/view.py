"""What the controllers see of the cluster: one list+watch store a kind, shared by all of them."""

import asyncio
from typing import Any

from noctaya.kube.client import Client
from noctaya.kube.events import EventRecorder
from noctaya.kube.resources import (
    DEPLOYMENTS,
    ENDPOINTSLICES,
    JOBS,
    NODES,
    PODS,
    PVCS,
    PVS,
    REPLICASETS,
    SERVICES,
)
from noctaya.kube.store import Store
from noctaya.local.controllers.records import Record, SliceRecord, owner_uid

OWNER = "owner"
NAMESPACE = "namespace"
CLAIM = "claim"
SERVICE = "service"
SERVICE_LABEL = "kubernetes.io/service-name"


class ClusterView:
    """Stores and the means to change what they show."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.recorder = EventRecorder(client, "noctaya-local", instance="controllers")
        by_owner = {OWNER: owner_uid}
        in_namespace = {NAMESPACE: namespace_of}
        self.deployments = Store(client, DEPLOYMENTS, Record)
        self.replica_sets = Store(client, REPLICASETS, Record, indexers=by_owner)
        self.jobs = Store(client, JOBS, Record)
        self.pods = Store(client, PODS, Record, indexers={**by_owner, **in_namespace, CLAIM: claims_of})
        self.services = Store(client, SERVICES, Record, indexers=in_namespace)
        self.slices = Store(client, ENDPOINTSLICES, SliceRecord, indexers={SERVICE: service_of})
        self.claims = Store(client, PVCS, Record)
        self.volumes = Store(client, PVS, Record)
        self.nodes = Store(client, NODES, Record)

    @property
    def stores(self) -> list[Store[Any]]:
        """All of them."""
        return [
            self.deployments, self.replica_sets, self.jobs, self.pods, self.services, self.slices, self.claims,
            self.volumes, self.nodes,
        ]  # fmt: skip

    async def run(self) -> None:
        """Keep the stores current and write events, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self.recorder.run(), name="controller events")
            for store in self.stores:
                tasks.create_task(store.run())

    async def synced(self) -> None:
        """Every store has seen the cluster once."""
        for store in self.stores:
            await store.synced.wait()


def namespace_of(record: Record) -> list[str]:
    """Index: the namespace."""
    return [record.namespace]


def service_of(record: SliceRecord) -> list[str]:
    """Index: `namespace/name` of the Service that a slice belongs to."""
    name = record.metadata.labels.get(SERVICE_LABEL)
    return [f"{record.namespace}/{name}"] if name else []


def claims_of(pod: Record) -> list[str]:
    """Index: `namespace/name` of every claim that a pod mounts."""
    claims = [volume.get("persistentVolumeClaim") for volume in pod.spec.get("volumes") or ()]
    return [f"{pod.namespace}/{claim['claimName']}" for claim in claims if claim]

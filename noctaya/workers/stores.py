"""Everything a worker knows about the cluster: one list+watch store a kind, with the indexes that reconcile and routes use.

All LLMServices and InferenceRuntimes are watched, children only by our label, gateways only in our own namespace. KEDA's
ScaledObject is the one kind that may be missing from the cluster: the worker then runs on, `settled` is reached without
it, and services say `AutoscalingReady=False/AutoscalingUnavailable` until the CRD appears.

Indexes: `services` by "runtime", "vendor", "secret" (`namespace/name`) and "shard"; every child kind by "service"
(`namespace/name`); `runtimes` by "vendor".
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

from noctaya.api.names import LABEL_LLMSERVICE, LABEL_MANAGED_BY, LABEL_NAME, MANAGED_BY, shard_of
from noctaya.kube import Client, Store
from noctaya.kube.objects import Deployment, Job, Object, PersistentVolumeClaim, Pod, ScaledObject, Service
from noctaya.kube.reflector import WatchSettings
from noctaya.kube.resources import (
    DEPLOYMENTS,
    HPAS,
    INFERENCERUNTIMES,
    JOBS,
    LLMSERVICES,
    PODS,
    PVCS,
    SCALEDOBJECTS,
    SERVICES,
)
from noctaya.workers.objects import InferenceRuntime, LLMService, ScaledHPA, references, service_key

MANAGED = f"{LABEL_MANAGED_BY}={MANAGED_BY}"
GATEWAYS = f"{LABEL_NAME}=noctaya,app.kubernetes.io/component=gateway"


class Stores:
    """The stores of one worker; `run` keeps all of them current until it is cancelled."""

    def __init__(self, client: Client, *, own_namespace: str, watch: WatchSettings | None = None) -> None:
        """`own_namespace` is where gateways are looked for; `watch` how patient the stores are (tests shrink it)."""
        by_service = {"service": owning_service}
        self.services = Store(
            client,
            LLMSERVICES,
            LLMService,
            indexers={
                "runtime": lambda service: [references(service).runtime],
                "vendor": lambda service: list(references(service).vendors),
                "secret": lambda service: [
                    service_key(service.namespace, name) for name in references(service).secrets
                ],
                "shard": lambda service: [str(shard_of(service.namespace, service.name))],
            },
            settings=watch,
        )
        self.runtimes = Store(
            client,
            INFERENCERUNTIMES,
            InferenceRuntime,
            indexers={"vendor": lambda runtime: [runtime.choice().vendor]},
            settings=watch,
        )
        self.pods = Store(client, PODS, Pod, label_selector=MANAGED, indexers=by_service, settings=watch)
        self.deployments = Store(
            client, DEPLOYMENTS, Deployment, label_selector=MANAGED, indexers=by_service, settings=watch
        )
        self.kube_services = Store(
            client, SERVICES, Service, label_selector=MANAGED, indexers=by_service, settings=watch
        )
        self.pvcs = Store(
            client, PVCS, PersistentVolumeClaim, label_selector=MANAGED, indexers=by_service, settings=watch
        )
        self.jobs = Store(client, JOBS, Job, label_selector=MANAGED, indexers=by_service, settings=watch)
        self.scaledobjects = Store(
            client, SCALEDOBJECTS, ScaledObject, label_selector=MANAGED, indexers=by_service, settings=watch
        )
        # KEDA copies the ScaledObject's labels to its HPA, but puts its own name into managed-by.
        self.hpas = Store(
            client, HPAS, ScaledHPA, label_selector=LABEL_LLMSERVICE, indexers=by_service, settings=watch
        )
        self.gateways = Store(
            client, PODS, Pod, namespace=own_namespace, label_selector=GATEWAYS, settings=watch
        )

    def __iter__(self) -> Iterator[Store[Any]]:
        yield self.services
        yield self.runtimes
        yield self.pods
        yield self.deployments
        yield self.kube_services
        yield self.pvcs
        yield self.jobs
        yield self.scaledobjects
        yield self.hpas
        yield self.gateways

    async def run(self) -> None:
        """List and watch until cancelled."""
        async with asyncio.TaskGroup() as group:
            for store in self:
                group.create_task(store.run())

    def hurry(self) -> None:
        """A right came back: what was refused is asked for again."""
        for store in self:
            store.hurry()

    @property
    def is_settled(self) -> bool:
        """Whether every kind has been listed once, or is known not to be served (KEDA's alone may be missing)."""
        return all(
            store.settled.is_set() if store is self.scaledobjects else store.synced.is_set() for store in self
        )

    async def settled(self) -> None:
        """Return once `is_settled`. No deadline of its own: `/readyz` tells what is waited for."""
        for store in self:
            await (store.settled if store is self.scaledobjects else store.synced).wait()

    @property
    def is_keda_served(self) -> bool:
        """Whether the cluster has KEDA's ScaledObject kind."""
        return self.scaledobjects.serves


def owning_service(child: Object) -> list[str]:
    """The service that `child`'s label names, as an index value; none without the label."""
    name = child.metadata.labels.get(LABEL_LLMSERVICE, "")
    return [service_key(child.namespace, name)] if name else []

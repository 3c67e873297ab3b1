"""All controllers together."""

import asyncio

from noctaya.kube.client import Client
from noctaya.local.controllers.claims import ClaimController, ReleaseController
from noctaya.local.controllers.deployment import DeploymentController
from noctaya.local.controllers.endpointslice import EndpointSliceController
from noctaya.local.controllers.expiry import EventExpiry
from noctaya.local.controllers.garbage import GarbageCollector
from noctaya.local.controllers.job import JobController
from noctaya.local.controllers.namespaces import NamespaceController
from noctaya.local.controllers.node import NodeHeartbeat
from noctaya.local.controllers.nodeports import NodePortProxy
from noctaya.local.controllers.replicaset import ReplicaSetController
from noctaya.local.controllers.scheduler import Scheduler
from noctaya.local.controllers.settings import ControllerSettings
from noctaya.local.controllers.view import ClusterView


async def run_all(client: Client, settings: ControllerSettings) -> None:
    """Run every controller until cancelled. One TaskGroup: if one ends, which none does, all end."""
    view = ClusterView(client)
    collector = GarbageCollector(client, settings.discovery_seconds)
    namespaces = NamespaceController(client)
    controllers = [
        DeploymentController(view),
        ReplicaSetController(view),
        JobController(view, settings),
        EndpointSliceController(view),
        Scheduler(view, settings),
        ClaimController(view, settings),
        ReleaseController(view, settings),
        NodePortProxy(view),
    ]
    expiry = EventExpiry(client, settings.event_age_seconds, settings.sweep_seconds)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(view.run(), name="controllers' view")
        tasks.create_task(collector.kinds.run(), name="all kinds")
        tasks.create_task(namespaces.store.run(), name="namespaces")
        # Nothing is decided before everything was seen once: half a view would create what is already there.
        await view.synced()
        tasks.create_task(NodeHeartbeat(view, settings).run(), name="node heartbeat")
        tasks.create_task(expiry.run(), name="event expiry")
        for controller in [*controllers, collector, namespaces]:
            tasks.create_task(controller.run(), name=controller.name)

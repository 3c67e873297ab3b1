"""Quick mode: a control plane and KEDA as plain processes, without a node."""

import asyncio
from pathlib import Path

import pytest

from tests.cluster.binaries import Binaries
from tests.cluster.cluster import Cluster
from tests.cluster.conftest import own_namespace, running
from tests.cluster.errors import AlreadyRunning, NotRunning
from tests.cluster.images import PAUSE
from tests.cluster.progress import Progress
from tests.cluster.scripted_scaler import scripted_scaler
from tests.cluster.test_cluster import deployment, scaled_object

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]


async def test_keda_outside_the_cluster_wakes_a_deployment_too(programs: Binaries, place: Path) -> None:
    with running(Cluster(place, programs), "quick") as cluster, own_namespace(cluster) as namespace:
        kubectl = cluster.kubectl
        async with scripted_scaler("127.0.0.1") as scaler:
            objects = [deployment("model", PAUSE, replicas=0), scaled_object("model", scaler.address)]
            await asyncio.to_thread(kubectl.apply, objects, namespace=namespace)
            await scaler.has_stream(60.0)
            noted = "jsonpath={.status.externalMetricNames[0]}=s0-pending"
            await asyncio.to_thread(kubectl.wait, "scaledobject/model", noted, namespace=namespace)
            await scaler.push(True)
            woken = "jsonpath={.spec.replicas}=1"
            await asyncio.to_thread(kubectl.wait, "deployment/model", woken, namespace=namespace)
            await asyncio.to_thread(kubectl, "delete", "scaledobject/model", namespace=namespace)
        with pytest.raises(AlreadyRunning), Progress() as progress:
            Cluster(place, programs).up("quick", progress)
    with pytest.raises(NotRunning):
        _ = cluster.server

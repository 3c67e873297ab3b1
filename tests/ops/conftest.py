"""An API server that holds a model fleet's Leases and map, so that wishes written to it reach the fleet's leader."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from noctaya.kube import Client, ClusterConfig
from noctaya.kube.resources import CONFIGMAPS, LEASES, NAMESPACES
from noctaya.leader.lease_names import (
    ANNOTATION_CORDON,
    ANNOTATION_DRAIN,
    ANNOTATION_FREEZE,
    is_wished,
    member_lease,
)
from noctaya.local.apiserver import ApiServer
from noctaya.ops.way import NAMESPACE
from noctaya.ops.wishes import SHARD_MAP
from tests.ops.fleet import Fleet, fleet_of


@dataclass
class Seen:
    """A fleet behind an API server, both real enough to be asked by any client."""

    fleet: Fleet
    server: ApiServer
    client: Client
    kubeconfig: Path

    def annotations(self, kind: str, version: str, name: str) -> dict[str, str]:
        found = self.server.cluster.get(self.server.cluster.kind(kind, version), NAMESPACE, name)
        annotations: dict[str, str] = found["metadata"].get("annotations", {})
        return annotations

    def worker(self, pod: str) -> dict[str, str]:
        return self.annotations("Lease", "coordination.k8s.io/v1", member_lease(pod))

    def map(self) -> dict[str, str]:
        return self.annotations("ConfigMap", "v1", SHARD_MAP)

    def tell_the_fleet(self) -> None:
        """What a watch would show of the wishes."""
        world = self.fleet.world
        for pod, view in list(world.members.items()):
            wishes = self.worker(pod)
            cordon, drain = is_wished(wishes, ANNOTATION_CORDON), is_wished(wishes, ANNOTATION_DRAIN)
            if (view.is_cordon_asked, view.is_drain_asked) != (cordon, drain):
                world.wish(pod, cordon=cordon, drain=drain)
        is_frozen = is_wished(self.map(), ANNOTATION_FREEZE)
        if is_frozen != world.is_freeze_asked:
            world.is_freeze_asked = is_frozen
            world.touch_map()


@pytest.fixture
async def seen(tmp_path: Path) -> AsyncIterator[Seen]:
    async with ApiServer() as server:
        kubeconfig = server.kubeconfig(tmp_path / "kubeconfig")
        async with Client(ClusterConfig.load(str(kubeconfig))) as client:
            fleet = fleet_of(3)
            await client.create(NAMESPACES, None, {"metadata": {"name": NAMESPACE}})
            for pod in fleet.world.members:
                await client.create(
                    LEASES, NAMESPACE, lease(member_lease(pod), fleet.world.workers[pod].incarnation)
                )
            await client.create(
                LEASES, NAMESPACE, lease("noctaya-leader", fleet.world.workers["w0"].incarnation)
            )
            await client.create(CONFIGMAPS, NAMESPACE, {"metadata": {"name": SHARD_MAP}})
            found = Seen(fleet, server, client, kubeconfig)
            fleet.before_step = found.tell_the_fleet
            yield found


def lease(name: str, holder: str) -> dict[str, Any]:
    note = {"example.com/note": "of somebody else"}
    return {"metadata": {"name": name, "annotations": note}, "spec": {"holderIdentity": holder}}

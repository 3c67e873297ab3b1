"""A start on saved state: what spoke of processes is forgotten, what a person made is kept."""

from pathlib import Path

from noctaya.kube import resources
from noctaya.kube.client import Client
from noctaya.kube.config import ClusterConfig
from noctaya.local.apiserver import ApiServer
from noctaya.local.restored import forget_processes
from noctaya.local.system import SYSTEM_NAMESPACE

LABELS = {"app": "x"}
POD_SPEC = {"containers": [{"name": "x", "image": "pause"}]}


def named(kind: str, version: str, name: str, **more: object) -> dict[str, object]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **more}


def workload(kind: str, name: str) -> dict[str, object]:
    template = {"metadata": {"labels": LABELS}, "spec": POD_SPEC}
    return named(kind, "apps/v1", name, spec={"selector": {"matchLabels": LABELS}, "template": template})


async def test_pods_and_the_roles_own_deployments_go_and_everything_else_stays(tmp_path: Path) -> None:
    async with (
        ApiServer() as server,
        Client(ClusterConfig.load(str(server.kubeconfig(tmp_path / "config"))), user_agent="test") as client,
    ):
        await client.create(resources.NAMESPACES, None, named("Namespace", "v1", SYSTEM_NAMESPACE))
        for namespace in ("default", SYSTEM_NAMESPACE):
            await client.create(resources.PODS, namespace, named("Pod", "v1", "p", spec=POD_SPEC))
            await client.create(resources.DEPLOYMENTS, namespace, workload("Deployment", "d"))
            await client.create(resources.REPLICASETS, namespace, workload("ReplicaSet", "r"))
        await forget_processes(client)
        assert (await client.list(resources.PODS)).items == []
        for resource in (resources.DEPLOYMENTS, resources.REPLICASETS):
            kept = (await client.list(resource)).items
            assert [one["metadata"]["namespace"] for one in kept] == ["default"]

"""Deployments with real pods: waking, sleeping, rolling, and what stays behind."""

import asyncio
from typing import Any

from noctaya.kube.client import Propagation
from noctaya.kube.resources import DEPLOYMENTS, ENDPOINTSLICES, PODS, REPLICASETS, SERVICES
from tests.local.agent.cluster import LocalCluster, until

WAIT = "import signal; signal.sigwait({15})"


def deployment(name: str = "web", replicas: int = 1, script: str = WAIT, **spec: Any) -> dict[str, Any]:
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [
                {
                    "name": "main",
                    "image": "python",
                    "args": [script],
                    "ports": [{"name": "http", "containerPort": 80}],
                }
            ],
        },
    }
    selector = {"matchLabels": {"app": name}}
    return {
        "metadata": {"name": name},
        "spec": {"replicas": replicas, "selector": selector, "template": template, **spec},
    }


async def scale(cluster: LocalCluster, name: str, replicas: int) -> None:
    await cluster.client.patch(
        DEPLOYMENTS, "default", name, {"spec": {"replicas": replicas}}, subresource="scale"
    )


async def pods(cluster: LocalCluster) -> list[dict[str, Any]]:
    return (await cluster.client.list(PODS, "default")).items


def available(count: int) -> Any:
    return lambda found: (found.get("status") or {}).get("availableReplicas", 0) == count


def is_observed(found: dict[str, Any]) -> bool:
    """Whether the status speaks of the newest spec, and not of the one before."""
    return bool(found["status"].get("observedGeneration") == found["metadata"]["generation"])


def reason(found: dict[str, Any], kind: str) -> str:
    return next((c["reason"] for c in found["status"]["conditions"] if c["type"] == kind), "")


async def test_a_sleeping_deployment_wakes_and_sleeps_again(cluster: LocalCluster) -> None:
    await cluster.create(DEPLOYMENTS, deployment(replicas=0))
    service = {"clusterIP": "None", "selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]}
    await cluster.create(SERVICES, {"metadata": {"name": "web"}, "spec": service})
    found = await cluster.until(DEPLOYMENTS, "web", lambda d: "observedGeneration" in (d.get("status") or {}))
    assert reason(found, "Progressing") == "NewReplicaSetAvailable"

    for _ in range(2):
        await scale(cluster, "web", 1)
        found = await cluster.until(DEPLOYMENTS, "web", available(1))
        assert found["status"]["readyReplicas"] == found["status"]["updatedReplicas"] == 1

        async def has_endpoint() -> bool:
            slices = (await cluster.client.list(ENDPOINTSLICES, "default")).items
            return [e["conditions"]["ready"] for s in slices for e in s["endpoints"]] == [True]

        await until(has_endpoint, 5, lambda: "no endpoint")
        await scale(cluster, "web", 0)

        async def is_asleep() -> bool:
            return not await pods(cluster)

        await until(is_asleep, 5, lambda: "pods left")
        found = await cluster.until(DEPLOYMENTS, "web", lambda d: not d["status"].get("replicas"))

    assert len((await cluster.client.list(REPLICASETS, "default")).items) == 1
    await cluster.until_event("web", "ScalingReplicaSet", "from 0 to 1")


async def test_a_new_template_replaces_pods_without_a_gap(cluster: LocalCluster) -> None:
    await cluster.create(DEPLOYMENTS, deployment())
    first = await cluster.until(DEPLOYMENTS, "web", available(1))
    (old,) = await pods(cluster)
    least = 1

    async def watch_availability() -> None:
        nonlocal least
        while True:
            found = await cluster.client.get(DEPLOYMENTS, "default", "web")
            least = min(least, found["status"].get("availableReplicas", 0))
            await asyncio.sleep(0.02)

    watcher = asyncio.create_task(watch_availability())
    template = deployment(script=f"x = 2; {WAIT}")["spec"]["template"]
    await cluster.client.patch(DEPLOYMENTS, "default", "web", {"spec": {"template": template}})

    async def is_replaced() -> bool:
        return [p["metadata"]["uid"] for p in await pods(cluster)] not in (
            [],
            [old["metadata"]["uid"]],
        ) and len(await pods(cluster)) == 1

    await until(is_replaced, 8, lambda: "not replaced")
    found = await cluster.until(
        DEPLOYMENTS,
        "web",
        lambda d: is_observed(d) and d["status"].get("updatedReplicas") == d["status"].get("replicas") == 1,
    )
    watcher.cancel()
    await asyncio.gather(watcher, return_exceptions=True)

    assert least == 1
    assert (
        found["status"]["observedGeneration"]
        == found["metadata"]["generation"]
        > first["metadata"]["generation"]
    )
    sets = (await cluster.client.list(REPLICASETS, "default")).items
    revisions = {
        s["metadata"]["annotations"]["deployment.kubernetes.io/revision"]: s["spec"]["replicas"] for s in sets
    }
    assert revisions == {"1": 0, "2": 1}
    (new,) = await pods(cluster)
    assert new["metadata"]["labels"]["pod-template-hash"]


async def test_recreate_never_runs_old_and_new_together(cluster: LocalCluster) -> None:
    await cluster.create(DEPLOYMENTS, deployment(strategy={"type": "Recreate"}))
    await cluster.until(DEPLOYMENTS, "web", available(1))
    most = 0

    async def watch_pods() -> None:
        nonlocal most
        while True:
            most = max(most, len(await pods(cluster)))
            await asyncio.sleep(0.01)

    watcher = asyncio.create_task(watch_pods())
    template = deployment(script=f"x = 2; {WAIT}")["spec"]["template"]
    await cluster.client.patch(DEPLOYMENTS, "default", "web", {"spec": {"template": template}})
    await cluster.until(
        DEPLOYMENTS,
        "web",
        lambda d: (
            is_observed(d) and d["status"].get("updatedReplicas") == 1 == d["status"].get("availableReplicas")
        ),
    )
    watcher.cancel()
    await asyncio.gather(watcher, return_exceptions=True)

    assert most == 1


async def test_a_rollout_that_cannot_finish_misses_its_deadline(cluster: LocalCluster) -> None:
    body = deployment(progressDeadlineSeconds=1)
    body["spec"]["template"]["spec"]["containers"][0]["image"] = "nope"
    await cluster.create(DEPLOYMENTS, body)

    found = await cluster.until(
        DEPLOYMENTS,
        "web",
        lambda d: (
            bool((d.get("status") or {}).get("conditions"))
            and reason(d, "Progressing") == "ProgressDeadlineExceeded"
        ),
    )

    assert reason(found, "Available") == "MinimumReplicasUnavailable"
    assert found["status"]["unavailableReplicas"] == 1


async def test_a_deleted_pod_is_replaced(cluster: LocalCluster) -> None:
    await cluster.create(DEPLOYMENTS, deployment(replicas=2))
    await cluster.until(DEPLOYMENTS, "web", available(2))
    before = {p["metadata"]["uid"] for p in await pods(cluster)}
    victim = (await pods(cluster))[0]["metadata"]

    await cluster.client.delete(PODS, "default", victim["name"])

    async def is_replaced() -> bool:
        now = {p["metadata"]["uid"] for p in await pods(cluster)}
        return len(now) == 2 and victim["uid"] not in now

    await until(is_replaced, 8, lambda: "not replaced")
    await cluster.until(DEPLOYMENTS, "web", available(2))
    after = {p["metadata"]["uid"] for p in await pods(cluster)}
    assert len(before & after) == 1


async def test_children_go_with_a_deleted_deployment(cluster: LocalCluster) -> None:
    await cluster.create(DEPLOYMENTS, deployment())
    await cluster.until(DEPLOYMENTS, "web", available(1))

    await cluster.client.delete(DEPLOYMENTS, "default", "web")

    async def is_empty() -> bool:
        return not await pods(cluster) and not (await cluster.client.list(REPLICASETS, "default")).items

    await until(is_empty, 8, lambda: "children left")


async def test_foreground_deletion_removes_the_deployment_last(cluster: LocalCluster) -> None:
    await cluster.create(DEPLOYMENTS, deployment())
    await cluster.until(DEPLOYMENTS, "web", available(1))

    await cluster.client.delete(DEPLOYMENTS, "default", "web", propagation=Propagation.FOREGROUND)

    await cluster.until_gone(DEPLOYMENTS, "web")
    assert not (await cluster.client.list(REPLICASETS, "default")).items


async def test_orphaned_children_stay(cluster: LocalCluster) -> None:
    await cluster.create(DEPLOYMENTS, deployment())
    await cluster.until(DEPLOYMENTS, "web", available(1))

    await cluster.client.delete(DEPLOYMENTS, "default", "web", propagation=Propagation.ORPHAN)

    await cluster.until_gone(DEPLOYMENTS, "web")
    (left,) = (await cluster.client.list(REPLICASETS, "default")).items
    assert not left["metadata"].get("ownerReferences")
    assert len(await pods(cluster)) == 1

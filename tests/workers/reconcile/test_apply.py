"""What is written to an API server, and what never is."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from noctaya.kube.errors import Conflict
from noctaya.kube.resources import (
    DEPLOYMENTS,
    INFERENCERUNTIMES,
    LLMSERVICES,
    PVCS,
    SCALEDOBJECTS,
    SERVICES,
)
from noctaya.workers.apply import Applier
from noctaya.workers.convergence import TAKEN_NAME_RETRY_SECONDS
from noctaya.workers.errors import BeingDeleted
from noctaya.workers.permission import Permission
from noctaya.workers.render import Child
from tests.api.samples import inferenceruntime, llmservice
from tests.workers.reconcile.cluster import Cluster, until
from tests.workers.reconcile.golden import rendering


async def _image(cluster: Cluster) -> str:
    deployment = await cluster.get(DEPLOYMENTS)
    return str(deployment["spec"]["template"]["spec"]["containers"][0]["image"])


async def test_a_service_becomes_its_children_and_sleeps(cluster: Cluster) -> None:
    await cluster.runtime()
    await cluster.service()
    async with cluster.reconciling():
        await until(lambda: cluster.get(SCALEDOBJECTS))
        deployment = await cluster.get(DEPLOYMENTS)
        assert deployment["spec"]["replicas"] == 0
        assert (await cluster.get(SERVICES, "qwen"))["spec"]["type"] == "ExternalName"
        assert (await cluster.get(SERVICES, "qwen-backend"))["spec"]["clusterIP"] == "None"

        async def asleep() -> bool:
            return (await cluster.status()).get("phase") == "ScaledToZero"

        await until(asleep)
    status = await cluster.status()
    assert status["endpointURL"] == "http://qwen.ai.svc/v1"
    assert status["resolvedRuntime"] == "vllm"
    assert status["shardEpoch"] == 7
    assert not (await cluster.client.list(PVCS, "ai")).items, "pvc:// needs no cache of its own"


async def _change_image(cluster: Cluster, image: str) -> None:
    await cluster.client.patch(INFERENCERUNTIMES, None, "vllm", {"spec": {"container": {"image": image}}})

    async def applied() -> bool:
        return await _image(cluster) == image

    await until(applied)


@pytest.mark.parametrize("replicas", [0, 2])
async def test_an_image_change_leaves_replicas_to_the_autoscaler(cluster: Cluster, replicas: int) -> None:
    """Neither is a sleeping model woken, nor are two running replicas cut to one."""
    await cluster.runtime()
    await cluster.service(scaling={"min": 0, "max": 3})
    async with cluster.reconciling():
        await until(lambda: cluster.get(SCALEDOBJECTS))
        if replicas:
            await cluster.scale(replicas)
        for image in ("vllm:2", "vllm:3"):
            await _change_image(cluster, image)
            assert (await cluster.get(DEPLOYMENTS))["spec"]["replicas"] == replicas


async def test_a_model_that_sleeps_again_stays_asleep_through_an_image_change(cluster: Cluster) -> None:
    await cluster.runtime()
    await cluster.service()
    async with cluster.reconciling():
        await until(lambda: cluster.get(SCALEDOBJECTS))
        await _change_image(cluster, "vllm:2")
        await cluster.scale(1)
        await _change_image(cluster, "vllm:3")
        await cluster.scale(0)
        await _change_image(cluster, "vllm:4")
        assert (await cluster.get(DEPLOYMENTS))["spec"]["replicas"] == 0


async def test_replicas_begin_at_the_minimum(cluster: Cluster) -> None:
    await cluster.runtime()
    await cluster.service(scaling={"min": 2, "max": 3})
    async with cluster.reconciling():
        deployment = await until(lambda: cluster.get(DEPLOYMENTS))
        assert deployment["spec"]["replicas"] == 2


async def test_replicas_are_handed_over_even_if_the_worker_died_in_between(cluster: Cluster) -> None:
    await cluster.runtime()
    await cluster.service()
    async with cluster.reconciling():
        await until(lambda: cluster.get(SCALEDOBJECTS))
    key = "serving.noctaya.io/replicas-managed-by"
    # The state after a creation without its handover: `noctaya` alone owns the field.
    body = await cluster.get(DEPLOYMENTS)
    await cluster.client.delete(DEPLOYMENTS, "ai", "qwen")
    for name in ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields"):
        body["metadata"].pop(name, None)
    body.pop("status", None)
    del body["metadata"]["annotations"][key]
    await cluster.client.apply(DEPLOYMENTS, "ai", "qwen", body, field_manager="noctaya")
    await cluster.scale(1)
    async with cluster.reconciling():

        async def handed_over() -> bool:
            return key in (await cluster.get(DEPLOYMENTS))["metadata"].get("annotations", {})

        await until(handed_over)
        await _change_image(cluster, "vllm:2")
        assert (await cluster.get(DEPLOYMENTS))["spec"]["replicas"] == 1


async def test_an_object_of_somebody_else_is_left_alone_and_named(cluster: Cluster) -> None:
    theirs = {
        "metadata": {"name": "qwen", "labels": {"app": "theirs"}},
        "spec": {"type": "ClusterIP", "selector": {"app": "theirs"}, "ports": [{"name": "http", "port": 80}]},
    }
    await cluster.client.create(SERVICES, "ai", theirs)
    await cluster.runtime()
    await cluster.service()
    async with cluster.reconciling() as reconciler:

        async def refused() -> bool:
            return (await cluster.condition("Degraded")).get("reason") == "NameConflict"

        await until(refused)
        found = await cluster.get(SERVICES)
        assert found["spec"]["selector"] == {"app": "theirs"}
        assert "ownerReferences" not in found["metadata"]
        condition = await cluster.condition("Ready")
        assert condition["status"] == "False"
        assert "Service ai/qwen" in condition["message"]
        # The name is free, and nothing tells so: the next look goes on where it stopped.
        await cluster.client.delete(SERVICES, "ai", "qwen")
        cluster.ahead_seconds += TAKEN_NAME_RETRY_SECONDS + 1.0
        reconciler.enqueue("ai/nobody")  # the queue looks at the clock that was put forward

        async def recovered() -> bool:
            return (await cluster.condition("Degraded")).get("status") == "False"

        await until(recovered)


async def test_nothing_is_written_while_nothing_differs(cluster: Cluster) -> None:
    await cluster.runtime()
    await cluster.service()
    async with cluster.reconciling():
        await until(lambda: cluster.get(SCALEDOBJECTS))
        await cluster.keda_says("True")
        await until(lambda: _is(cluster, "AutoscalingReady", "True"))
    await cluster.gateway()
    async with cluster.reconciling():
        await until(lambda: _is(cluster, "EndpointReady", "True"))
    versions = [
        (await cluster.get(kind, name))["metadata"]["resourceVersion"]
        for kind, name in (
            (LLMSERVICES, "qwen"), (DEPLOYMENTS, "qwen"), (SERVICES, "qwen"),
            (SERVICES, "qwen-backend"), (SCALEDOBJECTS, "qwen"),
        )
    ]  # fmt: skip
    # Another worker, which remembers nothing, looks at everything and finds it in order.
    async with cluster.reconciling() as reconciler:
        asked = cluster.owner.asked
        await until(lambda: _holds(cluster.owner.asked > asked and reconciler.backlog == 0))
        await asyncio.sleep(0.2)
    again = [
        (await cluster.get(kind, name))["metadata"]["resourceVersion"]
        for kind, name in (
            (LLMSERVICES, "qwen"), (DEPLOYMENTS, "qwen"), (SERVICES, "qwen"),
            (SERVICES, "qwen-backend"), (SCALEDOBJECTS, "qwen"),
        )
    ]  # fmt: skip
    assert again == versions


async def test_a_drifted_child_is_repaired_and_a_deleted_one_made_anew(cluster: Cluster) -> None:
    await cluster.runtime()
    await cluster.service()
    async with cluster.reconciling():
        await until(lambda: cluster.get(SCALEDOBJECTS))
        await cluster.client.patch(SERVICES, "ai", "qwen", {"spec": {"externalName": "elsewhere"}})

        async def repaired() -> bool:
            found = await cluster.get(SERVICES)
            return str(found["spec"]["externalName"]).startswith("noctaya-gateway.")

        await until(repaired)
        await cluster.client.delete(SERVICES, "ai", "qwen-backend")
        await until(lambda: cluster.get(SERVICES, "qwen-backend"))


async def test_without_permission_nothing_is_written(cluster: Cluster) -> None:
    await cluster.runtime()
    await cluster.service()
    for granted in (Permission.NONE, Permission.GROW):
        cluster.owner.granted = granted
        async with cluster.reconciling():
            asked = cluster.owner.asked
            await until(lambda asked=asked: _holds(cluster.owner.asked > asked))  # type: ignore[misc]
            await asyncio.sleep(0.1)
        assert not (await cluster.client.list(DEPLOYMENTS, "ai")).items
        assert not await cluster.status()


async def test_permission_lost_in_the_middle_stops_the_next_write(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    await cluster.runtime()
    await cluster.service()
    ensure = Applier.ensure

    async def ensure_and_lose(self: Applier, *arguments: Any) -> None:
        await ensure(self, *arguments)
        cluster.owner.granted = Permission.NONE

    monkeypatch.setattr(Applier, "ensure", ensure_and_lose)
    async with cluster.reconciling():
        await until(lambda: cluster.get(DEPLOYMENTS))
        await until(lambda: _holds(cluster.owner.granted is Permission.NONE))
        await asyncio.sleep(0.1)
    assert not (await cluster.client.list(SERVICES, "ai")).items
    assert not await cluster.status()


async def test_a_status_of_a_higher_epoch_belongs_to_another_worker(cluster: Cluster) -> None:
    await cluster.runtime()
    await cluster.service()
    await cluster.client.patch(LLMSERVICES, "ai", "qwen", {"status": {"shardEpoch": 8}}, subresource="status")
    async with cluster.reconciling() as reconciler:
        await until(lambda: _holds(cluster.owner.asked > 0 and reconciler.backlog == 1))
    assert not (await cluster.client.list(DEPLOYMENTS, "ai")).items
    assert await cluster.status() == {"shardEpoch": 8}


async def test_an_epoch_that_nobody_can_have_reached_blocks_no_service(cluster: Cluster) -> None:
    await cluster.runtime()
    await cluster.service()
    absurd = {"status": {"shardEpoch": 2**40}}
    await cluster.client.patch(LLMSERVICES, "ai", "qwen", absurd, subresource="status")
    async with cluster.reconciling():
        await until(lambda: cluster.get(SCALEDOBJECTS))

        async def corrected() -> bool:
            return (await cluster.status()).get("shardEpoch") == 7

        await until(corrected)


async def test_children_of_a_deleted_namesake_are_waited_for_and_not_called_a_conflict(
    cluster: Cluster,
) -> None:
    await cluster.runtime()
    await cluster.service()
    async with cluster.reconciling():
        await until(lambda: cluster.get(SCALEDOBJECTS))
    await cluster.client.delete(LLMSERVICES, "ai", "qwen")
    fresh = await cluster.service()
    async with cluster.reconciling():
        # Nobody collects garbage here: the old children stay until the test plays the collector.
        await until(lambda: _is(cluster, "Degraded", "False"))
        for kind, name in (
            (DEPLOYMENTS, "qwen"), (SERVICES, "qwen"), (SERVICES, "qwen-backend"), (SCALEDOBJECTS, "qwen"),
        ):  # fmt: skip
            await cluster.client.delete(kind, "ai", name)

        async def made_anew() -> bool:
            owners = (await cluster.get(SCALEDOBJECTS))["metadata"]["ownerReferences"]
            return bool(owners[0]["uid"] == fresh["metadata"]["uid"])

        await until(made_anew)
    assert "NameConflict" not in await cluster.events()


async def test_a_worker_that_was_refused_goes_on_as_soon_as_it_may(cluster: Cluster) -> None:
    await cluster.runtime()
    await cluster.service()
    cluster.owner.granted = Permission.GROW
    async with cluster.reconciling() as reconciler:
        await until(lambda: _holds(cluster.owner.asked > 0))
        await asyncio.sleep(0.1)
        cluster.owner.granted = Permission.ACT
        reconciler.permitted()
        await until(lambda: cluster.get(SCALEDOBJECTS))


async def test_a_service_that_is_being_deleted_is_left_to_the_garbage_collector(cluster: Cluster) -> None:
    await cluster.runtime()
    await cluster.service()
    await cluster.client.patch(LLMSERVICES, "ai", "qwen", {"metadata": {"finalizers": ["test/hold"]}})
    await cluster.client.delete(LLMSERVICES, "ai", "qwen")
    async with cluster.reconciling() as reconciler:
        await until(lambda: _holds(reconciler.backlog == 0))
        await asyncio.sleep(0.2)
    assert not (await cluster.client.list(DEPLOYMENTS, "ai")).items


async def test_a_cache_claim_is_made_once_and_its_drift_is_named(cluster: Cluster) -> None:
    await cluster.runtime()
    await cluster.service(model={"source": {"uri": "hf://Qwen/Qwen3-8B"}}, cache={"size": "10Gi"})
    async with cluster.reconciling():
        claim = await until(lambda: cluster.get(PVCS, "qwen-cache"))
        assert claim["spec"]["resources"]["requests"]["storage"] == "10Gi"
        await until(lambda: cluster.get(SCALEDOBJECTS))
        change = {"spec": {"cache": {"storageClassName": "fast"}, "scaling": {"max": 2}}}
        await cluster.client.patch(LLMSERVICES, "ai", "qwen", change)

        async def named() -> bool:
            condition = await cluster.condition("Degraded")
            return condition.get("reason") == "Cache" and "qwen-cache" in condition["message"]

        await until(named)

        async def rest_went_on() -> bool:
            return bool((await cluster.get(SCALEDOBJECTS))["spec"]["maxReplicaCount"] == 2)

        await until(rest_went_on)
        assert (await cluster.get(PVCS, "qwen-cache"))["metadata"]["uid"] == claim["metadata"]["uid"]


async def test_a_namesake_made_meanwhile_is_not_forced(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every later apply carries the uid of the object that it was decided for."""
    await cluster.runtime()
    await cluster.service()
    async with cluster.reconciling():
        await until(lambda: cluster.get(SCALEDOBJECTS))
    ours = await cluster.get(SERVICES)
    await cluster.client.delete(SERVICES, "ai", "qwen")
    theirs = {"type": "ClusterIP", "selector": {"app": "theirs"}, "ports": [{"name": "http", "port": 80}]}
    await cluster.client.create(SERVICES, "ai", {"metadata": {"name": "qwen"}, "spec": theirs})

    async def read_before(self: Applier, child: Child) -> dict[str, Any]:
        return ours

    monkeypatch.setattr(Applier, "_get", read_before)
    changed = rendering(llmservice(), inferenceruntime()).service
    owner = ours["metadata"]["ownerReferences"][0]["uid"]
    with pytest.raises((Conflict, BeingDeleted)):
        await Applier(cluster.client).ensure(changed, None, owner, lambda what: None)
    found = await cluster.get(SERVICES)
    assert found["spec"]["selector"] == {"app": "theirs"}
    assert "ownerReferences" not in found["metadata"]


async def test_an_apply_that_was_overtaken_changes_nothing(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that stood still between its look and its write: its successor has applied a newer spec meanwhile."""
    await cluster.runtime()
    await cluster.service()
    async with cluster.reconciling():
        await until(lambda: cluster.get(SCALEDOBJECTS))
    seen = await cluster.get(DEPLOYMENTS)
    owner = seen["metadata"]["ownerReferences"][0]["uid"]
    newer = rendering(llmservice(), inferenceruntime(container={"image": "vllm:new"})).deployment
    stale = rendering(llmservice(), inferenceruntime(container={"image": "vllm:stale"})).deployment
    for child in (newer, stale):
        child.body["metadata"]["ownerReferences"][0]["uid"] = owner
    await Applier(cluster.client).ensure(newer, None, owner, lambda what: None)

    async def read_before(self: Applier, child: Child) -> dict[str, Any]:
        return seen

    monkeypatch.setattr(Applier, "_get", read_before)
    with pytest.raises(Conflict):
        await Applier(cluster.client).ensure(stale, None, owner, lambda what: None)
    assert await _image(cluster) == "vllm:new"


async def _is(cluster: Cluster, type_: str, status: str) -> bool:
    return (await cluster.condition(type_)).get("status") == status


async def _holds(claim: bool) -> bool:
    return claim

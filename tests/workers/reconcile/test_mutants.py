"""Each safety rule of apply switched off: what it protects from then happens. A rule whose absence nobody notices is dead."""

from __future__ import annotations

from typing import Any

import pytest

from noctaya.kube.resources import DEPLOYMENTS, INFERENCERUNTIMES, SCALEDOBJECTS, SERVICES
from noctaya.workers import apply as apply_module
from noctaya.workers.apply import Applier, Permit
from noctaya.workers.convergence import Convergence
from noctaya.workers.permission import Permission
from noctaya.workers.render import Child
from tests.workers.reconcile.cluster import Cluster, until


async def test_without_the_handover_an_image_change_would_wake_a_sleeping_model(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def kept(self: Applier, child: Child, found: dict[str, Any], permit: Permit) -> dict[str, Any]:
        return found

    monkeypatch.setattr(Applier, "_hand_over_replicas", kept)
    await cluster.runtime()
    await cluster.service()
    async with cluster.reconciling():
        await until(lambda: cluster.get(SCALEDOBJECTS))
        await cluster.client.patch(INFERENCERUNTIMES, None, "vllm", {"spec": {"container": {"image": "new"}}})

        async def woken() -> bool:
            return bool((await cluster.get(DEPLOYMENTS))["spec"]["replicas"] == 1)

        await until(woken)


async def test_without_the_look_at_the_owner_a_strangers_service_would_be_taken(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apply_module, "_check_owner", lambda *_: None)
    theirs = {"type": "ClusterIP", "selector": {"app": "theirs"}, "ports": [{"name": "http", "port": 80}]}
    await cluster.client.create(SERVICES, "ai", {"metadata": {"name": "qwen"}, "spec": theirs})
    await cluster.runtime()
    await cluster.service()
    async with cluster.reconciling():

        async def taken() -> bool:
            return "ownerReferences" in (await cluster.get(SERVICES))["metadata"]

        await until(taken)


async def test_without_the_question_for_permission_a_fenced_worker_would_write(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Convergence, "_permit", lambda self, shard: lambda what: None)
    cluster.owner.granted = Permission.GROW
    await cluster.runtime()
    await cluster.service()
    async with cluster.reconciling():
        await until(lambda: cluster.get(DEPLOYMENTS))

"""What an operator sees on an API server while a service lives: phase, conditions, events."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from noctaya.kube.errors import Call, KindNotServed, Unavailable
from noctaya.kube.reflector import WatchEnded
from noctaya.kube.resources import DEPLOYMENTS, INFERENCERUNTIMES, LLMSERVICES, PODS, SCALEDOBJECTS
from noctaya.local.keda import crds as keda_crds
from noctaya.workers import queue
from noctaya.workers.apply import Applier
from noctaya.workers.render import Child
from tests.workers.reconcile.cluster import Cluster, running, until

PULLING = {
    "phase": "Pending",
    "containerStatuses": [
        {
            "name": "serving", "image": "x", "imageID": "", "ready": False, "restartCount": 0,
            "state": {"waiting": {"reason": "ImagePullBackOff"}},
        }
    ],
}  # fmt: skip
READY = {
    "phase": "Running",
    "conditions": [{"type": "Ready", "status": "True"}],
    "containerStatuses": [
        {
            "name": "serving", "image": "x", "imageID": "", "ready": True, "restartCount": 0,
            "state": {"running": {"startedAt": "2026-01-02T03:04:05Z"}},
        }
    ],
}  # fmt: skip


def phase(cluster: Cluster, wanted: str) -> Callable[[], Awaitable[bool]]:
    async def claim() -> bool:
        return (await cluster.status()).get("phase") == wanted

    return claim


def says(cluster: Cluster, type_: str, status: str, reason: str) -> Callable[[], Awaitable[bool]]:
    async def claim() -> bool:
        found = await cluster.condition(type_)
        return (found.get("status"), found.get("reason")) == (status, reason)

    return claim


async def test_a_model_wakes_fails_recovers_and_sleeps_and_each_is_told_once(cluster: Cluster) -> None:
    await cluster.runtime()
    await cluster.service()
    async with cluster.reconciling():
        await until(phase(cluster, "ScaledToZero"))
        await cluster.scale(1)
        await until(phase(cluster, "Loading"))
        await cluster.replicas_seen(1, 0)
        await cluster.pod("qwen-1", PULLING)
        await until(phase(cluster, "Degraded"))
        assert (await cluster.condition("Ready"))["reason"] == "ImagePullFailed"
        await cluster.pod_status("qwen-1", READY)
        await cluster.replicas_seen(1, 1)
        await until(phase(cluster, "Ready"))
        status = await cluster.status()
        assert status["replicas"] == 1
        assert status["lastActivation"]
        await until(says(cluster, "Degraded", "False", "Healthy"))
        await cluster.scale(0)
        await cluster.replicas_seen(0, 0)
        await cluster.client.delete(PODS, "ai", "qwen-1", grace_period_seconds=0)
        await until(phase(cluster, "ScaledToZero"))
        assert (await cluster.status())["replicas"] == 0

        wanted = ["Activated", "BackendRecovered", "ImagePullFailed", "Ready", "ScaledToZero"]

        async def told() -> bool:
            return sorted(reason for reason in await cluster.events() if reason in wanted) == wanted

        await until(told)


async def test_without_keda_the_worker_works_and_says_so_until_keda_comes(tmp_path: Path) -> None:
    async with running(tmp_path, with_keda=False) as cluster:
        await cluster.runtime()
        await cluster.service()
        async with cluster.reconciling():
            await until(says(cluster, "AutoscalingReady", "False", "AutoscalingUnavailable"))
            assert (await cluster.status())["phase"] == "ScaledToZero"
            assert (await cluster.get(DEPLOYMENTS))["spec"]["replicas"] == 0
            await cluster.install(*keda_crds())
            await until(lambda: cluster.get(SCALEDOBJECTS))
            await cluster.keda_says("True")
            await until(says(cluster, "AutoscalingReady", "True", "ScaledObjectApplied"))


async def test_a_kind_that_is_gone_for_a_moment_is_no_news_and_one_that_stays_gone_is(
    cluster: Cluster,
) -> None:
    """An API server that lags behind its siblings says 404 for a kind that they serve."""
    await cluster.gateway()
    await cluster.runtime()
    await cluster.service()
    async with cluster.reconciling() as reconciler:
        await until(lambda: cluster.get(SCALEDOBJECTS))
        await cluster.keda_says("True")
        await until(says(cluster, "AutoscalingReady", "True", "ScaledObjectApplied"))
        await until(lambda: _holds(reconciler.backlog == 0))
        copy = reconciler._stores.scaledobjects._core
        copy.on(WatchEnded(KindNotServed(Call("watch", "scaledobjects.keda.sh"), "404")), 0.0)
        # It was looked at, and will be again in a minute.
        await until(lambda: _holds(reconciler.backlog == 1))
        assert (await cluster.condition("AutoscalingReady"))["status"] == "True"
        cluster.ahead_seconds += 61.0
        reconciler.enqueue("ai/qwen")
        await until(says(cluster, "AutoscalingReady", "False", "AutoscalingUnavailable"))
        copy.serves = True
        await until(says(cluster, "AutoscalingReady", "True", "ScaledObjectApplied"))


async def test_no_scaled_object_is_made_before_the_scaler_answers_by_its_name(cluster: Cluster) -> None:
    cluster.scaler_reachable = False
    await cluster.runtime()
    await cluster.service()
    async with cluster.reconciling():
        await until(says(cluster, "AutoscalingReady", "False", "ScalerUnreachable"))
        assert not (await cluster.client.list(SCALEDOBJECTS, "ai")).items
        cluster.scaler_reachable = True
        await until(lambda: cluster.get(SCALEDOBJECTS))
        await until(says(cluster, "AutoscalingReady", "Unknown", "WaitingForKEDA"))


async def test_a_flap_of_keda_is_not_written_down(cluster: Cluster) -> None:
    await cluster.gateway()
    await cluster.runtime()
    await cluster.service()
    async with cluster.reconciling() as reconciler:
        await until(lambda: cluster.get(SCALEDOBJECTS))
        await cluster.keda_says("True")
        await until(says(cluster, "AutoscalingReady", "True", "ScaledObjectApplied"))
        await until(lambda: _holds(reconciler.backlog == 0))
        asked = cluster.owner.asked
        await cluster.keda_says("False", "connection refused")
        # It was looked at, and will be again in a minute.
        await until(lambda: _holds(cluster.owner.asked > asked and reconciler.backlog == 1))
        assert (await cluster.condition("AutoscalingReady"))["status"] == "True"


async def test_a_scaled_object_that_keda_gave_up_on_is_told_and_started_over(cluster: Cluster) -> None:
    await cluster.runtime()
    await cluster.service()
    async with cluster.reconciling() as reconciler:
        await until(lambda: cluster.get(SCALEDOBJECTS))
        await cluster.keda_says("False", "connection refused")
        told = says(cluster, "AutoscalingReady", "False", "ScaledObjectNotReady")

        async def told_in_time() -> bool:
            cluster.ahead_seconds += 20.0
            reconciler.enqueue("ai/qwen")
            return await told()

        await until(told_in_time)
        assert "connection refused" in (await cluster.condition("AutoscalingReady"))["message"]

        async def started_over() -> bool:
            trigger = (await cluster.get(SCALEDOBJECTS))["spec"]["triggers"][0]
            return int(trigger["metadata"]["noctayaRevision"]) >= 1

        await until(started_over)


async def test_trouble_with_the_api_server_shows_only_when_it_lasts(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue, "BACKOFF_FIRST_SECONDS", 0.05)
    runs: list[str] = []
    works = Applier.ensure

    async def fails(self: Applier, child: Child, *rest: Any) -> bool:
        runs.append((await cluster.condition("Degraded")).get("reason", ""))
        raise Unavailable(Call("patch", str(child)), "HTTP 503")

    monkeypatch.setattr(Applier, "ensure", fails)
    await cluster.runtime()
    await cluster.service()
    async with cluster.reconciling():
        await until(says(cluster, "Degraded", "True", "ApplyDeployment"))
        assert runs[:4] == ["", "Inactive", "Inactive", "Inactive"]

        async def told() -> bool:
            return (await cluster.events()).count("ReconcileFailed") == 1

        await until(told)
        monkeypatch.setattr(Applier, "ensure", works)
        await until(phase(cluster, "ScaledToZero"))


async def test_a_lost_name_is_told_in_the_endpoint_condition(cluster: Cluster) -> None:
    cluster.conflicts["ai/qwen"] = "hostname qwen.example.org belongs to ai/older"
    await cluster.gateway()
    await cluster.runtime()
    await cluster.service()
    async with cluster.reconciling() as reconciler:
        await until(says(cluster, "EndpointReady", "False", "NameConflict"))
        assert "ai/older" in (await cluster.condition("EndpointReady"))["message"]
        del cluster.conflicts["ai/qwen"]
        reconciler.enqueue("ai/qwen")
        await until(says(cluster, "EndpointReady", "True", "Published"))


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"runtime": {"name": "missing"}}, "RuntimeResolution"),
        ({"runtime": {"selector": {"vendor": ["cpu"]}}}, "RuntimeResolution"),
        ({"model": {"source": {"uri": "oci://r.example.org/m@sha256:" + "a" * 64}}}, "ModelResolution"),
        ({"model": {"catalogRef": "qwen"}}, "ModelResolution"),
        ({"cache": {"strategy": "BakedImage"}}, "Render"),
    ],
)
async def test_a_users_mistake_stands_in_the_conditions_and_makes_no_children(
    cluster: Cluster, spec: dict[str, Any], reason: str
) -> None:
    await cluster.runtime()
    await cluster.service(**spec)
    async with cluster.reconciling():
        await until(says(cluster, "Degraded", "True", reason))
        assert (await cluster.status())["phase"] == "Degraded"
        assert (await cluster.condition("AutoscalingReady"))["reason"] == reason

        async def told() -> bool:
            return reason in await cluster.events()

        await until(told)
    assert not (await cluster.client.list(DEPLOYMENTS, "ai")).items


async def test_a_mistake_is_corrected_by_what_the_spec_refers_to(cluster: Cluster) -> None:
    await cluster.service(runtime={"selector": {"vendor": ["ascend", "nvidia"]}})
    async with cluster.reconciling():
        await until(says(cluster, "Degraded", "True", "RuntimeResolution"))
        await cluster.runtime("second-choice")
        await until(phase(cluster, "ScaledToZero"))
        assert (await cluster.status())["resolvedRuntime"] == "second-choice"
        # A better one that appears later does not move a service that is settled ...
        await cluster.runtime("first-choice", vendor="ascend")
        await cluster.runtime("tie")
        await cluster.client.patch(
            INFERENCERUNTIMES, None, "second-choice", {"spec": {"container": {"image": "moved"}}}
        )

        async def followed() -> bool:
            template = (await cluster.get(DEPLOYMENTS))["spec"]["template"]
            return bool(template["spec"]["containers"][0]["image"] == "moved")

        await until(followed)
        assert (await cluster.status())["resolvedRuntime"] == "second-choice"
        # ... until its own spec changes.
        await cluster.client.patch(LLMSERVICES, "ai", "qwen", {"spec": {"scaling": {"max": 2}}})

        async def chosen_anew() -> bool:
            return bool((await cluster.status())["resolvedRuntime"] == "first-choice")

        await until(chosen_anew)


async def test_a_bad_new_spec_does_not_hide_a_backend_that_serves(cluster: Cluster) -> None:
    await cluster.runtime()
    await cluster.service()
    async with cluster.reconciling():
        await until(lambda: cluster.get(SCALEDOBJECTS))
        await cluster.scale(1)
        await cluster.pod("qwen-1", READY)
        await cluster.replicas_seen(1, 1)
        await until(phase(cluster, "Ready"))
        await cluster.client.patch(LLMSERVICES, "ai", "qwen", {"spec": {"runtime": {"name": "missing"}}})
        await until(says(cluster, "Degraded", "True", "RuntimeResolution"))
        status = await cluster.status()
        assert (status["phase"], status["replicas"]) == ("Ready", 1)
        assert (await cluster.condition("Ready"))["status"] == "True"


async def _holds(claim: bool) -> bool:
    return claim

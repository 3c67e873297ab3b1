"""The fleet is deleted and comes back (issue 4): models, running backends and caches are not touched by either.

What docs/runbooks/uninstall.md promises of its first section. The fleet's namespace goes with Leases and the fleet's own secret:
it comes back as a new fleet, which must take over what the old one left.
"""

import asyncio
from typing import Any

import pytest

from tests.acceptance import engine
from tests.acceptance.api import Api, Object, Refused
from tests.acceptance.clients import ask
from tests.acceptance.conftest import Models, Volumes
from tests.acceptance.fleet import NAMESPACE, Fleet
from tests.acceptance.installation import MANIFESTS
from tests.acceptance.models import Model
from tests.acceptance.waiting import until_equal
from tests.cluster.cluster import Cluster

OVERLAY = MANIFESTS / "overlays" / "default"
DELETED_SECONDS = 120.0
APPLIED_SECONDS = 60.0
TAKEN_OVER_SECONDS = 120.0
"""KEDA looks the scaler's name up again only every 30 s, and dials ever more rarely the longer nobody answered."""


@pytest.mark.timeout(600)
async def test_deleting_the_overlay_leaves_models_alone_and_applying_it_takes_them_over(
    cluster: Cluster, api: Api, models: Models, fleet: Fleet, volume_for: Volumes
) -> None:
    """Issue 4: `kubectl delete -k` of an overlay, then `apply -k`: the same pods answer on, and a sleeper wakes."""
    await volume_for("awake-cache")
    awake = await models(
        "awake", cache={"strategy": "NodeLocalPVC"}, scaling={"scaleDownStabilization": "10m"}
    )
    asleep = await models("asleep")
    answer = await ask(fleet.url, awake.model)
    assert answer.is_whole, answer
    (pod,) = await awake.until_ready(1)
    await asleep.until_asleep()
    before = [await outline(api, model) for model in (awake, asleep)]
    fleets_uid = (await api.get("namespaces", NAMESPACE))["metadata"]["uid"]

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(
            asyncio.to_thread(cluster.kubectl, "delete", "-k", OVERLAY, timeout_seconds=DELETED_SECONDS)
        )
        await until_no_pods(api)
        await hasten(api)
    assert await api.find("namespaces", NAMESPACE) is None
    assert [await outline(api, model) for model in (awake, asleep)] == before
    assert (await engine.stats(pod))["completed"] == 1

    await asyncio.to_thread(cluster.kubectl, "apply", "-k", OVERLAY, timeout_seconds=APPLIED_SECONDS)
    assert (await api.get("namespaces", NAMESPACE))["metadata"]["uid"] != fleets_uid
    await fleet.until_whole()
    url = await fleet_url(api)
    answer = await ask(url, awake.model)
    assert answer.is_whole, answer
    assert (await engine.stats(pod))["completed"] == 2, "another engine answered"
    for model in (awake, asleep):
        await model.until_condition("AutoscalingReady", "True", TAKEN_OVER_SECONDS)
        await model.until_condition("EndpointReady", "True", TAKEN_OVER_SECONDS)
    woken = await ask(url, asleep.model, seconds=TAKEN_OVER_SECONDS)
    assert woken.is_whole, woken
    (kept, _) = before
    assert await outline(api, awake) == kept


async def until_no_pods(api: Api) -> None:
    """Wait until the fleet's pods have ended."""

    async def look() -> list[str]:
        return [pod["metadata"]["name"] for pod in await api.list("pods", NAMESPACE)]

    await until_equal(look, [], DELETED_SECONDS, "no pod of the fleet is left")


async def hasten(api: Api) -> None:
    """Have Kubernetes look at the namespace again.

    It has seen pods with a grace period of 630 s there, and would look again only after half of that, although they ended long
    before. Any change of the namespace makes it look.
    """
    try:
        await api.patch("namespaces", NAMESPACE, {"metadata": {"annotations": {"test/look": "again"}}})
    except Refused as refused:
        if refused.status != 404:
            raise


async def fleet_url(api: Api) -> str:
    """The Service of the gateways: a new one has a new address."""
    found = await api.get("services", "noctaya-gateway", NAMESPACE)
    return f"http://{found['spec']['clusterIP']}"


async def outline(api: Api, model: Model) -> dict[str, Any]:
    """What must be the very same afterwards: every object's identity, what was asked of it, and the running containers."""
    selector = model.selector
    found = {
        kind: [identity(child) for child in await api.list(kind, model.namespace, selector=selector)]
        for kind in ("deployments", "persistentvolumeclaims", "services")
    }
    containers = [
        (pod["metadata"]["uid"], [status["containerID"] for status in pod["status"]["containerStatuses"]])
        for pod in await model.pods()
    ]
    scaled = await model.scaled_object()
    return {
        **found,
        "llmservice": identity(await model.read()),
        "scaledobject": scaled["metadata"]["uid"],
        "containers": containers,
    }


def identity(child: Object) -> tuple[str, int, Any]:
    """Which object it is, and what its spec says."""
    return child["metadata"]["uid"], child["metadata"].get("generation", 0), child["spec"]

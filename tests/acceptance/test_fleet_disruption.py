"""The fleet's own pods go (E3, E4): the worker is replaced, a gateway is evicted. Models and their answers stay."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.acceptance.api import Api, Refused
from tests.acceptance.clients import ask, asked, played
from tests.acceptance.conftest import Models
from tests.acceptance.fleet import NAMESPACE, Fleet, Pod
from tests.acceptance.models import Model
from tests.acceptance.waiting import until_equal
from tests.cluster.cluster import Cluster
from tests.cluster.node import NAME as NODE

TAKEN_SECONDS = 30.0
TOLD_SECONDS = 60.0
BACK_SECONDS = 120.0
ANSWERED_SECONDS = 120.0
BUDGET_SECONDS = 60.0
TOKENS = 100
"""Ten seconds at the models' 100 ms: longer than a worker's or gateway's end takes to be noticed."""


async def test_a_replacement_takes_the_workers_lease_and_goes_on(
    cluster: Cluster, models: Models, fleet: Fleet, api: Api
) -> None:
    """E3, for one worker: the Lease goes to the pod that replaces a lost one, within 30 s; nothing is made twice.

    Meanwhile warm answers go on, and a cold request waits for the new worker and is answered.
    """
    # Cooler than the worker is away: KEDA 2.20 takes its own closed cache of scalers for "nobody asks" (kedacore/keda#7737),
    # and where nobody has been seen asking for the whole cool-down, it scales to zero.
    scaling = {"scaleDownStabilization": "1m"}
    warm, cold = await models("warm", engine={"delay": "100ms"}, scaling=scaling), await models("cold")
    old = await fleet.leader()
    async with asked(fleet.url, warm.model, tokens=TOKENS) as stream:
        await stream.has_begun(ANSWERED_SECONDS)
        await warm.patch(scaling={"target": 2})
        cluster.kubectl("delete", "pod", old, "--force", "--grace-period=0", namespace=NAMESPACE)
        async with asked(fleet.url, cold.model) as held:

            async def is_taken() -> bool:
                return await fleet.leader() not in {"", old}

            await until_equal(is_taken, True, TAKEN_SECONDS, "another worker holds the Lease")
            await is_told(warm, "2")
            await held.has_ended(ANSWERED_SECONDS)
        assert held.is_whole, held
        await stream.has_ended(ANSWERED_SECONDS)
    assert stream.is_whole, stream
    assert stream.text == played(TOKENS)
    assert await children(api, warm) == {
        "deployments": [warm.name],
        "services": [warm.name, f"{warm.name}-backend"],
        "scaledobjects": [warm.name],
    }
    await warm.patch(scaling={"target": 1})
    await is_told(warm, "1")
    (successor,) = await fleet.until_pods("worker", 1, BACK_SECONDS)
    assert await fleet.leader() == successor.name


async def test_one_gateway_at_a_time_may_be_evicted_and_finishes_its_stream(
    cluster: Cluster, models: Models, fleet: Fleet, api: Api
) -> None:
    """E4: the disruption budget lets one of two gateways go and keeps the other; the evicted one finishes what it holds."""
    model = await models("evicting", engine={"delay": "100ms"})
    first, second = await fleet.pods("gateway")
    await allowed(api, 1)
    async with asked(first.url, model.model, tokens=TOKENS) as stream:
        await stream.has_begun(ANSWERED_SECONDS)
        async with cordoned(cluster):
            await api.evict(first.name, NAMESPACE)
            await allowed(api, 0)
            with pytest.raises(Refused, match="disruption budget") as refused:
                await api.evict(second.name, NAMESPACE)
            assert refused.value.status == 429
            # The Service leads to the one that is left.
            other = await ask(fleet.url, model.model)
            assert other.is_whole, other
            await stream.has_ended(ANSWERED_SECONDS)
            await is_alone(fleet, second)
            await allowed(api, 0)
    assert stream.is_whole, stream
    assert second in await fleet.until_pods("gateway", 2, BACK_SECONDS)
    await allowed(api, 1)


async def is_alone(fleet: Fleet, gateway: Pod) -> None:
    """Wait until no other gateway serves; its replacement waits for a node."""

    async def names() -> list[str]:
        return [pod.name for pod in await fleet.pods("gateway")]

    await until_equal(names, [gateway.name], BUDGET_SECONDS, f"{gateway.name} is the only gateway")


@asynccontextmanager
async def cordoned(cluster: Cluster) -> AsyncIterator[None]:
    """No pod finds a node for the body."""
    await asyncio.to_thread(cluster.kubectl, "cordon", NODE)
    try:
        yield
    finally:
        await asyncio.to_thread(cluster.kubectl, "uncordon", NODE)


async def allowed(api: Api, count: int) -> None:
    """Wait until the gateways' budget allows so many disruptions."""

    async def look() -> int:
        budget = await api.get("poddisruptionbudgets", "noctaya-gateway", NAMESPACE)
        return int(budget["status"]["disruptionsAllowed"])

    await until_equal(look, count, BUDGET_SECONDS, f"{count} gateways may be disrupted")


async def is_told(model: Model, target: str) -> None:
    """Wait until KEDA has this target, and the model's condition speaks of the spec that says so."""

    async def look() -> str:
        return str((await model.trigger())["metadata"]["targetValue"])

    await until_equal(look, target, TOLD_SECONDS, f"KEDA has the target {target} of {model.model}")
    await model.until_condition("AutoscalingReady", "True", TOLD_SECONDS)


async def children(api: Api, model: Model) -> dict[str, list[str]]:
    """Names of everything that the model became, by kind."""
    uid = (await model.read())["metadata"]["uid"]
    return {
        kind: sorted(
            found["metadata"]["name"]
            for found in await api.list(kind, model.namespace)
            if any(owner["uid"] == uid for owner in found["metadata"].get("ownerReferences", ()))
        )
        for kind in ("deployments", "services", "scaledobjects")
    }

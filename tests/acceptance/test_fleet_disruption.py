"""The fleet's own pods go (E3, E4): a worker is killed, a gateway is evicted. Models and their answers stay."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import pytest

from tests.acceptance import engine
from tests.acceptance.api import Api, Refused
from tests.acceptance.clients import ask, asked
from tests.acceptance.conftest import Models
from tests.acceptance.failures.faults import container_of, kill, kill_pod
from tests.acceptance.fleet import NAMESPACE, Fleet, Pod
from tests.acceptance.models import Model
from tests.acceptance.vacancy import vacancy
from tests.acceptance.waiting import holds_for, until_equal
from tests.cluster.cluster import Cluster
from tests.cluster.node import NAME as NODE

TAKEN_SECONDS = 30.0
TOLD_SECONDS = 60.0
BACK_SECONDS = 120.0
ANSWERED_SECONDS = 120.0
BUDGET_SECONDS = 60.0
TOKENS = 100
"""Ten seconds at the models' 100 ms: longer than a gateway's end takes to be noticed."""
CALM_SECONDS = 20.0
"""Two cool-downs and some of KEDA's polls: whoever has been told that nobody asks would sleep by then."""


@pytest.mark.timeout(600)
async def test_the_other_workers_take_over_from_a_killed_one_and_nothing_is_made_twice(
    cluster: Cluster, models: Models, fleet: Fleet, api: Api, namespace: str
) -> None:
    """E3: the leader is lost without a word and nobody replaces it. Within 30 s the two others have its shards and its Lease.

    Both models are the lost worker's. The warm one's answer goes on, with the shortest cool-down there is; a request for the
    cold one of that very moment waits for the take-over and is answered.
    """
    old = await fleet.leader()
    warm = await models(await fleet.name_with(old, namespace, "warm"), engine={"delay": "100ms"})
    cold = await models(await fleet.name_with(old, namespace, "cold"))
    (container,) = [
        container_of(pod, "worker") for pod in await fleet.objects("worker") if pod["metadata"]["name"] == old
    ]
    async with vacancy(api, "worker"):
        async with asked(fleet.url, warm.model, tokens=engine.ENDLESS) as stream:
            await stream.has_begun(ANSWERED_SECONDS)
            (pod,) = await warm.until_ready(1)
            await warm.patch(scaling={"target": 2})
            assert {await fleet.owner(warm.model), await fleet.owner(cold.model)} == {old}
            await kill(cluster, container)
            await kill_pod(api, old, NAMESPACE)
            killed = time.monotonic()
            async with asked(fleet.url, cold.model) as held:
                left = {pod.name for pod in await fleet.pods("worker")} - {old}
                await fleet.until_owned(by=left, seconds=TAKEN_SECONDS)
                taken = time.monotonic() - killed

                async def is_taken() -> bool:
                    return await fleet.leader() in left

                await until_equal(
                    is_taken, True, TAKEN_SECONDS - taken, "another worker holds the leader's Lease"
                )
                tell("a worker is killed: its shards have other owners after", taken)
                tell("a worker is killed: another one leads after", time.monotonic() - killed)
                await is_told(warm, "2")
                await held.has_ended(ANSWERED_SECONDS)
            assert held.is_whole, held
            assert held.first_frame_at is not None
            tell(
                "a worker is killed: a cold request of that moment is answered after",
                held.first_frame_at - killed,
            )
            await holds_for(partial(has_replicas, warm, 1), CALM_SECONDS, f"{warm.model} is kept awake")
            assert {pod.name for pod in await fleet.pods("worker")} == left
            assert stream.ended_at is None
            await engine.finish(pod)
        assert stream.is_whole, stream
    assert await children(api, warm) == {
        "deployments": [warm.name],
        "services": [warm.name, f"{warm.name}-backend"],
        "scaledobjects": [warm.name],
    }
    await warm.patch(scaling={"target": 1})
    await is_told(warm, "1")
    await fleet.until_whole(BACK_SECONDS)
    assert await fleet.leader() in left
    assert old not in await fleet.members()


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
    assert second in await fleet.until_pods("gateway", seconds=BACK_SECONDS)
    await allowed(api, 1)


def tell(what: str, seconds: float) -> None:
    """For whoever reads what a test saw."""
    print(f"cost: {what}: {seconds:.1f} s")  # noqa: T201


async def has_replicas(model: Model, count: int) -> bool:
    """Whether KEDA wants so many."""
    return await model.replicas() == count


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

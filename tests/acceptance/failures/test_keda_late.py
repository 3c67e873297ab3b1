"""KEDA comes after Noctaya: workers say what is missing, and everything recovers by itself."""

import asyncio
from functools import partial

import httpx2
import pytest

from tests.acceptance.api import Api
from tests.acceptance.failures.faults import kill_pod
from tests.acceptance.failures.keda import Keda
from tests.acceptance.failures.scene import SETTLE_SECONDS, scene
from tests.acceptance.fleet import ADMIN_PORT, NAMESPACE, Fleet, Pod
from tests.acceptance.waiting import until
from tests.cluster.cluster import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]


async def test_without_keda_a_worker_says_so_and_a_held_request_is_answered_once_it_is_there(
    cluster: Cluster, api: Api, fleet: Fleet, namespace: str
) -> None:
    """Workers that lose KEDA, and one that starts without; one model that KEDA had before, one that it has never seen."""
    keda = await Keda.of(cluster)
    async with scene(cluster, api, fleet, namespace) as stage:
        (early,) = await stage.add("early", gentle=True)
        await stage.background(early)
        stage.mark("KEDA is taken away")
        await keda.remove()
        try:
            before = await fleet.until_pods("worker")
            await kill_pod(api, before[0].name, NAMESPACE)
            (new,) = await until(partial(_others, fleet, before), SETTLE_SECONDS, "a new worker is ready")
            stage.mark("a worker has started without KEDA")
            for worker in (new, *before[1:]):
                await until(
                    partial(_says_keda_is_missing, worker),
                    SETTLE_SECONDS,
                    f"{worker.name} says KEDAMissing",
                )

            (late,) = await stage.add("late", gentle=True)
            await late.until_condition(
                "AutoscalingReady", "False", SETTLE_SECONDS, reason="AutoscalingUnavailable"
            )
            await late.until_condition("EndpointReady", "True", SETTLE_SECONDS)
            held = [stage.ask(early), stage.ask(late)]
            await asyncio.gather(*(stage.until_held(request) for request in held))
        finally:
            installed = stage.mark("KEDA is installed")
            await keda.install()
        stage.mark("KEDA runs")
        await stage.until_answered(*held)
        for request in held:
            assert request.first_byte is not None
        stage.cost(
            "KEDA installed after Noctaya: a held request is answered after",
            max(request.first_byte - installed for request in held if request.first_byte is not None),
        )
        await stage.until_usable(early, late)
        for worker in (new, *before[1:]):
            await until(partial(_is_content, worker), SETTLE_SECONDS, f"{worker.name} has no problem left")
        await asyncio.gather(early.until_asleep(SETTLE_SECONDS), late.until_asleep(SETTLE_SECONDS))


async def _others(fleet: Fleet, known: list[Pod]) -> list[Pod]:
    names = {pod.name for pod in known}
    return [pod for pod in await fleet.pods("worker") if pod.name not in names]


async def _says_keda_is_missing(worker: Pod) -> bool:
    return "KEDAMissing" in await _problems(worker)


async def _is_content(worker: Pod) -> bool:
    return await _problems(worker) == []


async def _problems(worker: Pod) -> list[str]:
    """What the worker's `/readyz` speaks of; it is 200 whatever is missing in the cluster."""
    async with httpx2.AsyncClient(trust_env=False, timeout=5.0) as client:
        answer = await client.get(f"http://{worker.address}:{ADMIN_PORT}/readyz")
    assert answer.status_code == 200, answer.text
    return [problem["name"] for problem in answer.json()["problems"]]

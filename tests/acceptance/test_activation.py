"""Waking, scaling out, sleeping again (E6-E9), with the bounds of the acceptance list as deadlines."""

import asyncio
import time

import pytest

from tests.acceptance.api import Api
from tests.acceptance.clients import ask, asked, chat, openai_client, played
from tests.acceptance.conftest import Models
from tests.acceptance.fleet import NAMESPACE, Fleet
from tests.acceptance.models import condition_of, is_ready
from tests.acceptance.waiting import until, until_equal
from tests.cluster.keda_release import NAMESPACE as KEDA

OPERATOR = "keda-operator"
POLLS = "noctaya_scaler_requests_total"
PUSHES = "noctaya_scaler_pushes_total"
STREAMS = "noctaya_gateway_scaler_streams"
DEMAND = "noctaya_scaler_demand"
MINUTE = 60.0


@pytest.mark.timeout(400)
async def test_a_push_wakes_a_model_while_keda_is_fresh_and_a_gateway_is_replaced(
    models: Models, fleet: Fleet, api: Api
) -> None:
    """E6: the wake is the push's work alone. KEDA polls this model every 30 s and has just done so when the request comes;
    replicas are wanted long before it polls again. The other gateway goes meanwhile, so the sum of demand changes hands. (KEDA's stream may be with any worker, the model's owner or not.)"""
    model = await models("pushed", engine={"startup": "8s"}, scaling={"scaleDownStabilization": "1m"})
    interval = (await model.scaled_object())["spec"]["pollingInterval"]
    assert interval == 30
    await model.until_asleep()
    held, other = await fleet.pods("gateway")

    async def is_alone() -> bool:
        """Other models' polls would hide this one's; their tests are over, KEDA lets go of them in a moment."""
        return [found["metadata"]["namespace"] for found in await api.list("scaledobjects")] == [
            model.namespace
        ]

    await until(is_alone, MINUTE, "no other test's model is left")
    await scale_keda(api, 0)
    await keda_runs(api, 0)
    before = await fleet.total("worker", POLLS, method="IsActive")
    unpolled_at = time.monotonic()
    await scale_keda(api, 1)

    async def has_polled() -> bool:
        nonlocal unpolled_at
        asked_at = time.monotonic()
        if await fleet.total("worker", POLLS, method="IsActive") > before:
            return True
        unpolled_at = asked_at
        return False

    await until(has_polled, 2 * MINUTE, "KEDA is back and has polled once")
    await fleet.until_total("worker", STREAMS, 1, MINUTE)
    owner = await fleet.owner_pod(model.model)
    pushed = await fleet.total("worker", PUSHES)
    await api.delete("pods", other.name, NAMESPACE)
    async with asked(held.url, model.model, seconds=90.0) as request:
        await fleet.until_metric(owner, DEMAND, 1, 10.0, namespace=model.namespace, service=model.name)
        await model.until_replicas(1, 15.0)
        assert time.monotonic() - unpolled_at < interval, "KEDA may have polled again: what woke the model?"
        assert await fleet.total("worker", PUSHES) > pushed

        async def names() -> set[str]:
            return {pod["metadata"]["name"] for pod in await fleet.objects("gateway")}

        async def is_replaced() -> bool:
            found = await names()
            return len(found) == 2 and held.name in found and other.name not in found

        await until(is_replaced, 2 * MINUTE, f"{other.name} is replaced and {held.name} is not")
        await request.has_ended(90.0)
    assert request.is_whole, request
    await fleet.until_pods("gateway")
    await keda_runs(api, 1)


async def test_four_streams_need_two_replicas_and_none_after_them(models: Models, fleet: Fleet) -> None:
    """E7 and E8: 1→2 by the metric within 90 s, every stream whole within two minutes, then back to 0 within two more."""
    model = await models("wide", engine={"delay": "250ms"}, scaling={"max": 2, "target": 1})
    async with openai_client(fleet.url) as client, asyncio.timeout(2 * MINUTE), asyncio.TaskGroup() as tasks:
        answers = [tasks.create_task(chat(client, model.model, tokens=120)) for _ in range(4)]
        await model.until_replicas(2, 90.0)
        assert not any(answer.done() for answer in answers)
    assert [answer.result() for answer in answers] == [played(120)] * 4
    await model.until_replicas(0, 2 * MINUTE)
    await model.until_asleep()


async def test_a_backend_that_is_deleted_is_replaced_and_no_request_is_lost(
    models: Models, fleet: Fleet
) -> None:
    """E9: the one pod goes without notice; a request of that very moment is answered, and all ends at zero."""
    model = await models("replaced")
    await model.until_asleep()
    first = await ask(fleet.url, model.model, seconds=2 * MINUTE)
    assert first.is_whole, first
    (pod,) = await model.until_ready(1)
    await model.api.delete("pods", pod["metadata"]["name"], model.namespace)
    async with asked(fleet.url, model.model, seconds=MINUTE) as request:
        pass
    assert request.is_whole, request

    async def is_another() -> bool:
        return [found["metadata"]["uid"] != pod["metadata"]["uid"] for found in await model.ready_pods()] == [
            True
        ]

    await until(is_another, 2 * MINUTE, "exactly one other pod serves")
    last = await ask(fleet.url, model.model, seconds=30.0)
    assert last.is_whole, last
    owner = await fleet.owner_pod(model.model)
    await fleet.until_metric(owner, DEMAND, None, MINUTE, namespace=model.namespace, service=model.name)

    async def active() -> str:
        return str(condition_of(await model.scaled_object(), "Active").get("status"))

    await until_equal(active, "False", MINUTE, "KEDA calls the model inactive")
    await model.until_replicas(0, 2 * MINUTE)
    await model.until_asleep(MINUTE)


async def scale_keda(api: Api, replicas: int) -> None:
    """Say how many operators shall run."""
    await api.patch("deployments", OPERATOR, {"spec": {"replicas": replicas}}, KEDA, subresource="scale")


async def keda_runs(api: Api, replicas: int) -> None:
    """Wait until so many operators are ready and no other is there."""

    async def look() -> tuple[int, int]:
        pods = await api.list("pods", KEDA, selector=f"app={OPERATOR}")
        return len(pods), len([pod for pod in pods if is_ready(pod)])

    await until_equal(look, (replicas, replicas), 2 * MINUTE, f"{replicas} operators of KEDA run")

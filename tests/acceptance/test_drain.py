"""A backend pod goes while it answers (E10): deleted, evicted, scaled in. What is running is finished; what comes is elsewhere."""

import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import httpx2
import pytest

from tests.acceptance import engine
from tests.acceptance.api import Api, Object
from tests.acceptance.clients import MESSAGES, ask, asked, played
from tests.acceptance.conftest import Models
from tests.acceptance.fleet import Fleet
from tests.acceptance.models import Model
from tests.acceptance.waiting import until

BEGUN_SECONDS = 120.0
ENDED_SECONDS = 90.0
SCALE_SECONDS = 90.0
TOKENS = 60
"""Six seconds: the pod is told to go after the first tenth of one."""
DRAINS = {"preStopDrain": True, "terminationGracePeriodSeconds": 90}
"""The kubelet waits for `scaling.drainTimeout` before it tells the engine."""
ENGINE_DRAINS = {"terminationGracePeriodSeconds": 90}
"""The engine is told at once, and has to know by itself how to finish."""


async def test_a_stream_ends_well_when_its_pod_is_deleted_in_the_middle(models: Models, fleet: Fleet) -> None:
    """E10, without the engine's own grace: `preStopDrain` keeps an engine that would end at once at SIGTERM."""
    model = await models(
        "kept", engine={"delay": "100ms", "lifecycle": DRAINS}, scaling={"drainTimeout": "60s"}
    )
    async with asked(fleet.url, model.model, tokens=engine.ENDLESS) as request:
        await request.has_begun(BEGUN_SECONDS)
        pod = await delete_only_pod(model)
        # What comes while it drains is not sent to it, and does not wait for its end.
        other = await ask(fleet.url, model.model, tokens=2)
        assert other.is_whole, other
        assert (await engine.stats(pod))["started"] == 1
        assert request.ended_at is None
        await engine.finish(pod)
    assert request.is_whole, request


async def test_a_stream_ends_well_when_its_engine_knows_how_to_drain(
    models: Models, fleet: Fleet, namespace: str
) -> None:
    """E10, with the engine's own grace: it hears SIGTERM at once and finishes what it has begun."""
    model = await models(
        "able",
        engine={"delay": "100ms", "lifecycle": ENGINE_DRAINS},
        runtime={"name": f"{namespace}-able", "argsOverride": ["--drain=80s"]},
    )
    async with asked(fleet.url, model.model, tokens=TOKENS) as request:
        await request.has_begun(BEGUN_SECONDS)
        await delete_only_pod(model)
        assert request.ended_at is None
    assert request.is_whole, request
    assert request.text == played(TOKENS)


async def test_a_stream_whose_engine_ends_at_once_says_so_and_fakes_no_end(
    models: Models, fleet: Fleet
) -> None:
    """E10's other side: with neither of the two graces the answer is lost, and the client can tell."""
    model = await models("rude", engine={"delay": "100ms"})
    async with asked(fleet.url, model.model, tokens=engine.ENDLESS) as request:
        await request.has_begun(BEGUN_SECONDS)
        await delete_only_pod(model)
        await request.has_ended(ENDED_SECONDS)
    assert "[DONE]" not in request.frames
    assert json.loads(request.frames[-1])["error"]["code"] == "upstream_error"
    assert request.broken is not None, "the connection ended as if the answer were whole"


async def test_an_evicted_backend_finishes_its_stream_and_another_takes_over(
    api: Api, models: Models, fleet: Fleet
) -> None:
    """Issue 4: eviction of a backend pod under stream, as `kubectl drain` does it."""
    model = await models(
        "evicted", engine={"delay": "100ms", "lifecycle": DRAINS}, scaling={"drainTimeout": "60s"}
    )
    async with asked(fleet.url, model.model, tokens=engine.ENDLESS) as request:
        await request.has_begun(BEGUN_SECONDS)
        (pod,) = await model.until_ready(1)
        await api.evict(pod["metadata"]["name"], model.namespace)
        (successor,) = await model.until_ready(1)
        assert successor["metadata"]["uid"] != pod["metadata"]["uid"]
        other = await ask(fleet.url, model.model, tokens=2)
        assert other.is_whole, other
        assert (await engine.stats(successor))["completed"] == 1
        assert request.ended_at is None
        await engine.finish(pod)
    assert request.is_whole, request


@pytest.mark.timeout(400)
async def test_scaling_in_cuts_no_stream(models: Models, fleet: Fleet) -> None:
    """Issue 4: a metric scale-out 1→2→1 with a long stream on each of the two pods, so that the one that goes has one."""
    model = await models(
        "wide",
        engine={"delay": "100ms", "lifecycle": DRAINS},
        scaling={"max": 2, "target": 2, "drainTimeout": "2m"},
    )
    gateway = (await fleet.pods("gateway"))[0].url  # one, which knows of every stream when it chooses a pod
    async with AsyncExitStack() as streams:
        first = await streams.enter_async_context(asked(gateway, model.model, tokens=engine.ENDLESS))
        await first.has_begun(BEGUN_SECONDS)
        async with passing(gateway, model), passing(gateway, model):
            pods = await model.until_ready(2, SCALE_SECONDS)
            second = await streams.enter_async_context(asked(gateway, model.model, tokens=engine.ENDLESS))
            await second.has_begun(BEGUN_SECONDS)
            assert sorted([(await engine.stats(pod))["running"] for pod in pods]) == [1, 3]
        await model.until_replicas(1, SCALE_SECONDS)

        async def leaving() -> list[Object]:
            return [pod for pod in await model.pods() if "deletionTimestamp" in pod["metadata"]]

        (pod,) = await until(leaving, SCALE_SECONDS, f"a pod of {model.model} is on its way out")
        assert (await engine.stats(pod))["running"] == 1
        assert first.ended_at is None
        assert second.ended_at is None
        for pod in pods:
            await engine.finish(pod)
    assert first.is_whole, first
    assert second.is_whole, second


async def delete_only_pod(model: Model) -> Object:
    """Delete the one pod that serves, without waiting; gives it."""
    (pod,) = await model.until_ready(1)  # the gateway may have found it before the kubelet said so
    await model.api.delete("pods", pod["metadata"]["name"], model.namespace)
    return pod


@asynccontextmanager
async def passing(gateway: str, model: Model) -> AsyncIterator[None]:
    """A stream whose client leaves when the body ends."""
    body = {"model": model.model, "stream": True, "messages": MESSAGES}
    async with (
        httpx2.AsyncClient(trust_env=False, timeout=BEGUN_SECONDS) as client,
        client.stream(
            "POST", f"{gateway}/v1/chat/completions", params={"tokens": str(engine.ENDLESS)}, json=body
        ) as answer,
    ):
        assert answer.status_code == 200
        yield

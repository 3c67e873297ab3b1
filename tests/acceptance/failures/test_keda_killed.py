"""KEDA's operator killed at each moment of a wake: requests wait for it, and nothing else happens to them."""

import asyncio
import signal

import pytest

from tests.acceptance.api import Api
from tests.acceptance.failures.faults import container_of, kill, operator_pod, send
from tests.acceptance.failures.scene import scene
from tests.acceptance.fleet import Fleet
from tests.cluster.cluster import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

STREAM_TOKENS = 80
"""At half a second each: longer than KEDA needs to come back and to poll once more."""


async def test_a_wake_survives_the_end_of_kedas_operator_at_each_of_its_moments(
    cluster: Cluster, api: Api, fleet: Fleet, namespace: str
) -> None:
    """One kill, five models, each at another moment: before its request; its request held and `true` pushed, but not acted
    on; replicas wanted, but the pod not ready; streaming; in its cool-down."""
    async with scene(cluster, api, fleet, namespace) as stage:
        (streaming,) = await stage.add("streaming", tokens=STREAM_TOKENS, delay="500ms")
        (starting,) = await stage.add("starting", startup="25s")
        before, held, cooling = await stage.add("before", "held", "cooling", on="quick", gentle=True)
        await stage.background(streaming, starting, before, held, cooling)

        running = stage.ask(streaming)
        cooled = stage.ask(cooling)
        waking = stage.ask(starting)
        await asyncio.gather(stage.until_streaming(running), stage.until_answered(cooled))
        await starting.until_replicas(1, 60)
        assert await starting.ready_pods() == []

        operator = container_of(await operator_pod(api), "keda-operator")
        await send(cluster, operator, signal.SIGSTOP)  # it gets `true` and cannot act on it any more
        frozen = stage.ask(held)

        await stage.until_pushed(held)
        assert await held.replicas() == 0
        killed = stage.mark("KEDA's operator killed")
        await kill(cluster, operator)
        later = stage.ask(before)
        warm = stage.ask(cooling)  # KEDA is away: its pod is there, and serves
        await stage.until_answered(warm)
        assert warm.ended is not None
        assert running.ended is None
        assert waking.ended is None

        await stage.until_answered(frozen, later, waking, running)
        stage.cost("KEDA's operator killed: a request held then is answered after", frozen.waited())
        assert later.first_byte is not None
        stage.cost("KEDA's operator killed: the next wake is answered after", later.first_byte - killed)
        await asyncio.gather(
            *(model.until_asleep() for model in (before, held, cooling, starting, streaming))
        )

"""Each part is killed under load, and a sleeping model is asked right after: what it costs is time, never an answer.

What a killed gateway held itself is gone with it (docs/behavior.md): its clients are told by a broken connection.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from tests.acceptance import installation
from tests.acceptance.api import Api
from tests.acceptance.failures.faults import Container, container_of, kill, kill_part, kill_pod
from tests.acceptance.failures.outcomes import Ending, Request
from tests.acceptance.failures.scene import BUSY, LONG, SETTLE_SECONDS, Scene, scene
from tests.acceptance.fleet import NAMESPACE, Fleet, Role
from tests.acceptance.models import Model
from tests.acceptance.waiting import until
from tests.cluster.cluster import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

Work = Callable[[], Awaitable[object]]


async def test_a_killed_worker_costs_a_wake_some_seconds_and_nothing_else(
    cluster: Cluster, api: Api, fleet: Fleet, namespace: str
) -> None:
    """The worker that owns the model which is asked: its container, which starts again in its place, then pod and all."""
    async with scene(cluster, api, fleet, namespace) as stage:
        usual, in_place, replaced = await stage.add(
            "usual", "in-place", "replaced", on="sleepers", gentle=True
        )
        await stage.background(usual, in_place, replaced)
        await strike(stage, "nothing", usual, _nothing)

        async def kill_container(model: Model) -> str:
            owner = await fleet.owner(model.model)
            await kill(cluster, await _container(fleet, "worker", owner))
            return owner

        async def kill_all_of_it(model: Model) -> None:
            await kill_pod(api, await kill_container(model), NAMESPACE)

        await strike(stage, "its worker's container", in_place, partial(kill_container, in_place))
        await fleet.until_whole(SETTLE_SECONDS)
        await strike(stage, "its worker's pod", replaced, partial(kill_all_of_it, replaced))
        await fleet.until_whole(SETTLE_SECONDS)


async def test_killing_all_workers_at_once_costs_a_wake_some_seconds_and_nothing_else(
    cluster: Cluster, api: Api, fleet: Fleet, namespace: str
) -> None:
    """Nobody is left who knows anything; each starts again in its place."""
    async with scene(cluster, api, fleet, namespace) as stage:
        (sleeper,) = await stage.add("sleeper", gentle=True)
        await stage.background(sleeper, cooldown=LONG)

        async def kill_all() -> None:
            pods = await fleet.pods("worker")
            victims = [await _container(fleet, "worker", pod.name) for pod in pods]
            await asyncio.gather(*(kill(cluster, victim) for victim in victims))

        await strike(stage, "all workers' containers", sleeper, kill_all)
        await fleet.until_whole(SETTLE_SECONDS)


async def test_a_killed_gateway_takes_only_what_it_held_itself(
    cluster: Cluster, api: Api, fleet: Fleet, namespace: str
) -> None:
    async with scene(cluster, api, fleet, namespace) as stage:
        (sleeper,) = await stage.add("sleeper", gentle=True)
        await stage.background(sleeper)
        survivor, victim = await fleet.until_pods("gateway")
        stage.traffic.bases["survivor"] = survivor.url
        for is_stream in (True, False):
            busy = stage.traffic.keep_busy(f"{namespace}/{BUSY}", via="survivor", is_stream=is_stream)
            stage.start(busy, "client of the other gateway")
        victims = await _container(fleet, "gateway", victim.name)
        await strike(stage, "a gateway", sleeper, partial(kill, cluster, victims), via="survivor")
        struck, landed = stage.struck
        await until(partial(_has_restarted, fleet, victims), SETTLE_SECONDS, "the gateway is started again")
        await fleet.until_pods("gateway", seconds=SETTLE_SECONDS)
        back = stage.mark("both gateways are ready")

        def was_inside(request: Request) -> bool:
            is_broken = request.via == "fleet" and request.ending is Ending.BROKEN
            return (
                is_broken and request.began <= landed and (request.ended is None or request.ended >= struck)
            )

        def found_nobody(request: Request) -> bool:
            return request.via == "fleet" and struck <= request.began <= back

        stage.excused, stage.excused_unreached = was_inside, found_nobody


@pytest.mark.parametrize(
    "parts", [("kubelet", "containerd"), ("kube-apiserver", "etcd")], ids=["node", "control plane"]
)
async def test_a_killed_part_of_the_cluster_costs_a_wake_some_seconds_and_nothing_else(
    cluster: Cluster, api: Api, fleet: Fleet, namespace: str, parts: tuple[str, ...]
) -> None:
    async with scene(cluster, api, fleet, namespace) as stage:
        sleepers = await stage.add(*(f"sleeper-{number}" for number in range(len(parts))), gentle=True)
        await stage.background(*sleepers)
        for part, sleeper in zip(parts, sleepers, strict=True):
            await strike(stage, part, sleeper, partial(kill_part, cluster, part))
        if "kubelet" in parts:
            await asyncio.to_thread(installation.give_accelerators, cluster)


async def strike(stage: Scene, what: str, sleeper: Model, fault: Work, *, via: str = "fleet") -> None:
    """Kill something, ask a sleeping model at once, and wait for its answer."""
    await sleeper.until_asleep(SETTLE_SECONDS)
    struck = stage.mark(f"killed: {what}")
    request = stage.ask(sleeper, via=via)
    await fault()
    stage.struck = (struck, time.monotonic())
    await stage.until_answered(request)
    assert request.first_byte is not None, request
    stage.cost(f"killed: {what}; the next wake is answered after", request.first_byte - struck)


async def _nothing() -> None:
    """The usual wake, to compare with."""


async def _has_restarted(fleet: Fleet, before: Container) -> bool:
    return (await _container(fleet, "gateway", before.pod)).id != before.id


async def _container(fleet: Fleet, role: Role, pod: str) -> Container:
    (found,) = [entry for entry in await fleet.objects(role) if entry["metadata"]["name"] == pod]
    return container_of(found, role)

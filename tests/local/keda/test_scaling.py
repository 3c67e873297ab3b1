"""What becomes of replicas and status: E and Q1 of keda.md section 8, through the whole stand-in in virtual time.

The executor's table is proved row by row in `test_executor.py`.
"""

import asyncio

import pytest

from noctaya.local.keda.settings import KedaSettings
from noctaya.local.keda.spec import (
    FORCE_ACTIVATION,
    PAUSED_SCALE_IN,
    PAUSED_SCALE_OUT,
)
from tests.local.keda.fakes import now
from tests.local.keda.world import World, a_world

pytestmark = pytest.mark.looptime

HPA = ("ai", "keda-hpa-model")


async def test_e2_a_partial_error_does_not_move_last_active_time() -> None:
    async with a_world() as world:
        triggers = [
            {"type": "external-push", "metadata": {"scalerAddress": "a:1"}},
            {"type": "external-push", "metadata": {"scalerAddress": "b:1"}},
        ]
        world.scalers.at("b:1").active = True
        key = await world.add(triggers=triggers)
        before = world.cluster.status(key)["lastActiveTime"]
        world.scalers.at("a:1").failing.add("IsActive")
        await world.until(95.0)
        assert world.cluster.status(key)["lastActiveTime"] == before


async def test_e5_errors_never_change_replicas() -> None:
    async with a_world() as world:
        key = await world.add(cooldownPeriod=0)
        await world.push()
        world.scaler.failing.update({"GetMetricSpec", "GetMetrics", "IsActive"})
        await world.passes(500.0)
        assert world.replicas == 1
        assert world.cluster.condition(key, "Ready") == ("False", "TriggerError")


async def test_e9_a_new_idle_target_goes_to_zero_on_the_first_poll() -> None:
    async with a_world() as world:
        world.replicas = 1
        await world.add()
        assert world.replicas == 0


async def test_e10_after_the_last_active_poll_zero_comes_with_the_first_poll_past_the_cooldown() -> None:
    async with a_world() as world:
        world.scaler.active = True
        key = await world.add(pollingInterval=10, cooldownPeriod=35)
        await world.until(20.5)
        world.scaler.active = False
        world.scaler.values = [14000]
        world.replicas = 7
        await world.until(50.5)
        assert world.replicas == 7
        assert world.cluster.condition(key, "Active") == ("False", "ScalerCooldown")
        await world.until(60.5)
        assert world.replicas == 0
        assert round(world.cluster.scales[-1][0]) == 60
        assert world.cluster.condition(key, "Active") == ("False", "ScalerNotActive")
        assert "KEDAScaleTargetDeactivated" in world.cluster.reasons()


async def test_e11_idle_and_minimum_steer_both_ways() -> None:
    async with a_world() as world:
        await world.add(idleReplicaCount=0, minReplicaCount=2, cooldownPeriod=10, pollingInterval=10)
        await world.push()
        assert world.replicas == 2
        await world.until(25.0)
        assert world.replicas == 0
    async with a_world() as world:
        await world.add(minReplicaCount=2)
        assert world.replicas == 2


async def test_e13_the_finer_pause_annotations_block_one_direction_or_force_activity() -> None:
    async with a_world() as world:
        key = await world.add(pollingInterval=10, cooldownPeriod=0)
        world.cluster.annotate(key, PAUSED_SCALE_OUT, "true")
        await world.push()
        assert world.replicas == 0
        assert world.cluster.hpas[HPA]["spec"]["behavior"]["scaleUp"]["selectPolicy"] == "Disabled"
        world.cluster.annotate(key, PAUSED_SCALE_OUT, None)
        world.cluster.annotate(key, FORCE_ACTIVATION, "true")
        await world.passes(11.0)
        assert world.replicas == 1
        world.cluster.annotate(key, PAUSED_SCALE_IN, "true")
        world.cluster.annotate(key, FORCE_ACTIVATION, None)
        await world.passes(50.0)
        assert world.replicas == 1
        world.cluster.annotate(key, PAUSED_SCALE_IN, None)
        await world.passes(11.0)
        assert world.replicas == 0


async def test_q1_a_scaler_that_pushes_too_often_delays_scale_to_zero() -> None:
    async def time_to_zero(world: World, pushes: int) -> float:
        await world.add(pollingInterval=10, cooldownPeriod=20)
        for _ in range(pushes):
            world.scaler.open_streams[0].push(True)
        await world.push()
        while world.replicas or not world.cluster.scales:  # noqa: ASYNC110 (virtual seconds cost nothing)
            await asyncio.sleep(1)
        return now()

    async with a_world() as world:
        quiet = await time_to_zero(world, 1)
    async with a_world() as world:
        started = now()
        noisy = await time_to_zero(world, 800) - started
    assert quiet < 35
    assert noisy > 55


async def test_q1_status_writes_go_out_at_twenty_a_second_after_a_burst_of_thirty() -> None:
    async with a_world(settings=KedaSettings()) as world:
        await world.add()
        await world.passes(10.0)
        started = now()
        for _ in range(130):
            world.scaler.open_streams[0].push(True)
        await world.passes(15.0)
        times = [at for at, _ in world.cluster.status_writes if at >= started]
        assert len([at for at in times if at < started + 0.04]) <= 31
        assert max(times) - started == pytest.approx(5.0, abs=0.6)

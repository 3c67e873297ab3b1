"""The HPA's behaviours H1 to H6 of keda.md section 8, through the whole stand-in in virtual time."""

from typing import Any

import pytest

from noctaya.local.keda.errors import EditedHpa
from noctaya.local.keda.hpaobject import metric_targets
from noctaya.local.keda.settings import KedaSettings
from tests.local.keda.fakes import Deployment, record_of
from tests.local.keda.world import a_world

pytestmark = pytest.mark.looptime

HPA = ("ai", "keda-hpa-model")


async def test_h1_every_fifteen_seconds_the_hpa_path_asks_spec_metrics_and_is_active() -> None:
    async with a_world() as world:
        world.scaler.active = True
        await world.add(pollingInterval=1000)
        world.scaler.calls.clear()
        await world.until(46.0)
        assert [(round(at), rpc) for at, rpc in world.scaler.calls] == [
            (at, rpc) for at in (15, 30, 45) for rpc in ("GetMetricSpec", "GetMetrics", "IsActive")
        ]


async def test_h1_cached_metrics_come_from_the_last_poll_and_only_the_spec_is_asked() -> None:
    async with a_world() as world:
        world.scaler.active = True
        world.scaler.values = [6000]
        await world.add(pollingInterval=1000, trigger={"useCachedMetrics": True})
        world.scaler.calls.clear()
        world.scaler.values = [2000]
        await world.until(16.0)
        assert [rpc for _, rpc in world.scaler.calls] == ["GetMetricSpec"]
        assert world.replicas == 3


async def test_h2_an_average_value_brings_the_sum_over_the_target_within_the_bounds() -> None:
    async with a_world() as world:
        world.scaler.active = True
        await world.add(maxReplicaCount=3)
        world.scaler.values = [3000, 1000]
        await world.until(16.0)
        assert world.replicas == 2
        assert world.cluster.scales[-1][1:] == (2, "kube-controller-manager")
        world.scaler.values = [100_000]
        await world.until(31.0)
        assert world.replicas == 3
        assert "SuccessfulRescale" in world.cluster.reasons()


async def test_h3_the_hpa_steps_down_only_after_its_window_and_never_to_zero() -> None:
    async with a_world() as world:
        world.scaler.active = True
        behavior = {"scaleDown": {"stabilizationWindowSeconds": 60}}
        await world.add(advanced={"horizontalPodAutoscalerConfig": {"behavior": behavior}})
        world.scaler.values = [6000]
        await world.until(16.0)
        assert world.replicas == 3
        world.scaler.values = [0]
        await world.until(74.0)
        assert world.replicas == 3
        await world.until(200.0)
        assert world.replicas == 1


async def test_h4_a_metric_that_cannot_be_read_changes_nothing_and_says_so() -> None:
    async with a_world() as world:
        world.scaler.active = True
        key = await world.add(pollingInterval=40)
        world.replicas = 4
        world.scaler.failing.add("GetMetrics")
        await world.until(39.0)
        assert world.replicas == 4
        conditions = {entry["type"]: entry for entry in world.cluster.hpas[HPA]["status"]["conditions"]}
        assert conditions["ScalingActive"]["status"] == "False"
        assert conditions["ScalingActive"]["reason"] == "FailedGetExternalMetric"
        await world.until(41.0)
        assert world.cluster.condition(key, "HPAActive") == ("False", "FailedGetExternalMetric")


async def test_h4_an_error_of_any_trigger_fails_every_metric() -> None:
    async with a_world() as world:
        triggers = [
            {"type": "external-push", "metadata": {"scalerAddress": "a:1"}},
            {"type": "external-push", "metadata": {"scalerAddress": "b:1"}},
        ]
        a, b = world.scalers.at("a:1"), world.scalers.at("b:1")
        a.active = True
        await world.add(triggers=triggers)
        a.values = [20_000]
        b.failing.add("GetMetricSpec")
        await world.until(16.0)
        assert world.replicas == 1


async def test_h4_a_scaler_that_never_answers_is_given_up_after_the_api_servers_limit() -> None:
    async with a_world(settings=KedaSettings(metrics_deadline_seconds=5)) as world:
        world.scaler.active = True
        await world.add()
        world.scaler.hanging.add("GetMetrics")
        await world.until(21.0)
        assert world.replicas == 1
        conditions = {entry["type"]: entry for entry in world.cluster.hpas[HPA]["status"]["conditions"]}
        assert conditions["ScalingActive"]["reason"] == "FailedGetExternalMetric"


async def test_h5_at_zero_the_hpa_asks_nothing_and_says_scaling_disabled() -> None:
    async with a_world() as world:
        key = await world.add(pollingInterval=40)
        world.scaler.calls.clear()
        await world.until(39.0)
        assert world.scaler.calls == []
        conditions = {entry["type"]: entry for entry in world.cluster.hpas[HPA]["status"]["conditions"]}
        assert conditions["ScalingActive"]["reason"] == "ScalingDisabled"
        await world.until(41.0)
        assert world.cluster.condition(key, "HPAActive") == ("True", "ScalingDisabled")


async def test_h6_without_the_metrics_server_the_first_replica_comes_and_the_second_does_not() -> None:
    async with a_world() as world:
        world.operator.metrics_server_is_up = False
        await world.add()
        world.scaler.active = True
        world.scaler.values = [20_000]
        await world.push()
        assert world.replicas == 1
        await world.until(61.0)
        assert world.replicas == 1
        world.operator.metrics_server_is_up = True
        await world.until(76.0)
        assert world.replicas == 4


async def test_a_value_metric_scales_by_ready_pods() -> None:
    async with a_world() as world:
        world.scaler.active = True
        world.cluster.deployments["ai", "model"] = Deployment(replicas=2, ready=1)
        await world.add(trigger={"metricType": "Value"})
        world.scaler.values = [6000]
        await world.until(16.0)
        assert world.replicas == 3


@pytest.mark.parametrize(
    "metric",
    [
        {"type": "Resource", "resource": {"name": "cpu"}},
        {
            "type": "External",
            "external": {"metric": {"name": "x"}, "target": {"type": "Value", "value": "2k"}},
        },
        {
            "type": "External",
            "external": {"metric": {"name": "x"}, "target": {"type": "Value", "value": "0"}},
        },
    ],
)
async def test_an_hpa_edited_by_hand_is_put_back_and_never_stops_the_stand_in(metric: dict[str, Any]) -> None:
    async with a_world() as world:
        world.scaler.active = True
        world.scaler.values = [4000]
        await world.add()
        world.cluster.edit_hpa_by_hand(HPA, {"metrics": [metric], "scaleTargetRef": None})
        with pytest.raises(EditedHpa):
            metric_targets(record_of(world.cluster.hpas[HPA]))
        await world.until(16.0)
        assert world.cluster.hpas[HPA]["spec"]["metrics"][0]["external"]["metric"]["name"] == "s0-pending"
        assert world.replicas == 2

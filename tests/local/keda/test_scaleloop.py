"""Streams and polls, S1 to S8 and P1 to P3 of keda.md section 8, through the whole stand-in in virtual time."""

import pytest

from tests.local.keda.fakes import now
from tests.local.keda.world import INSTANT, a_world, spec

pytestmark = pytest.mark.looptime


async def test_s1_the_stream_opens_without_waiting_for_the_first_poll_and_causes_no_is_active() -> None:
    async with a_world() as world:
        world.scaler.hanging.add("GetMetrics")
        await world.add()
        assert len(world.scaler.open_streams) == 1
        world.scaler.open_streams[0].end_ok()
        await world.passes(2.1)
        assert len(world.scaler.streams) == 2
        assert world.scaler.times("IsActive") == []


async def test_s2_error_ends_are_reopened_after_doubling_delays_and_an_ok_end_after_two_seconds() -> None:
    async with a_world() as world:
        await world.add()
        delays = []
        for number in range(8):
            stream = world.scaler.open_streams[0]
            if number == 6:
                stream.push(True)
                stream.end_ok()
            else:
                stream.end_with_error()
            ended_at = now()
            while not world.scaler.open_streams or world.scaler.open_streams[0] is stream:
                await world.passes(0.5)
            delays.append(round(world.scaler.open_streams[0].opened_at - ended_at, 1))
        assert delays == [2, 4, 8, 16, 32, 60, 2, 4]


async def test_s3_failing_calls_neither_close_nor_reopen_the_stream() -> None:
    async with a_world() as world:
        await world.add()
        world.scaler.failing.update({"GetMetricSpec", "GetMetrics", "IsActive"})
        await world.passes(200.0)
        assert len(world.scaler.streams) == 1
        assert len(world.scaler.open_streams) == 1


async def test_s4_a_pushed_true_at_zero_sets_max_of_one_and_min_at_once() -> None:
    async with a_world() as world:
        key = await world.add()
        await world.push()
        assert world.replicas == 1
        assert world.cluster.scales[-1][1:] == (1, "keda")
        assert world.cluster.condition(key, "Active") == ("True", "ScalerActive")
        assert world.cluster.condition(key, "Ready")[0] == "True"
        assert world.cluster.status(key)["lastActiveTime"] == "2026-03-01T12:00:00Z"
        assert world.cluster.status(key)["triggersActivity"] == {"s0-pending": {"isActive": True}}
        assert "KEDAScaleTargetActivated" in world.cluster.reasons()


async def test_s5_each_true_above_zero_is_one_status_write_and_no_scale() -> None:
    async with a_world() as world:
        key = await world.add()
        await world.push()
        await world.passes(5.0)
        scales, writes = len(world.cluster.scales), len(world.cluster.status_writes)
        for _ in range(4):
            await world.push()
        assert len(world.cluster.scales) == scales
        assert [list(patch) for _, patch in world.cluster.status_writes[writes:]] == [["lastActiveTime"]] * 4
        assert world.cluster.status(key)["lastActiveTime"] == "2026-03-01T12:00:05Z"


async def test_s6_a_pushed_false_has_no_effect_at_all() -> None:
    async with a_world() as world:
        await world.add(cooldownPeriod=0)
        await world.push()
        writes = len(world.cluster.status_writes)
        await world.passes(5.0)
        await world.push(False)
        assert world.replicas == 1
        assert len(world.cluster.status_writes) == writes


async def test_s7_a_true_is_dropped_while_the_metric_is_not_in_the_status() -> None:
    async with a_world() as world:
        key = await world.add()
        world.cluster.scaledobjects[key]["status"]["externalMetricNames"] = ["s1-other"]
        world.cluster.apply("model", spec(), labels={"look": "again"})
        await world.push()
        assert world.replicas == 0


async def test_s8_a_slow_poll_delays_a_push_and_they_never_overlap() -> None:
    async with a_world() as world:
        world.scaler.hanging.add("IsActive")
        await world.add()
        await world.push()
        await world.passes(20.0)
        assert world.replicas == 0
        world.scaler.hanging.clear()
        world.scaler.release.set()
        await world.passes(INSTANT)
        assert world.replicas == 1


async def test_p1_polls_come_at_once_and_then_every_interval_and_overruns_do_not_overlap() -> None:
    async with a_world() as world:
        await world.add(pollingInterval=10)
        await world.until(35.0)
        assert [round(at) for at in world.scaler.times("IsActive")] == [0, 10, 20, 30]
        world.scaler.hanging.add("GetMetrics")
        await world.until(57.0)
        world.scaler.hanging.clear()
        world.scaler.release.set()
        await world.until(75.0)
        assert [round(at) for at in world.scaler.times("GetMetrics")] == [0, 10, 20, 30, 40, 57, 67]


async def test_p2_a_poll_asks_spec_then_metrics_without_prefix_then_is_active() -> None:
    async with a_world() as world:
        await world.add()
        first = [rpc for at, rpc in world.scaler.calls if at < 1 and rpc != "StreamIsActive"]
        assert first[-3:] == ["GetMetricSpec", "GetMetrics", "IsActive"]
        assert set(world.scaler.metrics_asked) == {"pending"}


async def test_p2_one_failure_is_repeated_at_once_and_hurts_nobody() -> None:
    async with a_world() as world:
        key = await world.add()
        await world.until(29.0)
        world.scaler.calls.clear()
        world.scaler.failures_left = {"GetMetricSpec": 1, "IsActive": 1}
        await world.until(31.0)
        assert [rpc for _, rpc in world.scaler.calls] == [
            "GetMetricSpec",
            "GetMetricSpec",
            "GetMetrics",
            "IsActive",
            "GetMetrics",
            "IsActive",
        ]
        assert world.cluster.condition(key, "Ready")[0] == "True"


async def test_p3_one_active_trigger_is_enough_and_a_failed_one_is_inactive() -> None:
    async with a_world() as world:
        triggers = [
            {"type": "external-push", "metadata": {"scalerAddress": "a:1"}},
            {"type": "external-push", "metadata": {"scalerAddress": "b:1"}},
        ]
        a, b = world.scalers.at("a:1"), world.scalers.at("b:1")
        b.active = True
        key = await world.add(triggers=triggers)
        assert world.replicas == 1
        a.failing.add("GetMetrics")
        await world.until(31.0)
        assert world.cluster.condition(key, "Ready") == ("Unknown", "PartialTriggerError")
        assert world.cluster.status(key)["externalMetricNames"] == ["s0-pending", "s1-pending"]

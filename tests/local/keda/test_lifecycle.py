"""Reconcile and lifecycle, L1 to L8 of keda.md section 8, through the whole stand-in in virtual time."""

import itertools

import pytest

from noctaya.local.keda.spec import (
    PAUSED,
    PAUSED_REPLICAS,
)
from tests.local.keda.fakes import FakeCluster, now
from tests.local.keda.world import INSTANT, a_world, spec

pytestmark = pytest.mark.looptime

HPA = ("ai", "keda-hpa-model")


async def test_l1_first_sight_sets_finalizer_label_status_and_hpa_and_starts_the_loop() -> None:
    async with a_world() as world:
        world.replicas = 3
        key = await world.add(minReplicaCount=1)
        metadata = world.cluster.scaledobjects[key]["metadata"]
        status = world.cluster.status(key)
        assert metadata["finalizers"] == ["finalizer.keda.sh"]
        assert metadata["labels"] == {"scaledobject.keda.sh/name": "model"}
        assert status["originalReplicaCount"] == 3
        assert status["externalMetricNames"] == ["s0-pending"]
        assert status["hpaName"] == "keda-hpa-model"
        assert world.cluster.condition(key, "Ready") == ("True", "ScaledObjectReady")
        assert world.cluster.condition(key, "Paused")[0] == "False"
        assert all("lastTransitionTime" not in entry for entry in status["conditions"])
        hpa = world.cluster.hpas[HPA]["spec"]
        assert (hpa["minReplicas"], hpa["maxReplicas"]) == (1, 100)
        assert hpa["metrics"][0]["external"]["target"] == {"type": "AverageValue", "averageValue": "2"}
        assert len(world.scaler.open_streams) == 1


async def test_l1_the_original_replica_count_is_recorded_once() -> None:
    async with a_world() as world:
        world.replicas = 3
        key = await world.add()
        world.replicas = 5
        world.cluster.apply("model", spec(pollingInterval=10))
        await world.passes(INSTANT * 20)
        assert world.cluster.status(key)["originalReplicaCount"] == 3


async def test_l2_a_failing_get_metric_spec_leaves_no_hpa_no_stream_no_poll_and_is_retried_doubling() -> None:
    async with a_world() as world:
        world.scaler.failing.add("GetMetricSpec")
        key = await world.add()
        await world.until(1.0)
        assert world.cluster.condition(key, "Ready") == ("False", "ScaledObjectCheckFailed")
        assert world.cluster.condition(key, "Active") == ("Unknown", "UnknownState")
        assert world.cluster.hpas == {}
        assert {rpc for _, rpc in world.scaler.calls} == {"GetMetricSpec"}
        times = world.scaler.times("GetMetricSpec")
        gaps = [round(later - earlier, 3) for earlier, later in itertools.pairwise(times)]
        assert gaps[:6] == [0.005, 0.01, 0.02, 0.04, 0.08, 0.16]
        world.scaler.failing.clear()
        await world.passes(2.0)
        assert world.cluster.condition(key, "Ready")[0] == "True"
        assert len(world.scaler.open_streams) == 1


async def test_l2_an_empty_metric_spec_counts_as_a_failure() -> None:
    async with a_world() as world:
        world.scaler.specs = []
        key = await world.add()
        assert world.cluster.condition(key, "Ready") == ("False", "ScaledObjectCheckFailed")


async def test_l3_a_spec_change_cancels_the_stream_opens_a_new_one_and_polls_at_once() -> None:
    async with a_world() as world:
        await world.add()
        world.scaler.open_streams[0].end_with_error()
        await world.passes(2 + INSTANT)
        polls = len(world.scaler.times("IsActive"))
        changed_at = now()
        world.cluster.apply("model", spec(metadata={"revision": "2"}))
        await world.passes(INSTANT * 20)
        assert world.scaler.streams[1].closed_at == pytest.approx(changed_at, abs=0.01)
        assert [stream.reference.metadata.get("revision") for stream in world.scaler.open_streams] == ["2"]
        assert len(world.scaler.times("IsActive")) == polls + 1
        # The back-off counter began anew with the new loop.
        world.scaler.open_streams[0].end_with_error()
        await world.passes(1.99)
        assert world.scaler.open_streams == []
        await world.passes(0.02)
        assert len(world.scaler.open_streams) == 1


async def test_l3_while_the_new_spec_fails_the_old_stream_stays_and_polls_use_the_new_one() -> None:
    async with a_world() as world:
        key = await world.add()
        world.scaler.failing.add("GetMetricSpec")
        world.cluster.apply("model", spec(metadata={"revision": "2"}))
        await world.passes(31.0)
        assert world.cluster.condition(key, "Ready")[0] == "False"
        assert [stream.reference.metadata.get("revision") for stream in world.scaler.open_streams] == [None]
        assert world.scaler.references[-1].metadata["revision"] == "2"


async def test_l4_a_change_of_labels_opens_no_new_stream() -> None:
    async with a_world() as world:
        await world.add()
        world.cluster.apply("model", spec(), labels={"team": "red"})
        await world.passes(1.0)
        assert len(world.scaler.streams) == 1


async def test_l4_paused_replicas_stops_every_call_removes_the_hpa_and_sets_the_target() -> None:
    async with a_world() as world:
        key = await world.add()
        world.cluster.annotate(key, PAUSED_REPLICAS, "4")
        await world.passes(INSTANT * 20)
        calls = len(world.scaler.calls)
        await world.passes(100.0)
        assert len(world.scaler.calls) == calls
        assert world.scaler.open_streams == []
        assert world.cluster.hpas == {}
        assert world.replicas == 4
        assert world.cluster.condition(key, "Paused") == ("True", "ScaledObjectPaused")
        assert world.cluster.status(key)["pausedReplicaCount"] == 4
        world.cluster.annotate(key, PAUSED_REPLICAS, None)
        await world.passes(INSTANT * 20)
        assert len(world.scaler.open_streams) == 1
        assert HPA in world.cluster.hpas
        assert world.cluster.condition(key, "Paused")[0] == "False"
        assert "pausedReplicaCount" not in world.cluster.status(key)


async def test_l4_any_value_of_paused_but_false_pauses() -> None:
    async with a_world() as world:
        key = await world.add()
        world.cluster.annotate(key, PAUSED, "false")
        await world.passes(1.0)
        assert len(world.scaler.open_streams) == 1
        world.cluster.annotate(key, PAUSED, "no")
        await world.passes(1.0)
        assert world.scaler.open_streams == []


async def test_l5_an_hpa_deleted_by_hand_comes_back_and_restarts_the_loop() -> None:
    async with a_world() as world:
        await world.add()
        world.cluster.delete_hpa_by_hand(HPA)
        await world.passes(INSTANT * 20)
        assert HPA in world.cluster.hpas
        assert len(world.scaler.streams) == 2
        assert len(world.scaler.open_streams) == 1


@pytest.mark.parametrize(("restores", "left"), [(False, 4), (True, 2)])
async def test_l6_deletion_cancels_the_stream_and_restores_replicas_only_if_asked(
    restores: bool, left: int
) -> None:
    async with a_world() as world:
        world.replicas = 2
        key = await world.add(minReplicaCount=1, advanced={"restoreToOriginalReplicaCount": restores})
        world.replicas = 4
        world.cluster.delete(key)
        await world.passes(INSTANT * 20)
        calls = len(world.scaler.calls)
        await world.passes(100.0)
        assert len(world.scaler.calls) == calls
        assert world.scaler.open_streams == []
        assert world.cluster.scaledobjects == {}
        assert world.replicas == left


async def test_l7_a_restart_opens_all_streams_polls_at_once_and_keeps_last_active_time() -> None:
    cluster = FakeCluster()
    async with a_world(cluster) as world:
        key = await world.add()
        await world.push()
        woken = world.cluster.status(key)["lastActiveTime"]
    async with a_world(cluster) as world:
        await world.passes(INSTANT * 20)
        assert len(world.scaler.open_streams) == 1
        assert len(world.scaler.times("IsActive")) == 1
        assert world.cluster.status(key)["lastActiveTime"] == woken
        # The cooldown goes on from there: without it, the first poll had taken the target to zero.
        assert world.replicas == 1
        assert len(world.cluster.hpas) == 1


async def test_l8_five_hanging_reconciles_hold_up_the_sixth() -> None:
    async with a_world() as world:
        world.scaler.hanging.add("GetMetricSpec")
        for number in range(5):
            world.cluster.apply(f"hangs-{number}", {**spec(), "scaleTargetRef": {"name": f"m{number}"}})
            world.cluster.deployments["ai", f"m{number}"] = world.cluster.deployments["ai", "model"]
        world.cluster.apply("fine", spec(metadata={"scalerAddress": "other:1"}))
        await world.passes(60.0)
        other = world.scalers.at("other:1")
        assert len(world.scaler.calls) == 5
        assert other.calls == []
        world.scaler.hanging.clear()
        world.scaler.release.set()
        await world.passes(INSTANT * 20)
        assert len(other.open_streams) == 1

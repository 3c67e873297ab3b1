"""What the stand-in cannot serve is refused with Ready=False and a sentence that says what to change."""

from typing import Any

import pytest

from noctaya.local.keda.spec import PAUSED_REPLICAS
from tests.local.keda.fakes import Deployment
from tests.local.keda.world import ADDRESS, INSTANT, a_world, spec

pytestmark = pytest.mark.looptime


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"triggers": [{"type": "cron", "metadata": {}}]}, "spec.triggers[0].type 'cron'"),
        ({"triggers": []}, "spec.triggers is empty"),
        ({"fallback": {"replicas": 2, "failureThreshold": 1}}, "fallback is not supported"),
        ({"advanced": {"scalingModifiers": {"formula": "a+b"}}}, "scalingModifiers are not supported"),
        ({"trigger": {"authenticationRef": {"name": "mtls"}}}, "TLS (authenticationRef, enableTLS)"),
        ({"metadata": {"enableTLS": "true"}}, "TLS (authenticationRef, enableTLS)"),
        ({"metadata": {"tokenFromEnv": "TOKEN"}}, "metadata.tokenFromEnv"),
        ({"metadata": {"scalerAddress": ""}}, "metadata.scalerAddress is missing"),
        ({"trigger": {"metricType": "Utilization"}}, "metricType 'Utilization'"),
        ({"scaleTargetRef": {"name": "model", "kind": "StatefulSet"}}, "StatefulSet is not supported"),
        ({"scaleTargetRef": {"name": ""}}, "scaleTargetRef.name is missing"),
        ({"scaleTargetRef": {"name": "nobody"}}, "Deployment ai/nobody"),
        ({"minReplicaCount": 5, "maxReplicaCount": 4}, "minReplicaCount 5 is above maxReplicaCount 4"),
        ({"minReplicaCount": 1, "idleReplicaCount": 1}, "idleReplicaCount 1 is not below"),
        (
            {
                "triggers": [{"type": "external-push", "name": "t", "metadata": {"scalerAddress": ADDRESS}}]
                * 2
            },
            "two triggers are named 't'",
        ),
    ],
)
async def test_a_spec_that_cannot_be_served_is_not_ready_and_says_why(
    changes: dict[str, Any], words: str
) -> None:
    async with a_world() as world:
        key = await world.add(**changes)
        ready = next(entry for entry in world.cluster.status(key)["conditions"] if entry["type"] == "Ready")
        assert (ready["status"], ready["reason"]) == ("False", "ScaledObjectCheckFailed")
        assert words in ready["message"]
        assert world.cluster.hpas == {}
        assert world.scaler.streams == []


async def test_v1_the_second_scaledobject_on_a_target_is_refused_until_the_first_is_gone() -> None:
    async with a_world() as world:
        first = await world.add("first")
        await world.passes(1.0)
        second = await world.add("second")
        assert world.cluster.condition(first, "Ready")[0] == "True"
        assert world.cluster.condition(second, "Ready")[0] == "False"
        world.cluster.delete(first)
        await world.passes(60.0)
        assert world.cluster.condition(second, "Ready")[0] == "True"


async def test_v4_two_triggers_of_one_name_are_refused() -> None:
    async with a_world() as world:
        trigger = {"type": "external-push", "name": "t", "metadata": {"scalerAddress": ADDRESS}}
        key = await world.add(triggers=[trigger, trigger])
        ready = next(entry for entry in world.cluster.status(key)["conditions"] if entry["type"] == "Ready")
        assert "two triggers are named 't'" in ready["message"]


async def test_v3_a_name_that_makes_the_hpas_name_too_long_is_refused() -> None:
    async with a_world() as world:
        fits = await world.add("a" * 54)
        assert world.cluster.condition(fits, "Ready")[0] == "True"
        world.cluster.delete(fits)
        await world.passes(1.0)
        too_long = await world.add("a" * 55)
        assert world.cluster.condition(too_long, "Ready")[0] == "False"


async def test_a_paused_replicas_annotation_that_is_no_number_is_refused_and_removing_it_heals() -> None:
    async with a_world() as world:
        key = await world.add()
        world.cluster.annotate(key, PAUSED_REPLICAS, "many")
        await world.passes(INSTANT * 20)
        assert world.cluster.condition(key, "Ready")[0] == "False"
        world.cluster.annotate(key, PAUSED_REPLICAS, None)
        await world.passes(INSTANT * 20)
        assert world.cluster.condition(key, "Ready")[0] == "True"


async def test_a_target_that_disappears_is_reported_and_followed_again_when_it_returns() -> None:
    async with a_world() as world:
        key = await world.add(pollingInterval=10)
        deployment = world.cluster.deployments.pop(("ai", "model"))
        await world.passes(11.0)
        assert world.cluster.condition(key, "Ready") == ("False", "ErrorGettingCurrentReplicas")
        world.cluster.deployments["ai", "model"] = deployment
        await world.passes(11.0)
        assert world.cluster.condition(key, "Ready")[0] == "True"


async def test_a_scale_that_fails_is_an_event_and_no_last_active_time_and_is_tried_at_the_next_poll() -> None:
    async with a_world() as world:
        key = await world.add()
        world.scaler.active = True
        world.cluster.scale_fails = True
        await world.push()
        assert "KEDAScaleTargetActivationFailed" in world.cluster.reasons()
        assert "lastActiveTime" not in world.cluster.status(key)
        world.cluster.scale_fails = False
        await world.passes(31.0)
        assert world.replicas == 1


async def test_an_api_server_outage_ends_nothing_and_what_it_held_up_is_done_afterwards() -> None:
    async with a_world() as world:
        key = await world.add(pollingInterval=10)
        world.cluster.is_down = True
        world.scaler.active = True
        await world.push()
        new = world.cluster.apply("new", {**spec(), "scaleTargetRef": {"name": "other"}})
        world.cluster.deployments["ai", "other"] = Deployment()
        world.cluster.annotate(key, PAUSED_REPLICAS, "3")
        world.cluster.annotate(key, PAUSED_REPLICAS, None)
        await world.passes(60.0)
        assert world.replicas == 0
        world.cluster.is_down = False
        await world.passes(150.0)
        assert world.replicas == 1
        assert world.cluster.condition(key, "Ready")[0] == "True"
        assert world.cluster.condition(new, "Ready")[0] == "True"


async def test_a_renamed_hpa_replaces_the_old_one() -> None:
    async with a_world() as world:
        await world.add()
        renamed = {"horizontalPodAutoscalerConfig": {"name": "mine"}}
        world.cluster.apply("model", spec(advanced=renamed))
        await world.passes(1.0)
        assert list(world.cluster.hpas) == [("ai", "mine")]

"""A service with `min: 1` (issue 4): it is there before anybody asks, and it stays."""

from tests.acceptance.clients import ask
from tests.acceptance.conftest import Models
from tests.acceptance.fleet import Fleet
from tests.acceptance.waiting import holds_for

COLD_START = "x-noctaya-cold-start"
STAYS_SECONDS = 12.0
"""Longer than the cooldown (1 s) and two of KEDA's polls (5 s each): with `min: 0` it would be asleep by then."""


async def test_a_model_that_must_always_be_there_starts_unasked_and_never_sleeps(
    models: Models, fleet: Fleet
) -> None:
    model = await models("always", scaling={"min": 1, "max": 2, "scaleDownStabilization": "1s"})
    (pod,) = await model.until_ready(1)
    await model.until_condition("Ready", "True", STAYS_SECONDS)
    scaled = (await model.scaled_object())["spec"]
    assert (scaled["minReplicaCount"], scaled["maxReplicaCount"]) == (1, 2)
    answer = await ask(fleet.url, model.model)
    assert answer.is_whole, answer
    assert COLD_START not in answer.headers, "the first request was held"

    async def stays() -> bool:
        found = await model.ready_pods()
        return [kept["metadata"]["uid"] for kept in found] == [pod["metadata"]["uid"]]

    await holds_for(stays, STAYS_SECONDS, f"the one pod of {model.model} serves")
    assert await model.replicas() == 1
    assert await model.phase() == "Ready"

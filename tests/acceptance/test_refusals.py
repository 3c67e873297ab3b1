"""What a client hears when its request cannot be held: `reject` mode (E11), a full queue and a wait that was too long (E12)."""

from typing import Any

from tests.acceptance.clients import Asked, ask, asked
from tests.acceptance.conftest import Models
from tests.acceptance.fleet import Fleet

NOWHERE = "noctaya.test/no-such-device"
"""No node has it: pods that ask for it stay unscheduled."""
REFUSED_SECONDS = 30.0
QUEUE_REFUSED_SECONDS = 5.0
COUNTED_SECONDS = 10.0
REPLICAS_SECONDS = 60.0
GIVEN_UP_SECONDS = 20.0


def reject_mode(**scaling: Any) -> dict[str, Any]:
    return {"endpoint": {"coldStart": {"mode": "reject"}}, "scaling": scaling}


async def test_in_reject_mode_a_cold_request_is_refused_at_once(models: Models, fleet: Fleet) -> None:
    """E11, on a backend that can never run: 503 with a hint when to come again, stream or not; the wake ends by itself."""
    model = await models(
        "refused",
        engine={"resource": NOWHERE},
        **reject_mode(activationTimeout="5s", scaleDownStabilization="1s"),
    )
    await model.until_asleep()
    for stream in (False, True):
        answer = await ask(fleet.url, model.model, stream=stream, seconds=REFUSED_SECONDS)
        assert_refused(answer, 503, "model_cold", retry_after="10")
    await model.until_replicas(1, REPLICAS_SECONDS)  # refused, and woken all the same
    await model.until_asleep()


async def test_in_reject_mode_the_refused_request_wakes_the_model_for_the_next(
    models: Models, fleet: Fleet
) -> None:
    """E11's purpose: whoever comes again once it is awake gets an answer."""
    model = await models("comes-back", **reject_mode(activationTimeout="2m"))
    assert_refused(await ask(fleet.url, model.model), 503, "model_cold", retry_after="10")
    await model.until_ready(1)
    answer = await ask(fleet.url, model.model)
    assert answer.is_whole, answer


async def test_a_full_queue_is_refused_and_those_inside_wait_no_longer_than_agreed(
    models: Models, fleet: Fleet
) -> None:
    """E12. `maxQueue` counts per service and gateway process: a full gateway says nothing of the other one's places."""
    model = await models(
        "full",
        engine={"resource": NOWHERE},
        endpoint={"maxQueue": 1},
        scaling={"activationTimeout": "10s"},
    )
    await model.until_asleep()
    full, other = await fleet.pods("gateway")
    labels = {"namespace": model.namespace, "service": model.name}
    async with asked(full.url, model.model, stream=False) as first:
        await fleet.until_metric(full, "noctaya_gateway_pending", 1, COUNTED_SECONDS, **labels)
        second = await ask(full.url, model.model, stream=False, seconds=QUEUE_REFUSED_SECONDS)
        assert_refused(second, 429, "queue_full", retry_after="5")
        async with asked(other.url, model.model, stream=False) as elsewhere:
            await fleet.until_metric(other, "noctaya_gateway_pending", 1, COUNTED_SECONDS, **labels)
            assert first.ended_at is None
            await first.has_ended(GIVEN_UP_SECONDS)
            await elsewhere.has_ended(GIVEN_UP_SECONDS)
    for held in (first, elsewhere):
        assert_refused(held, 503, "activation_timeout", retry_after="10")
    # A series ends two seconds after its last request: absent is none.
    await fleet.until_total("gateway", "noctaya_gateway_pending", 0, COUNTED_SECONDS, **labels)
    assert await fleet.metric(full, "noctaya_gateway_rejections_total", reason="queue_full", **labels) == 1


def assert_refused(answer: Asked, status: int, code: str, *, retry_after: str) -> None:
    """The refusal is whole, in OpenAI's shape, and says when to come again."""
    assert (answer.status, answer.error_code) == (status, code), answer
    assert answer.headers["retry-after"] == retry_after

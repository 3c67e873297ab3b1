"""A backend that cannot start is shown, and its repair needs nobody who starts over (E14)."""

from tests.acceptance.api import Api, Object
from tests.acceptance.clients import asked
from tests.acceptance.conftest import Models
from tests.acceptance.fleet import Fleet
from tests.acceptance.models import ENGINE
from tests.acceptance.waiting import until
from tests.cluster.images import DOMAIN

MISSING = f"{DOMAIN}/engine:of-tomorrow"
"""An image that the node does not have and nobody can pull."""
SHOWN_SECONDS = 60.0
HEALED_SECONDS = 120.0


async def test_a_missing_image_is_shown_and_the_held_request_is_answered_once_it_is_mended(
    api: Api, models: Models, fleet: Fleet, namespace: str
) -> None:
    """E14: Degraded with the reason, one event; after the runtime is patched the very request that woke it is answered."""
    model = await models("mended", engine={"image": MISSING}, scaling={"activationTimeout": "5m"})
    await model.until_asleep()
    async with asked(fleet.url, model.model) as request:
        shown = await model.until_condition("Degraded", "True", SHOWN_SECONDS, reason="ImagePullFailed")
        (pod,) = await model.pods()
        assert pod["metadata"]["name"] in shown["message"]
        (event,) = await events(api, namespace, "ImagePullFailed")
        assert event["type"] == "Warning"
        assert event["message"] == shown["message"]
        assert (await model.condition("Ready"))["status"] == "False"
        assert request.ended_at is None
        container = {"image": ENGINE, "port": {"name": "http", "containerPort": 8000}}
        await api.patch("inferenceruntimes", f"{namespace}-mended", {"spec": {"container": container}})
        await model.until_condition("Degraded", "False", HEALED_SECONDS, reason="Healthy")
        await model.until_condition("Ready", "True", HEALED_SECONDS)
        await request.has_ended(HEALED_SECONDS)
    assert request.is_whole, request
    await events(api, namespace, "BackendRecovered")
    assert len(await events(api, namespace, "ImagePullFailed")) == 1


async def events(api: Api, namespace: str, reason: str) -> list[Object]:
    """The events of this reason about the model, once there is one."""

    async def claim() -> list[Object]:
        return [
            event
            for event in await api.list("events", namespace)
            if event["reason"] == reason and event["involvedObject"]["kind"] == "LLMService"
        ]

    return await until(claim, SHOWN_SECONDS, f"an event {reason} is told")

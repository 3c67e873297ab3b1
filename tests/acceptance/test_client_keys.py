"""Who may use a model, and how its keys are changed while it is used (E13)."""

import asyncio

import httpx2
import pytest

from tests.acceptance import engine
from tests.acceptance.api import Api
from tests.acceptance.client_keys import change, guarded_by, secret
from tests.acceptance.clients import Asked, ask
from tests.acceptance.conftest import Models
from tests.acceptance.fleet import Fleet
from tests.acceptance.models import Model
from tests.acceptance.waiting import until_equal

OLD, NEW = "key-of-yesterday", "key-of-tomorrow"
KNOWN_SECONDS = 30.0
WATCHED_SECONDS = 10.0
"""A labelled Secret is watched: seconds."""
READ_SECONDS = 30.0
"""An unlabelled one is read every 15 s while its model has traffic; the rest is for a slow machine."""
LOOK_SECONDS = 30.0


@pytest.mark.parametrize(
    ("is_labelled", "bound"),
    [(True, WATCHED_SECONDS), (False, READ_SECONDS)],
    ids=["labelled", "unlabelled"],
)
async def test_keys_open_a_model_and_are_changed_in_place(
    api: Api, models: Models, fleet: Fleet, namespace: str, is_labelled: bool, bound: float
) -> None:
    """E13: health is open, no key and a wrong one are 401, the right one is answered and never reaches the engine.

    A new key is valid and the old one is not soon after the Secret says so, and model and gateways are not touched for it. Both
    work while the Secret has both.
    """
    await api.create("secrets", secret("clients", OLD, is_labelled=is_labelled), namespace)
    model = await models("guarded", endpoint=guarded_by("clients"), scaling={"scaleDownStabilization": "5m"})
    async with httpx2.AsyncClient(trust_env=False, timeout=LOOK_SECONDS) as client:
        assert (await client.get(f"{fleet.url}/healthz")).status_code == 200
    await until_answers(fleet, model, {OLD: 200, NEW: 401, None: 401}, KNOWN_SECONDS)
    before = await identity(model, fleet)
    for key, code in ((None, "missing_api_key"), (NEW, "invalid_api_key")):
        for way in (by_path(model), {"host": model.host}):
            refusal = await ask(fleet.url, model.model, key=key, **way)
            assert (refusal.status, refusal.error_code) == (401, code), refusal
            assert refusal.headers["www-authenticate"] == 'Bearer realm="noctaya"'
    assert await model.replicas() == 0, "somebody without a key woke the model"

    answer = await ask(fleet.url, model.model, key=OLD)
    assert answer.is_whole, answer
    (pod,) = await model.until_ready(1)
    counts = await engine.stats(pod)
    assert (counts["completed"], counts["authorized"]) == (1, 0)

    await change(api, namespace, "clients", OLD, NEW)
    await until_answers(fleet, model, {OLD: 200, NEW: 200, None: 401}, bound)
    await change(api, namespace, "clients", NEW)
    await until_answers(fleet, model, {OLD: 401, NEW: 200, None: 401}, bound)
    refused = await ask(fleet.url, model.model, key=OLD, **by_path(model))
    assert refused.status == 401, refused
    answer = await ask(fleet.url, model.model, key=NEW, stream=False)
    assert answer.status == 200, answer
    assert (await engine.stats(pod))["authorized"] == 0
    assert await identity(model, fleet) == before


async def test_a_model_whose_keys_are_gone_lets_nobody_in(
    api: Api, models: Models, fleet: Fleet, namespace: str
) -> None:
    """E13's failure: without keys a gateway cannot tell friend from foe; it says 503 until there are keys again."""
    model = await models("orphaned", endpoint=guarded_by("clients"))
    await until_answers(fleet, model, {OLD: 503, None: 503}, KNOWN_SECONDS)
    await api.create("secrets", secret("clients", OLD, is_labelled=True), namespace)
    await until_answers(fleet, model, {OLD: 200, None: 401}, WATCHED_SECONDS)
    await api.delete("secrets", "clients", namespace)
    await until_answers(fleet, model, {OLD: 503, None: 503}, WATCHED_SECONDS)
    refusal = await ask(fleet.url, model.model, key=OLD, **by_path(model))
    assert (refusal.status, refusal.error_code) == (503, "authentication_unavailable"), refusal
    assert refusal.headers["retry-after"] == "10"
    assert await model.replicas() == 0


def by_path(model: Model) -> dict[str, str]:
    """A request that names its model by the path, so that a stranger is told what is missing instead of "no such model"."""
    return {"path": f"/{model.model}/v1/chat/completions"}


async def until_answers(fleet: Fleet, model: Model, wanted: dict[str | None, int], seconds: float) -> None:
    """Wait until every gateway answers every key with this status. Asks for the list of models, which wakes nothing."""
    gateways = await fleet.pods("gateway")

    async def status(url: str, key: str | None) -> int | None:
        answer: Asked = await ask(
            url, model.model, method="GET", path=f"/{model.model}/v1/models", key=key, seconds=LOOK_SECONDS
        )
        return answer.status

    async def look() -> list[dict[str | None, int | None]]:
        return [
            dict(zip(wanted, await asyncio.gather(*(status(pod.url, key) for key in wanted)), strict=True))
            for pod in gateways
        ]

    await until_equal(look, [wanted] * len(gateways), seconds, f"the keys of {model.model} are known")


async def identity(model: Model, fleet: Fleet) -> tuple[str, list[str]]:
    """What a rotation must not touch: the model is the same object, and the gateways the same pods."""
    uid: str = (await model.read())["metadata"]["uid"]
    return uid, [pod.name for pod in await fleet.pods("gateway")]

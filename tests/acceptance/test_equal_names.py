"""Two services of one name in two namespaces (issue 4): routes, keys, demand and ScaledObjects do not mix."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.acceptance.api import Api, Object
from tests.acceptance.client_keys import guarded_by, secret
from tests.acceptance.clients import Asked, ask, asked, played
from tests.acceptance.fleet import Fleet
from tests.acceptance.models import Model, runtime, service
from tests.acceptance.waiting import until_equal
from tests.cluster.cluster import Cluster
from tests.cluster.fixtures import own_namespace

NAME = "twin"
TOKENS = {"first": 3, "second": 5}
"""By its number of tokens an answer tells whose engine played it."""
GONE_SECONDS = 60.0
BEGUN_SECONDS = 120.0


@pytest.fixture
async def twins(
    cluster: Cluster, api: Api, fleet: Fleet, namespace: str
) -> AsyncIterator[tuple[Model, Model]]:
    """Two models called alike, each with a client key, a runtime and a namespace of its own."""
    with own_namespace(cluster) as other:
        twins = Model(api, namespace, NAME), Model(api, other, NAME)
        for model, (key, tokens) in zip(twins, TOKENS.items(), strict=True):
            on = f"{model.namespace}-{NAME}"
            await api.create("inferenceruntimes", runtime(on, tokens=tokens))
            await api.create("secrets", secret("keys", key, is_labelled=True), model.namespace)
            await api.create(
                "llmservices",
                service(NAME, model.namespace, on, endpoint=guarded_by("keys")),
                model.namespace,
            )
        await asyncio.gather(*(model.until_usable() for model in twins))
        yield twins
        for model in twins:
            await api.delete("inferenceruntimes", f"{model.namespace}-{NAME}")


async def test_services_of_one_name_in_two_namespaces_do_not_mix(
    api: Api, fleet: Fleet, twins: tuple[Model, Model]
) -> None:
    """Issue 4: by path, by host, by full and by short name each twin is woken, opened and answered for alone."""
    first, second = twins
    await asyncio.gather(*(model.until_asleep() for model in twins))

    async with asked(fleet.url, NAME, key="first") as request:
        await request.has_begun(BEGUN_SECONDS)
    assert_played_by(request, "first")
    assert await second.replicas() == 0, "the other twin's request woke this one"
    assert await second.pods() == []

    for name, way in (
        (first.model, {}),
        (NAME, {"host": first.host}),
        (NAME, {"path": f"/{first.model}/v1/chat/completions"}),
    ):
        stranger = await ask(fleet.url, name, key="second", **way)
        assert (stranger.status, stranger.error_code) == (401, "invalid_api_key"), stranger

    for key, model in (("first", first), ("second", second)):
        for answer in (
            await ask(fleet.url, NAME, key=key),
            await ask(fleet.url, model.model, key=key),
            await ask(fleet.url, NAME, key=key, host=model.host),
            await ask(fleet.url, NAME, key=key, path=f"/{model.model}/v1/chat/completions"),
        ):
            assert_played_by(answer, key)

    for model in twins:
        scaled = await model.scaled_object()
        assert scaled["spec"]["scaleTargetRef"]["name"] == NAME
        (owner,) = scaled["metadata"]["ownerReferences"]
        assert owner["uid"] == (await model.read())["metadata"]["uid"]
        (autoscaler,) = await autoscalers(api, model)
        assert autoscaler["spec"]["scaleTargetRef"]["name"] == NAME

    (pod,) = await second.until_ready(1)
    await api.delete("llmservices", NAME, first.namespace)

    async def left() -> list[Object]:
        return await first.pods() + await autoscalers(api, first)

    await until_equal(left, [], GONE_SECONDS, f"everything of {first.model} is gone")
    gone = await ask(fleet.url, NAME, key="first", path=f"/{first.model}/v1/chat/completions")
    assert gone.status == 404, gone
    assert_played_by(await ask(fleet.url, NAME, key="second"), "second")
    assert [kept["metadata"]["uid"] for kept in await second.ready_pods()] == [pod["metadata"]["uid"]]


def assert_played_by(answer: Asked, key: str) -> None:
    """The engine of the model that this key opens has answered, to the end."""
    assert answer.is_whole, answer
    assert answer.text == played(TOKENS[key])


async def autoscalers(api: Api, model: Model) -> list[Object]:
    """What KEDA made of its ScaledObject."""
    found = await api.list("horizontalpodautoscalers", model.namespace)
    return [autoscaler for autoscaler in found if autoscaler["spec"]["scaleTargetRef"]["name"] == model.name]

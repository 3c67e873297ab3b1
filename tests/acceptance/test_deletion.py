"""A model is deleted: everything that it became goes with it, and nothing else (issue 4)."""

from tests.acceptance.api import Api
from tests.acceptance.clients import ask, asked
from tests.acceptance.conftest import Models, Volumes
from tests.acceptance.fleet import Fleet
from tests.acceptance.volumes import CLASS
from tests.acceptance.waiting import until_equal

KINDS = (
    "deployments",
    "horizontalpodautoscalers",
    "jobs",
    "persistentvolumeclaims",
    "pods",
    "replicasets",
    "scaledobjects",
    "services",
)
"""Every kind of object that a model becomes, its children's children too."""
GONE_SECONDS = 120.0
HELD_SECONDS = 60.0
COUNTED_SECONDS = 10.0


async def test_a_deleted_model_takes_everything_of_it_along(
    api: Api, models: Models, fleet: Fleet, namespace: str, volume_for: Volumes
) -> None:
    """Its cache too, as the uninstall page warns; what a user made (a Secret, a claim, the runtime) stays.

    A model of the same name made afterwards is a new one, and works.
    """
    await volume_for("cached-cache")
    await api.create("persistentvolumeclaims", own_claim(), namespace)
    model = await models("cached", cache={"strategy": "NodeLocalPVC", "size": "1Gi"})
    answer = await ask(fleet.url, model.model)
    assert answer.is_whole, answer
    (pod,) = await model.until_ready(1)
    made = await names(api, namespace)
    assert made["persistentvolumeclaims"] == ["cached-cache", "own"]
    assert made["services"] == ["cached", "cached-backend"]
    for kind in ("deployments", "horizontalpodautoscalers", "replicasets", "scaledobjects"):
        assert len(made[kind]) == 1, made
    assert pod["metadata"]["name"] in made["pods"]

    await api.delete("llmservices", model.name, namespace)

    async def left() -> dict[str, list[str]]:
        return {kind: found for kind, found in (await names(api, namespace)).items() if found}

    await until_equal(
        left, {"persistentvolumeclaims": ["own"]}, GONE_SECONDS, "only the user's claim is left"
    )
    assert await api.find("inferenceruntimes", f"{namespace}-cached") is not None
    gone = await ask(fleet.url, model.model, path=f"/{model.model}/v1/chat/completions")
    assert (gone.status, gone.error_code) == (404, "model_not_found"), gone

    again = await models("cached", on=f"{namespace}-cached")
    answer = await ask(fleet.url, again.model)
    assert answer.is_whole, answer


async def test_a_request_that_waits_for_a_deleted_model_is_told_so(
    api: Api, models: Models, fleet: Fleet, namespace: str
) -> None:
    """Nobody waits in vain: a held request ends as soon as its model is gone."""
    model = await models("vanishing", engine={"resource": "noctaya.test/no-such-device"})
    await model.until_asleep()
    async with asked(fleet.url, model.model, stream=False) as request:
        await model.until_replicas(1, HELD_SECONDS)
        await api.delete("llmservices", model.name, namespace)
        await request.has_ended(HELD_SECONDS)
    assert (request.status, request.error_code) == (503, "model_removed"), request


async def names(api: Api, namespace: str) -> dict[str, list[str]]:
    """The names of all objects in a namespace, by kind; without those of Kubernetes itself."""
    return {
        kind: sorted(found["metadata"]["name"] for found in await api.list(kind, namespace)) for kind in KINDS
    }


def own_claim() -> dict[str, object]:
    """A claim that a user made; nothing binds it, since no pod uses it."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "own"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": CLASS,
            "resources": {"requests": {"storage": "1Gi"}},
        },
    }

"""A model that nobody has asked for yet (E1, E2): what it costs, and how KEDA is told about it."""

from tests.acceptance.api import Api
from tests.acceptance.clients import ask
from tests.acceptance.conftest import Models
from tests.acceptance.fleet import NAMESPACE, SIZE, Fleet
from tests.acceptance.waiting import until, until_equal

SCALER = "noctaya-scaler.noctaya-system.svc:9090"
SLEEP_SECONDS = 120.0
TOLD_SECONDS = 60.0


async def test_a_model_that_nobody_asks_for_costs_no_pod(models: Models, fleet: Fleet, api: Api) -> None:
    """E1: no replica and no pod of its own; the fleet that waits for its requests is there once for all models."""
    model = await models("idle")
    await model.until_asleep(SLEEP_SECONDS)
    await fleet.until_whole(SLEEP_SECONDS)
    assert await api.list("pods", model.namespace) == []
    # Asking what there is wakes nobody.
    listed = await ask(fleet.url, "", method="GET", path=f"/{model.model}/v1/models")
    assert listed.status == 200, listed
    assert [entry["id"] for entry in listed.json()["data"]] == [model.model]
    assert await model.replicas() == 0


async def test_keda_is_told_of_a_model_by_push_through_one_address_for_all(
    models: Models, fleet: Fleet, api: Api
) -> None:
    """E2: the trigger is as KEDA wants it, its address leads to the workers, and KEDA holds a stream for each model."""
    model = await models("told", scaling={"target": 3})

    async def kind() -> str:
        return str((await model.trigger()).get("type", ""))

    await until_equal(kind, "external-push", TOLD_SECONDS, f"{model.model} has a push trigger")
    trigger = (await model.trigger())["metadata"]
    assert (trigger["scalerAddress"], trigger["metricName"], trigger["targetValue"]) == (
        SCALER,
        "pending",
        "3",
    )
    name, namespace, *_ = SCALER.split(".")
    scaler = await api.get("services", name, namespace)
    for worker in await fleet.objects("worker"):
        assert scaler["spec"]["selector"].items() <= worker["metadata"]["labels"].items()
    assert scaler["spec"]["clusterIP"] == "None", "KEDA must see each worker, not one address for all"

    async def has_all_streams() -> bool:
        """A stream for every ScaledObject there is; those of other tests may be on their way out."""
        streams = await fleet.total("worker", "noctaya_gateway_scaler_streams")
        return streams == len(await api.list("scaledobjects"))

    await until(has_all_streams, TOLD_SECONDS, "KEDA holds one stream for each model")
    for pod in await fleet.until_pods("worker"):
        await fleet.until_metric(pod, "noctaya_scaler_gateway_members", SIZE["gateway"], TOLD_SECONDS)
    assert namespace == NAMESPACE

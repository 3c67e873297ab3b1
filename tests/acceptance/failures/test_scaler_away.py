"""No worker is there when KEDA first looks at a ScaledObject, and when KEDA starts: its HPAs are right soon after one is back."""

import asyncio
import json
from functools import partial

import pytest

from tests.acceptance.api import Api, Object
from tests.acceptance.failures.faults import kill_pod, operator_pod
from tests.acceptance.failures.scene import LONG, SETTLE_SECONDS, scene
from tests.acceptance.fleet import NAMESPACE, SIZE, Fleet
from tests.acceptance.models import Model, condition_of
from tests.acceptance.waiting import until, until_equal
from tests.cluster.cluster import Cluster
from tests.cluster.keda_release import NAMESPACE as KEDA

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

RIGHT_SECONDS = 60.0
"""Issue 4: the HPA is right so soon after the scaler is back."""


async def test_an_hpa_is_right_within_a_minute_of_the_scalers_return(
    cluster: Cluster, api: Api, fleet: Fleet, namespace: str
) -> None:
    """One ScaledObject is made while there is no worker, just as the worker writes it; another one was there before. KEDA is
    restarted meanwhile, so that it has built nothing for either."""
    async with scene(cluster, api, fleet, namespace) as stage:
        made, known = await stage.add("made", "known", on="away", gentle=True)
        await stage.background(made, known, cooldown=LONG)
        written = as_new(await made.scaled_object())

        stage.mark("the workers are taken away")
        await _scale_workers(api, 0)
        await until_equal(lambda: fleet.objects("worker"), [], SETTLE_SECONDS, "there is no worker")
        await api.delete("scaledobjects", made.name, namespace)
        await until(lambda: _is_gone(made), SETTLE_SECONDS, "KEDA has let go of the ScaledObject")
        await api.create("scaledobjects", written, namespace)
        operator = await operator_pod(api)
        await kill_pod(api, operator["metadata"]["name"], KEDA)
        held = [stage.ask(made), stage.ask(known)]
        await until(
            lambda: _is_refused(made), SETTLE_SECONDS, "KEDA has tried to build the ScaledObject in vain"
        )
        assert await _metrics(made) == []

        await _scale_workers(api, SIZE["worker"])
        await until(partial(fleet.pods, "worker"), SETTLE_SECONDS, "a worker is ready")
        back = stage.mark("a worker is back")
        for model in (made, known):
            await until_equal(
                partial(_metrics, model), ["External"], RIGHT_SECONDS, f"the HPA of {model.model} is right"
            )
        stage.cost(
            "Scaler away when a ScaledObject is made: its HPA is right after",
            stage.mark("HPAs are right") - back,
        )
        await stage.until_answered(*held)
        stage.cost(
            "Scaler away when a ScaledObject is made: a held request is answered after",
            max(request.first_byte - back for request in held if request.first_byte is not None),
        )
        await asyncio.gather(made.until_asleep(SETTLE_SECONDS), known.until_asleep(SETTLE_SECONDS))
        await fleet.until_whole(SETTLE_SECONDS)


def as_new(entry: Object) -> Object:
    """An object as its writer would apply it again: its owner and labels, nothing of the server's or of KEDA's."""
    kept = ("name", "namespace", "labels", "annotations", "ownerReferences")
    fresh: Object = json.loads(json.dumps(entry))
    fresh.pop("status", None)
    fresh["metadata"] = {key: fresh["metadata"][key] for key in kept if key in fresh["metadata"]}
    return fresh


async def _scale_workers(api: Api, count: int) -> None:
    await api.patch("deployments", "noctaya-worker", {"spec": {"replicas": count}}, NAMESPACE)


async def _is_gone(model: Model) -> bool:
    return await model.api.find("scaledobjects", model.name, model.namespace) is None


async def _is_refused(model: Model) -> bool:
    return condition_of(await model.scaled_object(), "Ready").get("status") == "False"


async def _metrics(model: Model) -> list[str]:
    """The kinds of metric of the model's HPA; none while there is no HPA."""
    found = await model.api.find("horizontalpodautoscalers", f"keda-hpa-{model.name}", model.namespace)
    return [] if found is None else [metric["type"] for metric in found["spec"].get("metrics", [])]

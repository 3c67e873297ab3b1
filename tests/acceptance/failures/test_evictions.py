"""Every pod is evicted, one after the other, as when a node is drained: models, gateways, workers, KEDA, DNS."""

from functools import partial

import pytest

from tests.acceptance.api import Api, Object, Refused
from tests.acceptance.failures.scene import SETTLE_SECONDS, scene
from tests.acceptance.fleet import NAMESPACE, Fleet
from tests.acceptance.models import is_ready
from tests.acceptance.waiting import until
from tests.cluster.cluster import Cluster
from tests.cluster.keda_release import NAMESPACE as KEDA

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

TOO_MANY = 429


async def test_evicting_every_pod_one_after_the_other_loses_no_request(
    cluster: Cluster, api: Api, fleet: Fleet, namespace: str
) -> None:
    async with scene(cluster, api, fleet, namespace) as stage:
        (sleeper,) = await stage.add("sleeper", gentle=True)
        await stage.background(sleeper)
        await sleeper.until_asleep(SETTLE_SECONDS)
        began = stage.mark("evictions begin")
        evicted = 0
        for where in (namespace, NAMESPACE, KEDA, "kube-system"):
            for pod in await api.list("pods", where):
                if "deletionTimestamp" in pod["metadata"]:
                    continue
                name = pod["metadata"]["name"]
                await until(partial(_evict, api, name, where), SETTLE_SECONDS, f"{name} is evicted")
                stage.mark(f"evicted: {where}/{name}")
                evicted += 1
        assert evicted >= 10, "a model, two gateways, three workers, KEDA's three and DNS"
        request = stage.ask(sleeper)
        await stage.until_answered(request)
        assert request.first_byte is not None, request
        stage.cost("Every pod evicted: a wake right after is answered after", request.waited())
        await fleet.until_whole(SETTLE_SECONDS)
        for where in (NAMESPACE, KEDA, "kube-system"):
            await until(partial(_all_serve, api, where), SETTLE_SECONDS, f"all of {where} serves again")
        stage.cost("Every pod evicted: until all serve again", stage.mark("all serve again") - began)


async def _evict(api: Api, name: str, namespace: str) -> bool:
    try:
        await api.evict(name, namespace)
    except Refused as refused:
        if refused.status == TOO_MANY:  # its disruption budget asks to wait
            return False
        if refused.status != 404:
            raise
    return True


async def _all_serve(api: Api, namespace: str) -> bool:
    pods: list[Object] = await api.list("pods", namespace)
    return bool(pods) and all(is_ready(pod) for pod in pods)

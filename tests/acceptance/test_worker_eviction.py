"""A worker is evicted, as `kubectl drain` does it (issue 4): the others have its shards in seconds, and nobody waits for a successor."""

import time
from functools import partial

import pytest

from noctaya.leader.lease_names import member_lease
from tests.acceptance import engine
from tests.acceptance.api import Api, Refused
from tests.acceptance.clients import asked
from tests.acceptance.conftest import Models
from tests.acceptance.fleet import NAMESPACE, Fleet
from tests.acceptance.test_fleet_disruption import has_replicas, tell
from tests.acceptance.vacancy import vacancy
from tests.acceptance.waiting import holds_for, until, until_equal

BEGUN_SECONDS = 120.0
BUDGET_SECONDS = 60.0
HANDED_SECONDS = 60.0
"""What a pod is given to end; it hands over before."""
GONE_SECONDS = 120.0
ANSWERED_SECONDS = 120.0
CALM_SECONDS = 20.0
"""Two cool-downs and some of KEDA's polls: whoever has been told that nobody asks would sleep by then."""


@pytest.mark.timeout(600)
async def test_an_evicted_worker_hands_over_and_a_request_of_that_time_waits_for_no_successor(
    api: Api, models: Models, fleet: Fleet, namespace: str
) -> None:
    """E3, when it is told before: both models are the evicted leader's, and nobody comes in its place. The budget lets no second worker go meanwhile."""
    old = await fleet.leader()
    warm = await models(await fleet.name_with(old, namespace, "warm"), engine={"delay": "100ms"})
    cold = await models(await fleet.name_with(old, namespace, "cold"))
    await cold.until_asleep()

    async def allowed() -> int:
        budget = await api.get("poddisruptionbudgets", "noctaya-worker", NAMESPACE)
        return int(budget["status"]["disruptionsAllowed"])

    await until_equal(allowed, 1, BUDGET_SECONDS, "a worker may be disrupted")
    async with vacancy(api, "worker"):
        async with asked(fleet.url, warm.model, tokens=engine.ENDLESS) as stream:
            await stream.has_begun(BEGUN_SECONDS)
            (pod,) = await warm.until_ready(1)
            assert {await fleet.owner(warm.model), await fleet.owner(cold.model)} == {old}
            await api.evict(old, NAMESPACE)
            evicted = time.monotonic()
            left = sorted({pod.name for pod in await fleet.pods("worker")} - {old})
            async with asked(fleet.url, cold.model) as held:
                await until_equal(allowed, 0, BUDGET_SECONDS, "no second worker may be disrupted")
                with pytest.raises(Refused, match="disruption budget") as refused:
                    await api.evict(left[0], NAMESPACE)
                assert refused.value.status == 429
                await held.has_ended(ANSWERED_SECONDS)
            assert held.is_whole, held
            assert held.first_frame_at is not None
            tell(
                "a worker is evicted: a cold request of that moment is answered after",
                held.first_frame_at - evicted,
            )
            await fleet.until_owned(by=left, seconds=HANDED_SECONDS)
            tell("a worker is evicted: its shards have other owners after", time.monotonic() - evicted)
            await until(partial(is_gone, api, old), GONE_SECONDS, f"{old} and its Lease are gone")
            tell("a worker is evicted: it is gone after", time.monotonic() - evicted)
            assert await fleet.leader() in left
            await holds_for(partial(has_replicas, warm, 1), CALM_SECONDS, f"{warm.model} is kept awake")
            assert [pod.name for pod in await fleet.pods("worker")] == left
            assert stream.ended_at is None
            await engine.finish(pod)
        assert stream.is_whole, stream
    await fleet.until_whole()


async def is_gone(api: Api, worker: str) -> bool:
    """A worker's Lease goes with its pod."""
    return (
        await api.find("pods", worker, NAMESPACE) is None
        and await api.find("leases", member_lease(worker), NAMESPACE) is None
    )

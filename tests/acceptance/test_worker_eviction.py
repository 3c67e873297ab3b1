"""The worker is evicted, as `kubectl drain` does it (issue 4): answers go on, and a wake waits for its successor."""

from tests.acceptance import engine
from tests.acceptance.api import Api
from tests.acceptance.clients import asked
from tests.acceptance.conftest import Models
from tests.acceptance.fleet import NAMESPACE, Fleet
from tests.acceptance.waiting import until, until_equal

BEGUN_SECONDS = 120.0
BUDGET_SECONDS = 60.0
HANDED_SECONDS = 60.0
ANSWERED_SECONDS = 120.0


async def test_an_evicted_worker_hands_over_and_a_request_from_in_between_is_answered(
    api: Api, models: Models, fleet: Fleet
) -> None:
    """One worker must never block the drain of its node: its disruption budget lets it go."""
    # Longer than the scaler is away: KEDA may take one that it cannot reach for idle (kedacore/keda#7737), but only a model
    # that it has not seen in use for the whole cooldown is put to sleep for it.
    scaling = {"scaleDownStabilization": "5m"}
    warm, cold = await models("warm", engine={"delay": "100ms"}, scaling=scaling), await models("cold")
    await cold.until_asleep()

    async def allowed() -> int:
        budget = await api.get("poddisruptionbudgets", "noctaya-worker", NAMESPACE)
        return int(budget["status"]["disruptionsAllowed"])

    await until_equal(allowed, 1, BUDGET_SECONDS, "the worker may be disrupted")
    (old,) = await fleet.pods("worker")
    async with asked(fleet.url, warm.model, tokens=engine.ENDLESS) as stream:
        await stream.has_begun(BEGUN_SECONDS)
        (pod,) = await warm.until_ready(1)
        await api.evict(old.name, NAMESPACE)

        async def is_handed_over() -> bool:
            return await fleet.leader() != old.name

        await until(is_handed_over, HANDED_SECONDS, f"{old.name} has let the Lease go")
        async with asked(fleet.url, cold.model) as held:
            await held.has_ended(ANSWERED_SECONDS)
        assert held.is_whole, held
        (successor,) = await fleet.until_pods("worker", 1)
        assert await fleet.leader() == successor.name != old.name
        assert stream.ended_at is None
        await engine.finish(pod)
    assert stream.is_whole, stream

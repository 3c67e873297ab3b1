"""The list of models: cold ones too, with their state, only what the caller may use; it never wakes one."""

import aiohttp
import openai
import pytest

from tests.gateway.fake_worker import fake_worker
from tests.gateway.running import gateway
from tests.gateway.services import KEY, endpoint, message
from tests.gateway.test_keys import RIGHT


async def test_every_model_is_listed_with_its_state_and_none_is_woken() -> None:
    async with fake_worker() as worker:
        worker.serve(
            message("ai/asleep"),
            message("ai/waking", endpoints=[endpoint(9, pod="a", ready=False)]),
            message("ai/ready", endpoints=[endpoint(9, pod="b")], created_at=1_700_000_000),
            message("ai/broken", problem="ImagePullFailed"),
        )
        async with gateway(worker.address) as running, running.openai() as client:
            listed = {model.id: model async for model in client.models.list()}
            states = {key: getattr(model, "state", None) for key, model in listed.items()}
            assert states == {
                "ai/asleep": "asleep",
                "ai/waking": "waking",
                "ai/ready": "ready",
                "ai/broken": "failed",
            }
            assert listed["ai/ready"].created == 1_700_000_000
            assert worker.wakes == []
            assert worker.reports == [] or not worker.is_wanted("ai/asleep")


async def test_a_caller_sees_only_what_its_key_may_use() -> None:
    async with fake_worker(open_namespaces=("public",)) as worker:
        keys = [{"hmac_sha256": RIGHT}]
        worker.serve(
            message("ai/mine", auth_required=True, keys=keys),
            message("ai/others", auth_required=True, keys=[{"hmac_sha256": b"x" * 32}]),
            message("public/free"),
            message("closed/keyless"),
        )
        async with gateway(worker.address) as running:
            async with running.openai(key="sk-right") as client:
                assert [model.id async for model in client.models.list()] == ["ai/mine", "public/free"]
                assert (await client.models.retrieve("mine")).id == "ai/mine"
                with pytest.raises(openai.NotFoundError):
                    await client.models.retrieve("others")
            async with running.openai(key="sk-stranger") as client:
                assert [model.id async for model in client.models.list()] == ["public/free"]


@pytest.mark.parametrize("path", ["/v1/models/ai/tiny", "/v1/models/ai%2Ftiny", "/ai/tiny/v1/models/tiny"])
async def test_one_model_is_found_by_key_and_by_name(path: str) -> None:
    async with fake_worker() as worker:
        worker.serve(message(), message("ai/other"))
        async with gateway(worker.address) as running, aiohttp.ClientSession() as session:
            async with session.get(running.url + path) as response:
                assert response.status == 200
                assert (await response.json())["id"] == KEY


async def test_a_service_path_lists_that_service_alone() -> None:
    async with fake_worker() as worker:
        worker.serve(message(), message("ai/other"))
        async with gateway(worker.address) as running, running.openai("/ai/tiny/v1") as client:
            assert [model.id async for model in client.models.list()] == [KEY]

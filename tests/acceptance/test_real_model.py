"""A real engine with a real model behind a cold request: SmolLM2 on llama.cpp, in a container, asked by the real SDK."""

import pytest

from tests.acceptance.api import Object
from tests.acceptance.clients import openai_client
from tests.acceptance.conftest import Models
from tests.acceptance.fleet import Fleet
from tests.cluster.cluster import Cluster
from tests.cluster.product_image import model_image

IMAGE = "noctaya/llamacpp:acceptance"
ANSWER_SECONDS = 240.0


def llamacpp(namespace: str, name: str) -> Object:
    """What the runtime says instead of the scripted engine's; the weights are in the image."""
    arguments = [
        "--port=8000",
        f"--alias={namespace}/{name}",
        "--ctx-size=1024",
        "--parallel=1",
        "--threads=2",
    ]
    container = {
        "image": IMAGE,
        "args": arguments,
        "port": {"name": "http", "containerPort": 8000},
    }
    return {
        "family": "llamacpp",
        "vendor": "cpu",
        "accelerator": {"resourceName": "cpu"},
        "container": container,
    }


@pytest.mark.model
async def test_a_cold_request_through_the_openai_sdk_gets_a_real_models_answer(
    cluster: Cluster, models: Models, fleet: Fleet, namespace: str
) -> None:
    """The README's promise with nothing scripted: the request that wakes SmolLM2 is answered by it."""
    cluster.load(model_image(IMAGE))
    model = await models(
        "smollm2", engine=llamacpp(namespace, "smollm2"), scaling={"activationTimeout": "4m"}
    )
    await model.until_asleep()
    async with openai_client(fleet.url, seconds=ANSWER_SECONDS) as client:
        answer = await client.chat.completions.create(
            model=model.model,
            messages=[{"role": "user", "content": "What is the capital of France? Answer in one sentence."}],
            max_tokens=24,
            temperature=0,
        )
    (choice,) = answer.choices
    assert "Paris" in (choice.message.content or "")
    assert answer.model == model.model
    assert answer.usage is not None
    assert answer.usage.completion_tokens > 1

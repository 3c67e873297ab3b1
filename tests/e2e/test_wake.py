"""The main path on real parts: the real `openai` client, a real model, every role a real process."""

from concurrent.futures import ThreadPoolExecutor

import openai
import pytest

from tests.e2e.cluster import EmbeddedCluster

MODEL = "ai/smollm2"
SELECTOR = "serving.noctaya.io/llmservice=smollm2"


def ask(client: openai.OpenAI, *, stream: bool = False) -> str:
    messages: list[openai.types.chat.ChatCompletionMessageParam] = [{"role": "user", "content": "Say hello."}]
    if not stream:
        answer = client.chat.completions.create(model=MODEL, messages=messages, max_tokens=8)
        return answer.choices[0].message.content or ""
    chunks = client.chat.completions.create(model=MODEL, messages=messages, max_tokens=8, stream=True)
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


@pytest.mark.model
@pytest.mark.parametrize("stream", [True, False], ids=["streaming", "not streaming"])
def test_the_first_request_to_a_sleeping_model_gets_a_real_completion(
    cluster: EmbeddedCluster, stream: bool
) -> None:
    cluster.wait_asleep("smollm2")
    with cluster.openai() as client:
        assert ask(client, stream=stream).strip()
    assert cluster.phase("smollm2") == "Ready"


@pytest.mark.model
def test_twenty_first_requests_at_once_get_twenty_answers_from_one_start(cluster: EmbeddedCluster) -> None:
    cluster.wait_asleep("smollm2")
    started = cluster.kubectl(
        "get",
        "events",
        "-n",
        "ai",
        "--field-selector",
        "reason=Started",
        "-o",
        "jsonpath={.items[*].metadata.uid}",
    ).stdout.split()
    with cluster.openai() as client, ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda _: ask(client), range(20)))
    assert all(answer.strip() for answer in answers), answers
    assert len(cluster.items("pods", "ai", SELECTOR)) == 1
    after = cluster.kubectl(
        "get",
        "events",
        "-n",
        "ai",
        "--field-selector",
        "reason=Started",
        "-o",
        "jsonpath={.items[*].metadata.uid}",
    ).stdout.split()
    assert len(set(after) - set(started)) == 1


@pytest.mark.model
def test_the_model_sleeps_and_wakes_ten_times_in_a_row_without_a_lost_request(
    cluster: EmbeddedCluster,
) -> None:
    with cluster.openai() as client:
        for turn in range(10):
            cluster.wait_asleep("smollm2")
            assert ask(client, stream=turn % 2 == 0).strip(), f"turn {turn}"


def test_models_are_listed_asleep_and_listing_wakes_none(cluster: EmbeddedCluster) -> None:
    cluster.wait_asleep("smollm2")
    with cluster.openai() as client:
        assert MODEL in [model.id for model in client.models.list()]
        assert client.models.retrieve(MODEL).id == MODEL
    assert cluster.get("deployments", "smollm2")["spec"]["replicas"] == 0

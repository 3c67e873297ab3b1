"""What a user notices when a part dies: nothing, or a bounded wait."""

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx2
import openai
import pytest

from tests.e2e.cluster import EmbeddedCluster
from tests.e2e.scripted import manifest, scripted_runtime, scripted_service

ANSWERED_WITHIN_SECONDS = 15.0
"""After the worker is back."""
RESTART_SECONDS = 10.0


@pytest.fixture
def slow_model(cluster: EmbeddedCluster) -> Iterator[str]:
    """A model that needs a second to load."""
    cluster.kubectl(
        "apply", "-f", "-",
        stdin=manifest(scripted_runtime("slow", startup="1s", tokens=20, delay="50ms"), scripted_service("slow", "slow")),
    )  # fmt: skip
    cluster.wait_asleep("slow")
    yield "ai/slow"
    cluster.kubectl("delete", "llmservice", "slow", "-n", "ai")
    cluster.kubectl("delete", "inferenceruntime", "slow")


def ask(client: openai.OpenAI, model: str) -> str:
    answer = client.chat.completions.create(
        model=model, messages=[{"role": "user", "content": "hi"}], max_tokens=20
    )
    return answer.choices[0].message.content or ""


def test_requests_held_while_the_worker_is_killed_are_answered_once_it_is_back(
    cluster: EmbeddedCluster, slow_model: str
) -> None:
    with cluster.openai() as client, ThreadPoolExecutor(4) as pool:
        (worker,) = cluster.role_processes("worker")
        held = [pool.submit(ask, client, slow_model) for _ in range(4)]
        os.kill(worker, signal.SIGKILL)
        cluster.wait(
            lambda: [pid for pid in cluster.role_processes("worker") if pid != worker] != [], RESTART_SECONDS
        )
        back = time.monotonic()
        assert all(answer.result().strip() for answer in held)
        assert time.monotonic() - back <= ANSWERED_WITHIN_SECONDS


def test_a_request_that_comes_while_there_is_no_worker_is_answered_once_one_is_back(
    cluster: EmbeddedCluster, slow_model: str
) -> None:
    """The node waits 10 s before this second restart, and KEDA's gRPC client then dials ever more rarely (up to 1.6 times the
    outage): how soon the answer comes is KEDA's back-off, so only that it comes is claimed."""
    (worker,) = cluster.role_processes("worker")
    os.kill(worker, signal.SIGSTOP)
    with cluster.openai() as client, ThreadPoolExecutor(1) as pool:
        held = pool.submit(ask, client, slow_model)
        time.sleep(1.0)  # the request is held: nobody can act on it
        os.kill(worker, signal.SIGKILL)
        assert held.result().strip()


def test_clients_of_one_gateway_notice_nothing_when_the_other_is_killed(
    cluster: EmbeddedCluster, slow_model: str
) -> None:
    survivor, other = cluster.gateway_addresses()
    pids = {
        address: pid
        for pid in cluster.role_processes("gateway")
        for address in (survivor, other)
        if f"NOCTAYA_HTTP__HOST={address}" in environment(pid)
    }
    with cluster.openai(f"http://{survivor}:8080/v1") as client:
        chunks = client.chat.completions.create(
            model=slow_model, messages=[{"role": "user", "content": "hi"}], stream=True, max_tokens=20
        )
        os.kill(pids[other], signal.SIGKILL)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices).strip()
        for _ in range(5):
            assert ask(client, slow_model).strip()
    cluster.wait(lambda: len(cluster.gateway_addresses()) == 2, 30)


def test_a_client_that_leaves_frees_its_place_at_once_and_its_demand_ends_two_seconds_later(
    cluster: EmbeddedCluster,
) -> None:
    cluster.kubectl(
        "apply", "-f", "-",
        stdin=manifest(
            scripted_runtime("nowhere", resource="nvidia.com/gpu"),
            scripted_service("nowhere", "nowhere", endpoint={"maxQueue": 1}),
        ),
    )  # fmt: skip
    cluster.wait_asleep("nowhere")
    (gateway, *_) = cluster.gateway_addresses()
    base = f"http://{gateway}:8080/v1"
    with cluster.openai(base) as client:
        with pytest.raises(openai.APITimeoutError):
            client.with_options(timeout=1.5).chat.completions.create(
                model="ai/nowhere", messages=[{"role": "user", "content": "hi"}]
            )
        left = time.monotonic()
        with pytest.raises(openai.APITimeoutError):  # the place is free: with maxQueue 1 this would be 429
            client.with_options(timeout=0.5).chat.completions.create(
                model="ai/nowhere", messages=[{"role": "user", "content": "hi"}]
            )
    assert demand(cluster, "ai/nowhere") == 1
    cluster.wait(lambda: demand(cluster, "ai/nowhere") == 0, 6)
    assert time.monotonic() - left >= 2.0
    cluster.kubectl("delete", "llmservice", "nowhere", "-n", "ai")
    cluster.kubectl("delete", "inferenceruntime", "nowhere")


def demand(cluster: EmbeddedCluster, model: str) -> int:
    """What the worker tells KEDA of `model`."""
    (pod,) = cluster.items("pods", "noctaya-system", "app.kubernetes.io/component=worker")
    services: dict[str, Any] = httpx2.get(
        f"http://{pod['status']['podIP']}:8081/debug/demand", timeout=5
    ).json()
    return int(services["services"].get(model, 0))


def environment(pid: int) -> list[str]:
    with open(f"/proc/{pid}/environ", "rb") as variables:
        return variables.read().decode(errors="replace").split("\0")

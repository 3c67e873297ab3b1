"""The demo: one request to a sleeping model, the answer as it comes, where the time went, and back to sleep.

The request is sent by the real `openai` client. What the waterfall shows is observed from outside (the API server's watch)
and told by the roles themselves: the gateway in a response header, the worker on its admin port, the engine in its log.
"""

import asyncio
import contextlib
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import openai

from noctaya.kube import resources
from noctaya.kube.clock import boottime as now
from noctaya.local.cluster import LocalCluster
from noctaya.local.errors import AnswerMissing, NotReadyInTime
from noctaya.local.narrator import Narrator
from noctaya.local.system import ADMIN_PORT, SYSTEM_NAMESPACE
from noctaya.local.waterfall import Waterfall

NAMESPACE, NAME = "ai", "smollm2"
MODEL = f"{NAMESPACE}/{NAME}"
COLD_START_HEADER, TRACE_HEADER = "x-noctaya-cold-start", "x-noctaya-trace"
POLL_SECONDS = 0.1
SLEEP_TIMEOUT_SECONDS = 90.0
FIRST_SLEEP_TIMEOUT_SECONDS = 60.0
ANSWER_TIMEOUT_SECONDS = 120.0
MODEL_LOADED = re.compile(r"seconds_since_start=(?P<seconds>[0-9.]+)")


@dataclass(slots=True)
class Observed:
    """Moments of one cold start, step → seconds on CLOCK_BOOTTIME, and the model's own load time."""

    moments: dict[str, float] = field(default_factory=dict)
    model_seconds: float | None = None


async def show(cluster: LocalCluster, narrator: Narrator, *, prompt: str, as_json: bool) -> Waterfall:
    """Run the demo on `cluster`, whose example objects were applied.

    Raises:
        NotReadyInTime: the model does not go to sleep.
        AnswerMissing: the request failed.
    """
    with narrator.step(f"waiting for {MODEL} to sleep", f"{MODEL} sleeps: ScaledToZero, no process"):
        await wait_for_phase(cluster, "ScaledToZero", FIRST_SLEEP_TIMEOUT_SECONDS)
    narrator.line(f"\nYou: {prompt}")
    observed = await ask(cluster, prompt, narrator.piece)
    await tell_from_roles(cluster, observed)
    waterfall = Waterfall.of(observed.moments, observed.model_seconds)
    narrator.line("\n\nWhere the time of the cold start went:")
    for line in waterfall.lines():
        narrator.line(line)
    narrator.line()
    with narrator.step(f"{MODEL} is idle; it sleeps after its cooldown", f"{MODEL} sleeps again"):
        await wait_for_phase(cluster, "ScaledToZero", SLEEP_TIMEOUT_SECONDS)
    if as_json:
        narrator.line(json.dumps(waterfall.as_json()))
    return waterfall


async def ask(cluster: LocalCluster, prompt: str, on_text: Callable[[str], None]) -> Observed:
    """Send one streaming chat request to the model and hand every piece of its answer to `on_text`.

    Raises:
        AnswerMissing: the gateway answered with an error, or no token came.
    """
    observed, pieces = Observed(), 0
    on_text("Model: ")
    async with (
        watching(cluster, observed),
        openai.AsyncOpenAI(
            base_url=f"{cluster.gateway_url}/v1",
            api_key="unused",
            max_retries=0,
            timeout=ANSWER_TIMEOUT_SECONDS,
        ) as client,
    ):
        observed.moments["arrival"] = now()
        try:
            raw = await client.chat.completions.with_raw_response.create(
                model=MODEL,
                messages=[{"role": "user", "content": prompt}],
                stream=True,
                max_tokens=48,
                temperature=0,
                extra_headers={TRACE_HEADER: "1"},
            )
            told = raw.headers.get(COLD_START_HEADER)
            async for chunk in raw.parse():
                observed.moments.setdefault("first byte", now())
                text = chunk.choices[0].delta.content if chunk.choices else None
                if text:
                    pieces += 1
                    on_text(text)
        except openai.OpenAIError as error:
            raise AnswerMissing(f"{MODEL} did not answer: {error}") from error
    if not pieces:
        raise AnswerMissing(
            f"{MODEL} answered without a single token; look at `kubectl logs -n {NAMESPACE} deploy/{NAME}`"
        )
    if told is not None:
        observed.moments |= from_gateway(json.loads(told))
    return observed


def from_gateway(told: Mapping[str, float]) -> dict[str, float]:
    """The gateway's offsets (milliseconds after `clock`) as moments under the waterfall's names."""
    names = {"arrival": "arrival", "wake_ack": "demand", "probe": "ready", "forwarded": "forwarded"}
    return {ours: told["clock"] + told[theirs] / 1000 for theirs, ours in names.items() if theirs in told}


@contextlib.asynccontextmanager
async def watching(cluster: LocalCluster, observed: Observed) -> AsyncIterator[None]:
    """Note when KEDA sets the replicas and when the engine's process has started, while the body runs."""

    async def replicas() -> None:
        while True:
            found = await cluster.client.get(resources.DEPLOYMENTS, NAMESPACE, NAME)
            if found["spec"].get("replicas", 0) > 0:
                observed.moments.setdefault("replicas", now())
                return
            await asyncio.sleep(0.005)

    async def process() -> None:
        while True:
            for pod in await pods(cluster):
                statuses = pod.get("status", {}).get("containerStatuses") or ()
                if any("running" in status.get("state", {}) for status in statuses):
                    observed.moments.setdefault("process", now())
                    return
            await asyncio.sleep(0.01)

    tasks = [asyncio.create_task(replicas()), asyncio.create_task(process())]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def tell_from_roles(cluster: LocalCluster, observed: Observed) -> None:
    """Add what the worker (demand, push) and the engine (its load time) say of themselves."""
    for pod in await pods(cluster):
        log = await cluster.client.raw(
            "GET",
            f"/api/v1/namespaces/{NAMESPACE}/pods/{pod['metadata']['name']}/log",
            query={"container": "serving"},
        )
        if match := MODEL_LOADED.search(log.decode(errors="replace")):
            observed.model_seconds = float(match["seconds"])
    found = await cluster.client.list(
        resources.PODS, SYSTEM_NAMESPACE, label_selector="app.kubernetes.io/component=worker"
    )
    async with aiohttp.ClientSession(trust_env=False, timeout=aiohttp.ClientTimeout(total=5)) as session:
        for pod in found.items:
            async with session.get(f"http://{pod['status']['podIP']}:{ADMIN_PORT}/debug/wakes") as response:
                wakes: dict[str, Any] = await response.json() if response.ok else {}
            wake = wakes.get(MODEL)
            if wake is not None:
                observed.moments |= {"demand": wake["demandAt"]} | (
                    {"push": wake["pushAt"]} if wake.get("pushAt") else {}
                )


async def pods(cluster: LocalCluster) -> list[dict[str, Any]]:
    """The model's pods."""
    found = await cluster.client.list(
        resources.PODS, NAMESPACE, label_selector=f"serving.noctaya.io/llmservice={NAME}"
    )
    return found.items


async def wait_for_phase(cluster: LocalCluster, phase: str, timeout_seconds: float) -> None:
    """Return when the LLMService is in `phase` and, asleep, has no pod left.

    Raises:
        NotReadyInTime: it is not, after `timeout_seconds`.
    """
    deadline = time.monotonic() + timeout_seconds
    found: dict[str, Any] = {}
    while time.monotonic() < deadline:
        found = await cluster.client.get(resources.LLMSERVICES, NAMESPACE, NAME)
        if found.get("status", {}).get("phase") == phase and not (
            phase == "ScaledToZero" and await pods(cluster)
        ):
            return
        await asyncio.sleep(POLL_SECONDS)
    status = found.get("status", {})
    ready: dict[str, Any] = next((one for one in status.get("conditions", ()) if one["type"] == "Ready"), {})
    seen = f"it is {status.get('phase', 'without a phase')}, not {phase}: {ready.get('message', 'no condition yet')}"
    raise NotReadyInTime(MODEL, timeout_seconds, seen)

"""How far one KEDA goes: N sleeping models on one scaler address, a real control plane and a real KEDA, no node.

    python -m bench.keda_models --models 500 [--keda-rate 200] [--wakes 20]

Needs Go once (`make cluster-up` builds the same programs) and no root. Printed is one row of a Markdown table: the time until
all models have a ScaledObject and until KEDA holds a stream for each, KEDA's idle load and the calls that it makes, the time
from the arrival of a cold request at the gateway to `spec.replicas=1` as a watch sees it, and the time until the last stream
is back after KEDA's operator was killed.
"""

import argparse
import asyncio
import contextlib
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import uvloop

from bench.outside import Roles, roles
from noctaya.api.names import LABEL_MANAGED_BY, MANAGED_BY
from noctaya.kube import Client, ClusterConfig, Store
from noctaya.kube import resources as kinds
from noctaya.kube.objects import Deployment
from tests.cluster import binaries
from tests.cluster.cluster import Cluster
from tests.cluster.keda import OPERATOR_ARGUMENTS
from tests.cluster.processes import ProcessId
from tests.cluster.progress import Progress

ROOT = Path(__file__).parents[1]
CREATED_AT_ONCE = 20
IDLE_SECONDS = 60.0
WAKE_SECONDS = 60.0
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
RUNTIME = {
    "apiVersion": "serving.noctaya.io/v1alpha1",
    "kind": "InferenceRuntime",
    "metadata": {"name": "never-started"},
    "spec": {
        "family": "vllm",
        "vendor": "cpu",
        "container": {"image": "images.noctaya.test/never-started:1"},
        "accelerator": {"resourceName": "cpu"},
    },
}


@dataclass(slots=True)
class Figures:
    """What one run measured. Times in seconds; None: not within the limit."""

    models: int
    rate: str
    created: float | None = None
    streams: float | None = None
    operator_cores: float = 0.0
    operator_mib: float = 0.0
    calls_per_second: dict[str, float] = field(default_factory=dict)
    wakes: list[float] = field(default_factory=list)
    streams_back: float | None = None

    def row(self) -> str:
        """A line of the table that `HEAD` begins."""
        ordered = sorted(self.wakes)
        wake = "none answered"
        if ordered:
            middle, high = (
                statistics.median(ordered),
                ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))],
            )
            wake = f"{middle * 1000:.0f} / {high * 1000:.0f} / {ordered[-1] * 1000:.0f} ms ({len(ordered)})"
        calls = " + ".join(f"{value:.0f} {method}" for method, value in self.calls_per_second.items())
        return (
            f"| {self.models:,} | {self.rate} | {_seconds(self.created)} | {_seconds(self.streams)} | "
            f"{self.operator_cores:.2f} core, {self.operator_mib:.0f} MiB | {calls} | {wake} | {_seconds(self.streams_back)} |"
        )


HEAD = """\
| models | KEDA's API rate | all ScaledObjects after | all streams after | operator, idle | calls/s at the scaler | \
cold request → `spec.replicas=1`, p50 / p95 / max (wakes) | streams back after the operator was killed |
| --- | --- | --- | --- | --- | --- | --- | --- |"""


def _seconds(value: float | None) -> str:
    return "not in time" if value is None else f"{value:.0f} s"


class Run:
    """One measurement on one fresh cluster."""

    def __init__(
        self, cluster: Cluster, client: Client, roles: Roles, figures: Figures, limit_seconds: float
    ) -> None:
        self._cluster = cluster
        self._client = client
        self._roles = roles
        self._figures = figures
        self._limit = limit_seconds
        self._random = random.Random(0)
        self._deployments = Store(
            client, kinds.DEPLOYMENTS, Deployment, label_selector=f"{LABEL_MANAGED_BY}={MANAGED_BY}"
        )

    async def all(self, namespaces: list[str], wakes: int, say: Callable[[str], None]) -> None:
        """Every figure, in turn."""
        figures = self._figures
        keys = [
            (namespaces[number % len(namespaces)], f"model-{number:05}") for number in range(figures.models)
        ]
        begun = time.monotonic()
        say("creating models")
        await self._create(keys)
        figures.created = await self._within(begun, self._has_all_scaledobjects, say, "ScaledObjects")
        figures.streams = await self._within(begun, self._has_all_streams, say, "streams")
        say("measuring KEDA at rest")
        await self._idle()
        async with _running(self._deployments):
            for number, key in enumerate(self._random.sample(keys, min(wakes, len(keys)))):
                say(f"wake {number + 1} of {wakes}")
                if (took := await self._wake(*key)) is not None:
                    figures.wakes.append(took)
        say("killing the operator")
        killed = time.monotonic()
        self._cluster.part("keda-operator").send(signal.SIGKILL)
        await self._within(killed, self._has_lost_streams, say, "streams to end")
        figures.streams_back = await self._within(killed, self._has_all_streams, say, "streams to come back")

    async def _create(self, keys: list[tuple[str, str]]) -> None:
        slots = asyncio.Semaphore(CREATED_AT_ONCE)

        async def create(namespace: str, name: str) -> None:
            async with slots:
                await self._client.create(kinds.LLMSERVICES, namespace, _model(namespace, name))

        async with asyncio.TaskGroup() as group:
            for namespace, name in keys:
                group.create_task(create(namespace, name))

    async def _within(
        self, begun: float, claim: Callable[[], Awaitable[bool]], say: Callable[[str], None], what: str
    ) -> float | None:
        while not await claim():
            passed = time.monotonic() - begun
            if passed > self._limit:
                return None
            say(f"waiting for {what}: {passed:.0f} s, {await self._streams():.0f} streams")
            await asyncio.sleep(0.5)
        return time.monotonic() - begun

    async def _streams(self) -> float:
        return await self._roles.metric("noctaya_gateway_scaler_streams")

    async def _has_all_streams(self) -> bool:
        return await self._streams() >= self._figures.models

    async def _has_lost_streams(self) -> bool:
        return await self._streams() < self._figures.models

    async def _has_all_scaledobjects(self) -> bool:
        return await self._roles.metric("noctaya_worker_scaledobjects") >= self._figures.models

    async def _idle(self) -> None:
        before, began = await self._load(), time.monotonic()
        await asyncio.sleep(IDLE_SECONDS)
        after, seconds = await self._load(), time.monotonic() - began
        self._figures.operator_cores = (after["cpu"] - before["cpu"]) / seconds
        self._figures.operator_mib = _resident_mib(self._cluster.part("keda-operator"))
        self._figures.calls_per_second = {
            method: (after[method] - before[method]) / seconds for method in before if method != "cpu"
        }

    async def _load(self) -> dict[str, float]:
        calls = {
            method: await self._roles.metric("noctaya_scaler_requests_total", method=method)
            for method in ("GetMetricSpec", "GetMetrics", "IsActive")
        }
        return {"cpu": _cpu_seconds(self._cluster.part("keda-operator")), **calls}

    async def _wake(self, namespace: str, name: str) -> float | None:
        """Seconds from a cold request's first byte until a watch shows `spec.replicas=1`."""
        done = asyncio.get_running_loop().create_future()
        unsubscribe = self._deployments.subscribe(
            lambda change: (
                done.set_result(time.monotonic())
                if change.new is not None
                and (change.new.namespace, change.new.name) == (namespace, name)
                and change.new.spec.replicas > 0
                and not done.done()
                else None
            )
        )
        request = asyncio.create_task(self._ask(f"{namespace}/{name}"))
        began = time.monotonic()
        try:
            async with asyncio.timeout(WAKE_SECONDS):
                return float(await done) - began
        except TimeoutError:
            return None
        finally:
            unsubscribe()
            request.cancel()
            await asyncio.gather(request, return_exceptions=True)

    async def _ask(self, model: str) -> None:
        body = {"model": model, "messages": [{"role": "user", "content": "hello"}]}
        patience = aiohttp.ClientTimeout(total=WAKE_SECONDS)
        url = f"{self._roles.gateway}/v1/chat/completions"
        async with self._roles.session.post(url, json=body, timeout=patience) as answer:
            await answer.read()


@contextlib.asynccontextmanager
async def _running(store: Store[Deployment]) -> AsyncIterator[None]:
    task = asyncio.create_task(store.run())
    try:
        async with asyncio.timeout(WAKE_SECONDS):
            await store.synced.wait()
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _model(namespace: str, name: str) -> dict[str, object]:
    return {
        "apiVersion": "serving.noctaya.io/v1alpha1",
        "kind": "LLMService",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {
            "model": {"source": {"uri": "hf://example/never-loaded"}},
            "runtime": {"name": "never-started"},
            "cache": {"strategy": "None"},
            "scaling": {"min": 0, "max": 1, "activationTimeout": "2m", "scaleDownStabilization": "5m"},
        },
    }


def _cpu_seconds(process: ProcessId) -> float:
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_SECOND


def _resident_mib(process: ProcessId) -> float:
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS:")).split()[1]) / 1024


async def measure(
    cluster: Cluster, figures: Figures, arguments: argparse.Namespace, say: Callable[[str], None]
) -> None:
    """Install the types, start the roles, and take every figure."""
    namespaces = [f"models-{number}" for number in range(arguments.namespaces)]
    cluster.kubectl("apply", "-k", ROOT / "deploy" / "kustomize" / "crd")
    cluster.kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    for namespace in ("noctaya-system", *namespaces):
        cluster.kubectl("create", "namespace", namespace)
    config = ClusterConfig.load(str(cluster.directory.kubeconfig), None)
    async with (
        Client(config, user_agent="noctaya-bench") as client,
        roles(cluster.directory.kubeconfig, cluster.directory.logs) as running,
    ):
        await client.create(kinds.INFERENCERUNTIMES, None, RUNTIME)
        await Run(cluster, client, running, figures, arguments.limit).all(namespaces, arguments.wakes, say)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--models", type=int, default=500)
    parser.add_argument("--namespaces", type=int, default=10)
    parser.add_argument("--keda-rate", type=int, help="requests a second (default: KEDA's own 20, burst 30)")
    parser.add_argument("--wakes", type=int, default=20)
    parser.add_argument(
        "--limit", type=float, default=1200.0, help="longest wait for any one figure, seconds"
    )
    arguments = parser.parse_args()
    # Told to end in any way, the cluster and the roles end too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    rate = arguments.keda_rate
    if rate:
        os.environ[OPERATOR_ARGUMENTS] = f"--kube-api-qps={rate} --kube-api-burst={2 * rate}"
    figures = Figures(arguments.models, f"{rate}/s" if rate else "default (20/s)")
    with tempfile.TemporaryDirectory(prefix="noctaya-bench-") as directory, Progress() as progress:
        cluster = Cluster(Path(directory) / "cluster", binaries.build(progress))
        cluster.up("quick", progress)
        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(measure(cluster, figures, arguments, progress.working))
        finally:
            cluster.down()
    print(f"{HEAD}\n{figures.row()}")  # noqa: T201


if __name__ == "__main__":
    main()

"""Cold starts on a real Kubernetes with a real KEDA: what of each is ours.

    python -m bench.real_wakes [--wakes 100] [--dir DIR]

Needs root and Go (`make cluster-up`); `--dir` takes a cluster that is up instead of starting one. The product is installed from
`deploy/kustomize`, engines are scripted containers that are healthy one second after their process began. A wake is one
streaming request to a sleeping model through the gateways' Service; models take turns, one request at a time. Printed are p50,
p99 and the maximum of each step, as a Markdown table. Steps are seen by watches of the API server, beside the product.
"""

import argparse
import asyncio
import contextlib
import statistics
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import uvloop

from noctaya.api.names import LABEL_MANAGED_BY, MANAGED_BY
from noctaya.kube import Client, ClusterConfig, Store
from noctaya.kube import resources as kinds
from noctaya.kube.objects import Deployment, Pod
from noctaya.kube.reflector import Change
from tests.acceptance import engine, installation
from tests.acceptance.api import Api, open_client
from tests.acceptance.clients import ask
from tests.acceptance.fleet import NAMESPACE
from tests.acceptance.models import Model, runtime, service
from tests.acceptance.waiting import until
from tests.cluster import binaries
from tests.cluster.cluster import Cluster
from tests.cluster.progress import Progress

MODELS = 12
STARTUP_SECONDS = 1.0
WAIT_SECONDS = 120.0
RUNTIME, WHERE = "bench-wakes", "bench-wakes"


@dataclass(frozen=True, slots=True)
class Wake:
    """Moments of one cold start on one clock, in seconds."""

    arrived: float
    replicas: float
    """A watch showed `spec.replicas=1`."""
    running: float
    """The engine's process began, by its own word."""
    first_byte: float

    @property
    def healthy(self) -> float:
        """The engine could answer from then on."""
        return self.running + STARTUP_SECONDS

    def steps(self) -> dict[str, float]:
        """Milliseconds of each step, as the table names them."""
        spans = {
            "cold request arrives → `spec.replicas=1`": self.replicas - self.arrived,
            "→ the engine's process runs (Kubernetes: controllers, scheduler, kubelet, runtime)": self.running
            - self.replicas,
            f"→ the engine is healthy (its own load: {STARTUP_SECONDS:g} s by script)": STARTUP_SECONDS,
            "→ first byte of the answer at the client": self.first_byte - self.healthy,
            "**ours: first step + last step**": self.replicas - self.arrived + self.first_byte - self.healthy,
            "total": self.first_byte - self.arrived,
        }
        return {name: seconds * 1000 for name, seconds in spans.items()}


def table(wakes: list[Wake]) -> list[str]:
    """The figures as a Markdown table."""
    rows = [f"| step ({len(wakes)} wakes) | p50, ms | p99, ms | max, ms |", "| --- | --- | --- | --- |"]
    for name in wakes[0].steps():
        values = sorted(wake.steps()[name] for wake in wakes)
        high = values[min(len(values) - 1, int(len(values) * 0.99))]
        rows.append(f"| {name} | {statistics.median(values):.0f} | {high:.0f} | {values[-1]:.0f} |")
    share = statistics.median(
        wake.steps()["**ours: first step + last step**"] / wake.steps()["total"] for wake in wakes
    )
    return [*rows, f"| ours as a share of the total, p50 | {share:.1%} | | |"]


class Watches:
    """What a watch showed last of every model's Deployment, and when it first wanted replicas after `forget`."""

    def __init__(self, client: Client) -> None:
        label = f"{LABEL_MANAGED_BY}={MANAGED_BY}"
        self._deployments = Store(
            client, kinds.DEPLOYMENTS, Deployment, namespace=WHERE, label_selector=label
        )
        self._pods = Store(client, kinds.PODS, Pod, namespace=WHERE, label_selector=label)
        self._wanted_at: dict[str, float] = {}

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Watch for as long as the body runs."""
        tasks = [asyncio.create_task(store.run()) for store in (self._deployments, self._pods)]
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await asyncio.gather(self._deployments.synced.wait(), self._pods.synced.wait())
            self._deployments.subscribe(self._changed)
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def asleep(self, name: str) -> None:
        """Return when the model has neither replicas nor pods, and forget when it last had."""

        async def is_asleep() -> bool:
            found = self._deployments.get(WHERE, name)
            has_pod = any(pod.name.startswith(f"{name}-") for pod in self._pods.items())
            return found is not None and found.spec.replicas == 0 and not has_pod

        await until(is_asleep, WAIT_SECONDS, f"{name} sleeps")
        self._wanted_at.pop(name, None)

    def _changed(self, change: Change[Deployment]) -> None:
        if change.new is not None and change.new.spec.replicas > 0:
            self._wanted_at.setdefault(change.new.name, time.monotonic())

    def wanted_at(self, name: str) -> float:
        """When a watch first showed replicas after the last sleep."""
        return self._wanted_at[name]


async def measure(cluster: Cluster, count: int, say: Callable[[str], None]) -> list[Wake]:
    """`count` cold starts, one after the other, over models that take turns."""
    config = ClusterConfig.load(str(cluster.directory.kubeconfig), None)
    async with (
        open_client(cluster.directory.kubeconfig) as http,
        Client(config, user_agent="noctaya-bench") as client,
    ):
        api = Api(http)
        await api.create("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": WHERE}})
        await api.create("inferenceruntimes", runtime(RUNTIME, startup=f"{STARTUP_SECONDS:g}s", delay="1ms"))
        url = f"http://{(await api.get('services', 'noctaya-gateway', NAMESPACE))['spec']['clusterIP']}"
        models = [Model(api, WHERE, f"model-{number:02}") for number in range(MODELS)]
        try:
            for model in models:
                await api.create("llmservices", service(model.name, WHERE, RUNTIME), WHERE)
            for model in models:
                await model.until_usable(WAIT_SECONDS)
            watches = Watches(client)
            async with watches.running():
                wakes = []
                for number in range(count):
                    say(f"wake {number + 1} of {count}")
                    wakes.append(await _wake(models[number % MODELS], url, watches))
                return wakes
        finally:
            await api.delete("namespaces", WHERE)
            await api.delete("inferenceruntimes", RUNTIME)


async def _wake(model: Model, url: str, watches: Watches) -> Wake:
    await watches.asleep(model.name)
    asked = await ask(url, model.model)
    if not asked.is_whole or asked.first_frame_at is None:
        raise AssertionError(f"a request was lost: {asked}")
    (pod,) = await model.pods()
    told = await engine.stats(pod)
    began = time.monotonic() - float(told["seconds"])
    return Wake(asked.began_at, watches.wanted_at(model.name), began, asked.first_frame_at)


@contextlib.contextmanager
def _cluster(directory: Path | None, progress: Progress) -> Iterator[Cluster]:
    if directory is not None:
        yield Cluster(directory, binaries.build(progress))
        return
    with tempfile.TemporaryDirectory(prefix="noctaya-bench-") as made:
        cluster = Cluster(Path(made) / "cluster", binaries.build(progress))
        cluster.up("node", progress)
        try:
            yield cluster
        finally:
            cluster.down()


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--wakes", type=int, default=100)
    parser.add_argument(
        "--dir", type=Path, help="of a cluster that is up (python -m tests.cluster up --dir …)"
    )
    arguments = parser.parse_args()
    with Progress() as progress, _cluster(arguments.dir, progress) as cluster:
        progress.working("installing Noctaya")
        installation.install(cluster)
        with cluster.network(), asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            wakes = runner.run(measure(cluster, arguments.wakes, progress.working))
    print("\n".join(table(wakes)))  # noqa: T201


if __name__ == "__main__":
    main()

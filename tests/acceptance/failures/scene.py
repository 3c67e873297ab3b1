"""A namespace of scripted models under load, with a record of every request and every zero.

`async with scene(…)` ends with the two claims of `outcomes`: a test says beforehand which losses a fault may cost
(`excused`), if any. How it fails: with the offending records, and how the whole load went.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from tests.acceptance.api import Api
from tests.acceptance.failures.outcomes import (
    Account,
    Excuse,
    Request,
    lost,
    nobody,
    unreached,
    wrong_zeros,
)
from tests.acceptance.failures.traffic import Traffic
from tests.acceptance.failures.zeros import Zeros
from tests.acceptance.fleet import NAMESPACE, Fleet
from tests.acceptance.models import Model, runtime, service
from tests.acceptance.waiting import until
from tests.cluster.cluster import Cluster

SETTLE_SECONDS = 300.0
PATIENCE = "6m"
"""Of a held request: more than any fault here takes, on a machine that is busy with other things."""
DRAIN = "5s"
SHORT, LONG = "10s", "5m"
BUSY, NAPPERS = "busy", ("napper-1", "napper-2")
"""The background: one model that is never alone, two that are asked whenever they have fallen asleep."""


@dataclass(slots=True)
class Scene:
    """What a test has in hand."""

    cluster: Cluster
    api: Api
    fleet: Fleet
    namespace: str
    traffic: Traffic
    zeros: Zeros
    account: Account
    tasks: asyncio.TaskGroup
    began: float
    excused: Excuse = nobody
    """Admitted requests that the fault may cost."""
    excused_unreached: Excuse = nobody
    """Requests for which there may have been nobody to take them."""
    runtimes: list[str] = field(default_factory=list)
    """Those of its models; cluster-wide, so they are deleted at the end."""
    struck: tuple[float, float] = (0.0, 0.0)
    """Between which moments a part was killed last."""
    costs: dict[str, float] = field(default_factory=dict)
    """Seconds that a fault cost, by what was waited for; printed at the end (docs/performance.md)."""

    async def add(
        self,
        *names: str,
        on: str = "",
        scaling: dict[str, Any] | None = None,
        gentle: bool = False,
        **engine: Any,
    ) -> list[Model]:
        """Models of one runtime (`engine` as of `models.runtime`), soon asleep and ready to be woken; gives them.

        A `gentle` one finishes the answers that run when its pod is told to end, for up to `DRAIN`. Whoever is asked until
        the very moment in which it falls asleep needs that: a request that KEDA did not know of yet is there already.
        """
        on = f"{self.namespace}-{on or names[0]}"
        if gentle:
            engine["lifecycle"] = {"preStopDrain": True}
        # On the processor: the node's few accelerators are not what is tested here.
        await self.api.create("inferenceruntimes", runtime(on, resource="cpu", vendor="cpu", **engine))
        self.runtimes.append(on)
        patience = {"activationTimeout": PATIENCE, "drainTimeout": DRAIN}
        found = [Model(self.api, self.namespace, name) for name in names]
        for model in found:
            body = service(model.name, self.namespace, on, scaling={**patience, **(scaling or {})})
            await self.api.create("llmservices", body, self.namespace)
        return found

    async def until_usable(self, *models: Model) -> None:
        """Wait until a request would wake each of them."""
        await asyncio.gather(*(model.until_usable(SETTLE_SECONDS) for model in models))

    async def background(self, *models: Model, cooldown: str = SHORT) -> None:
        """The continuous load: warm streams and plain requests, and models that are woken again and again.

        It begins once these models and its own can be woken. Only requests keep the busy one awake: told once that nobody
        wants it, KEDA puts it to sleep as soon as its `cooldown` is over. `SHORT` finds a wrong word soon; `LONG` is for
        faults that leave KEDA without any worker for longer than that, which KEDA 2.20 may take for a no (metric.py).
        """
        scaling = {"scaleDownStabilization": cooldown}
        (busy,) = await self.add(BUSY, scaling=scaling, gentle=True, tokens=20, delay="100ms")
        nappers = await self.add(*NAPPERS, on="nappers", gentle=True, tokens=10, delay="100ms")
        await self.until_usable(*models, busy, *nappers)
        for is_stream in (True, True, False):
            self.start(self.traffic.keep_busy(busy.model, is_stream=is_stream), "warm client")
        for napper in nappers:
            self.start(self.traffic.keep_waking(napper.model, self._sleeps(napper.model)), "cold client")

        async def is_calm() -> bool:
            return {r.model for r in self.account.requests if r.ended} >= {
                model.model for model in (busy, *nappers)
            }

        await until(is_calm, SETTLE_SECONDS, "every model of the background has answered once")

    def start(self, work: Any, name: str) -> None:
        """A client of the test's own, that ends when the load does."""
        self.tasks.create_task(work, name=name)

    def ask(self, model: Model, **how: Any) -> Request:
        """Send a request in the background; `until_answered` waits for it."""
        tokens = how.pop("tokens", None)
        request = self.traffic.begin(model.model, **how)
        self.start(self.traffic.carry(request, tokens=tokens), f"request to {model.model}")
        return request

    async def until_pushed(self, model: Model, seconds: float = 30.0) -> None:
        """Return when a worker says that it has pushed `true` for this model: the one that has KEDA's stream."""

        async def claim() -> bool:
            words = ("logs", "--selector=app.kubernetes.io/component=worker", "--tail=2000")
            told = await asyncio.to_thread(self.cluster.kubectl, *words, namespace=NAMESPACE)
            return any("pushed true" in line and f'"{model.model}"' in line for line in told.splitlines())

        await until(claim, seconds, f"a worker pushes true for {model.model}")

    async def until_held(self, request: Request, seconds: float = SETTLE_SECONDS) -> None:
        """Return when a gateway holds this request: the demand for its model is known there."""

        async def claim() -> bool:
            gateways = await self.fleet.pods("gateway")
            namespace, _, name = request.model.partition("/")
            told = [
                await self.fleet.metric(pod, "noctaya_gateway_pending", namespace=namespace, service=name)
                for pod in gateways
            ]
            return any(told) or request.ended is not None

        await until(claim, seconds, f"a gateway holds a request of {request.model}")
        assert request.ended is None, f"not held: {request}"

    async def until_streaming(self, *requests: Request, seconds: float = SETTLE_SECONDS) -> None:
        """Return when each has had its first byte."""

        async def claim() -> bool:
            return all(request.first_byte is not None or request.ended is not None for request in requests)

        await until(claim, seconds, f"these requests are answered: {requests}")
        assert all(request.first_byte is not None for request in requests), requests

    async def until_answered(self, *requests: Request, seconds: float = SETTLE_SECONDS) -> None:
        """Return when each has ended."""

        async def claim() -> bool:
            return all(request.ended is not None for request in requests)

        await until(claim, seconds, f"these requests end: {requests}")

    def mark(self, what: str) -> float:
        """Note a moment, for whoever reads the account; gives it."""
        now = time.monotonic()
        self.account.marks.append((now, what))
        return now

    def cost(self, what: str, seconds: float) -> None:
        """Note what a fault cost."""
        self.costs[what] = seconds
        print(f"cost: {what}: {seconds:.1f} s")  # noqa: T201

    def check(self) -> None:
        """The two claims."""
        whole = self.account.told(self.began)
        # A wrong zero first: what it cut is lost because of it.
        wrong = wrong_zeros(self.account.requests, self.account.zeros)
        assert not wrong, f"wrong zeros: {wrong}\n{whole}"
        losses = lost(self.account.requests, self.excused)
        assert not losses, f"lost: {losses}\n{whole}"
        nowhere = unreached(self.account.requests, self.excused_unreached)
        assert not nowhere, f"nobody took: {nowhere}\n{whole}"
        assert any(request.ended is not None for request in self.account.requests), "there was no load at all"

    def _sleeps(self, model: str) -> Any:
        return lambda: self.zeros.replicas.get(model) == 0


@asynccontextmanager
async def scene(cluster: Cluster, api: Api, fleet: Fleet, namespace: str) -> AsyncIterator[Scene]:
    """The load for the body; at its end clients finish what they are at, and the claims are made."""
    account = Account()
    traffic = Traffic({"fleet": fleet.url}, account.requests)
    zeros = Zeros(cluster.directory.kubeconfig, namespace, account.zeros.append)
    began = time.monotonic()
    try:
        async with asyncio.TaskGroup() as watching:
            watch = watching.create_task(zeros.run(), name="zeros")
            async with asyncio.TaskGroup() as clients:
                stage = Scene(cluster, api, fleet, namespace, traffic, zeros, account, clients, began)
                yield stage
                traffic.is_over.set()
            watch.cancel()
        for name in stage.runtimes:
            await api.delete("inferenceruntimes", name)
        stage.check()
    finally:
        await traffic.close()
        print(account.told(began))  # noqa: T201

"""A running operator over the fakes, in virtual time, and the words that its tests are written in."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from noctaya.local.keda.operator import Operator
from noctaya.local.keda.records import Key
from noctaya.local.keda.settings import KedaSettings
from tests.local.keda.fakes import Deployment, FakeCluster, FakeScaler, FakeScalers, now, wall

ADDRESS = "scaler.test:9090"
INSTANT = 0.001
"""Virtual seconds after which everything that needs no timer has happened."""


def spec(**changes: Any) -> dict[str, Any]:
    """A ScaledObject's spec for Deployment `model`; `metadata` goes into its only trigger."""
    metadata = changes.pop("metadata", {})
    trigger = changes.pop("trigger", {})
    return {
        "scaleTargetRef": {"name": "model"},
        "pollingInterval": 30,
        "cooldownPeriod": 300,
        "triggers": [
            {"type": "external-push", "metadata": {"scalerAddress": ADDRESS, **metadata}, **trigger}
        ],
        **changes,
    }


class World:
    """One cluster, its scalers, and the stand-in between them."""

    def __init__(self, cluster: FakeCluster, scalers: FakeScalers, operator: Operator) -> None:
        self.cluster = cluster
        self.scalers = scalers
        self.operator = operator

    @property
    def scaler(self) -> FakeScaler:
        return self.scalers.at(ADDRESS)

    @property
    def replicas(self) -> int:
        return self.cluster.deployments["ai", "model"].replicas

    @replicas.setter
    def replicas(self, count: int) -> None:
        self.cluster.deployments["ai", "model"].replicas = count

    async def add(self, name: str = "model", **changes: Any) -> Key:
        """Apply a ScaledObject and let the stand-in take it in."""
        key = self.cluster.apply(name, spec(**changes))
        await self.passes(INSTANT * 20)
        return key

    async def passes(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def until(self, at: float) -> None:
        """Let time pass until `at`, and what happens then."""
        await asyncio.sleep(at + INSTANT - now())

    async def push(self, value: bool = True) -> None:
        self.scaler.open_streams[-1].push(value)
        await self.passes(INSTANT)


@asynccontextmanager
async def a_world(
    cluster: FakeCluster | None = None,
    settings: KedaSettings | None = None,
    wall_clock: Callable[[], float] = wall,
) -> AsyncIterator[World]:
    """A world whose target is Deployment `model` with no replicas, until the block ends."""
    cluster = cluster or FakeCluster()
    cluster.deployments.setdefault(("ai", "model"), Deployment())
    scalers = FakeScalers()
    operator = Operator(cluster, lambda _: scalers, settings or KedaSettings(), wall_clock)
    task = asyncio.create_task(operator.run())
    await asyncio.sleep(INSTANT)
    try:
        yield World(cluster, scalers, operator)
    finally:
        task.cancel()
        await asyncio.wait([task])
        if not task.cancelled() and (error := task.exception()) is not None:
            raise error

"""A proxy in front of either server, a namespace of the test's own, and the product's client on both sides of the proxy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from uuid import uuid4

import pytest

from noctaya.kube.client import Client
from noctaya.kube.resources import CONFIGMAPS, NAMESPACES
from tests.conformance.fixtures import OURS
from tests.conformance.server import Server
from tests.faults import FaultProxy, ProxiedClient

WAIT_SECONDS = 60.0
TICK_SECONDS = 0.01
Until = Callable[[Callable[[], object]], Awaitable[None]]


@pytest.fixture
async def direct(api_server: Server) -> AsyncIterator[Client]:
    """Past the proxy."""
    async with Client(api_server.config, user_agent="direct", request_timeout_seconds=WAIT_SECONDS) as client:
        yield client


@pytest.fixture
async def namespace(direct: Client, api_server: Server) -> str:
    """With everything in it that a real cluster's controllers put there, so that watches show the test's own objects alone."""
    name = f"faults-{uuid4().hex[:8]}"
    await direct.create(NAMESPACES, None, {"metadata": {"name": name, "labels": OURS}})
    if api_server.is_real:
        async with asyncio.timeout(WAIT_SECONDS):
            while not (await direct.list(CONFIGMAPS, name)).items:  # noqa: ASYNC110 - a look
                await asyncio.sleep(TICK_SECONDS)
    return name


@pytest.fixture
async def proxy(api_server: Server) -> AsyncIterator[FaultProxy]:
    async with FaultProxy(api_server.config, seed=7) as running:
        yield running


@pytest.fixture
async def way(proxy: FaultProxy) -> ProxiedClient:
    return await proxy.client("one")


@pytest.fixture
async def through(way: ProxiedClient) -> AsyncIterator[Client]:
    """Through the proxy, with a deadline that suits waiting for nothing."""
    async with Client(way.config, user_agent="through", request_timeout_seconds=10.0) as client:
        yield client


@pytest.fixture
def until() -> Until:
    """`await until(lambda: claim)`: as soon as it holds."""

    async def wait(claim: Callable[[], object]) -> None:
        async with asyncio.timeout(WAIT_SECONDS):
            while not claim():  # noqa: ASYNC110 - claims are about anything, events or not
                await asyncio.sleep(TICK_SECONDS)

    return wait


class Maps:
    """ConfigMaps of one namespace, past the proxy."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self.namespace = namespace

    async def put(self, name: str, value: str) -> None:
        """Create or change."""
        body = {"metadata": {"name": name}, "data": {"k": value}}
        await self._client.apply(CONFIGMAPS, self.namespace, name, body, field_manager="direct", force=True)

    async def value(self, name: str) -> str | None:
        """What is stored, or None."""
        found = await self._client.list(CONFIGMAPS, self.namespace, field_selector=f"metadata.name={name}")
        return found.items[0]["data"]["k"] if found.items else None

    async def delete(self, name: str) -> None:
        await self._client.delete(CONFIGMAPS, self.namespace, name)


@pytest.fixture
def maps(direct: Client, namespace: str) -> Maps:
    return Maps(direct, namespace)

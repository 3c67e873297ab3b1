"""A fake server and a client for it, and a way to wait for a condition without sleeping longer than a tick."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from noctaya.kube.client import Client
from tests.kube.fake_server import FakeServer

Until = Callable[[Callable[[], bool]], Awaitable[None]]


@pytest.fixture
async def server() -> AsyncIterator[FakeServer]:
    async with FakeServer() as running:
        yield running


@pytest.fixture
async def client(server: FakeServer) -> AsyncIterator[Client]:
    async with Client(server.config(), user_agent="noctaya-test", request_timeout_seconds=2) as opened:
        yield opened


@pytest.fixture
def until() -> Until:
    """`await until(lambda: claim)`: return as soon as it holds, fail after five seconds."""

    async def wait(claim: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while not claim():  # noqa: ASYNC110 - claims are about anything, events or not
                await asyncio.sleep(0.002)

    return wait

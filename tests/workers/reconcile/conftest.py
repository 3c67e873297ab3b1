"""An API server with our CRDs for every test that asks for one."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.workers.reconcile.cluster import Cluster, running


@pytest.fixture(scope="session", autouse=True)
def no_loop_is_made_on_the_side() -> None:
    """looptime asks for the current loop before every test; without this, asyncio makes one that nobody closes."""
    asyncio.set_event_loop(None)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    """An API server with our CRDs and KEDA's."""
    async with running(tmp_path) as found:
        yield found

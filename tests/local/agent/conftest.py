"""One embedded cluster a test."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.local.agent.cluster import LocalCluster, local_cluster

# Without a first `set_event_loop`, pytest-asyncio's look at "the old loop" makes one on Python 3.11 and never closes it.
asyncio.set_event_loop(None)


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[LocalCluster]:
    async with local_cluster(tmp_path) as running:
        yield running

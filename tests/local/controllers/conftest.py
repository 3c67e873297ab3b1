"""One embedded cluster a test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.local.agent.cluster import LocalCluster, local_cluster


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[LocalCluster]:
    async with local_cluster(tmp_path) as running:
        yield running

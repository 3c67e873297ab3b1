"""An API server with our CRDs for every test that asks for one."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.workers.reconcile.cluster import Cluster, running


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    """An API server with our CRDs and KEDA's."""
    async with running(tmp_path) as found:
        yield found

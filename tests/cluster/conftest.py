"""What only the tests of the cluster itself use; the cluster is in `fixtures`."""

from pathlib import Path

import pytest

from tests.cluster.fixtures import own_namespace, running

__all__ = ["own_namespace", "running"]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A directory for a test's own cluster."""
    return tmp_path / "own"

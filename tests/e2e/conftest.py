"""One embedded cluster for all end-to-end tests, each test in a namespace of its own where that matters."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from noctaya.local.cluster import free_port
from tests.conftest import left_over, snapshot
from tests.e2e.cluster import EmbeddedCluster

REPOSITORY = Path(__file__).parent.parent.parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything here is end to end and needs kubectl; without it the tests are skipped and say so."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.e2e)
            item.add_marker(pytest.mark.timeout(300))
            if shutil.which("kubectl") is None:
                item.add_marker(
                    pytest.mark.skip(reason="kubectl is not on PATH: the end-to-end tests drive it")
                )


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedCluster]:
    """A running embedded cluster with the example model applied, which here sleeps a second after its last request."""
    before = snapshot()
    running = EmbeddedCluster.start(tmp_path_factory.mktemp("cluster"), free_port())
    below: set[int] = set()
    try:
        running.kubectl("apply", "-f", str(REPOSITORY / "examples" / "local"))
        running.kubectl(
            "patch", "llmservice", "smollm2", "-n", "ai", "--type=merge",
            "-p", '{"spec": {"scaling": {"scaleDownStabilization": "1s"}}}',
        )  # fmt: skip
        running.wait_asleep("smollm2")
        yield running
        below = set(running.descendants())
    finally:
        running.stop()
    orphans = {pid for pid in below if Path(f"/proc/{pid}").exists()}
    assert not orphans, f"processes outlived the cluster: {orphans}"
    more = left_over(before)
    assert not more, f"left behind: {more}"

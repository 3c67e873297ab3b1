"""The cluster in tests: one with a node for the whole session, a namespace for each test.

A plugin (`tests/conftest.py` names it), so that every folder's tests share the session's one cluster.

These tests run when they are asked for (`-m cluster`): a session needs root, Go and containerd, and half a minute to start.
The programs must be built before (`python -m tests.cluster build`): no test waits ten minutes for a compiler.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from rich.console import Console

from tests.cluster import binaries
from tests.cluster.binaries import Binaries
from tests.cluster.cluster import Cluster
from tests.cluster.errors import RequirementsMissing
from tests.cluster.footprint import Footprint
from tests.cluster.isolation import NODE_ADDRESS
from tests.cluster.progress import Progress
from tests.cluster.requirements import missing_for_node, need
from tests.cluster.side_by_side import COUNTED_OUTSIDE
from tests.cluster.state import Mode

MARKERS = (
    "cluster: a real Kubernetes and KEDA on this machine (root, Go, containerd)",
    "containers: Noctaya's own image, as an archive and as Docker containers",
)
"""Both are for `make test-cluster`, whose sessions each see a part of the folders only."""
KEPT = "NOCTAYA_TEST_CLUSTER"
"""Names the directory of a cluster that is up already: whoever works on a test need not wait for a new one each time."""
Up = Callable[..., "Cluster"]


def pytest_configure(config: pytest.Config) -> None:
    """Whatever is collected, both are known."""
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what needs the cluster unless it was asked for by name."""
    if "cluster" in config.getoption("markexpr", ""):
        return
    for item in items:
        if item.get_closest_marker("cluster"):
            item.add_marker(pytest.mark.skip(reason="asked for by `-m cluster` only (make test-cluster)"))


@pytest.fixture(scope="session")
def programs() -> Binaries:
    """The cluster's programs, built before."""
    try:
        found = binaries.cached()
        need(missing_for_node())
    except RequirementsMissing as missing:
        pytest.skip(str(missing))
    if found is None:
        pytest.fail(
            "the cluster's programs are not built yet; run `python -m tests.cluster build` (minutes, once)"
        )
    return found


@pytest.fixture(scope="session")
def cluster(programs: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster with a node, DNS and KEDA as pods. What it leaves on the machine fails the session's last test.

    `NOCTAYA_TEST_CLUSTER=DIR` takes one that is up already (`python -m tests.cluster --dir DIR up`) and leaves it up.
    """
    if kept := os.environ.get(KEPT):
        yield Cluster(Path(kept), programs)
        return
    before = Footprint.now()
    with running(Cluster(tmp_path_factory.mktemp("cluster") / "it", programs), "node") as cluster:
        state = cluster.directory.state()
        assert state is not None
        assert not state.revivals, "a part had to be started twice"
        yield cluster
    if os.environ.get(COUNTED_OUTSIDE):
        return
    left = Footprint.now().beyond(before)
    assert not left, f"the cluster left behind: {left}"


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace of the test's own. KEDA remembers objects by name, so no test may use another's names."""
    with own_namespace(cluster) as name:
        yield name


@pytest.fixture
def network(cluster: Cluster) -> Iterator[str]:
    """Be in the cluster's network for one test; gives the address at which pods reach this process."""
    with cluster.network():
        yield NODE_ADDRESS


@contextmanager
def own_namespace(cluster: Cluster) -> Iterator[str]:
    """Make a namespace and delete it afterwards, without waiting."""
    name = f"test-{uuid4().hex[:8]}"
    cluster.kubectl("create", "namespace", name)
    try:
        yield name
    finally:
        cluster.kubectl("delete", "namespace", name, "--wait=false")


@contextmanager
def running(cluster: Cluster, mode: Mode, *, with_keda: bool = True) -> Iterator[Cluster]:
    """Have a cluster up for the body; it ends with this process too, however this process ends."""
    lifeline, held = os.pipe()
    try:
        with Progress(Console(stderr=True, force_terminal=False)) as progress:
            cluster.up(mode, progress, with_keda=with_keda, lifeline=lifeline)
        yield cluster
    finally:
        os.close(lifeline)
        os.close(held)
        cluster.down()

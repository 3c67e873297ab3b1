"""An API server for tests, the embedded one and a real one in turn: `api_server`.

A plugin (`tests/conftest.py` names it), so that every folder's tests can have them. `make test` runs against the embedded
one, `-m cluster` against a real one: a control plane without nodes and KEDA, started for the session, or the cluster that
`NOCTAYA_TEST_CLUSTER` names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

import pytest

from tests.cluster import binaries
from tests.cluster.binaries import Binaries
from tests.cluster.cluster import Cluster
from tests.cluster.errors import RequirementsMissing
from tests.cluster.fixtures import KEPT, running
from tests.cluster.requirements import missing_for_quick, need
from tests.conformance import server as servers
from tests.conformance.server import Server

OURS = {"noctaya.test/suite": "conformance"}
"""Label of namespaces that may go when a session ends."""


def _scope(fixture_name: str, config: pytest.Config) -> Literal["session", "module"]:
    """A real server is worth keeping. The embedded one starts in a moment and lives in this process: kept, its thread would go
    on beside the tests of other folders, which count time and memory.
    """
    del fixture_name
    expression = str(config.getoption("markexpr", ""))
    return "session" if "cluster" in expression and "not cluster" not in expression else "module"


@pytest.fixture(scope=_scope, params=["embedded", pytest.param("real", marks=pytest.mark.cluster)])
def api_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    directory = tmp_path_factory.mktemp(request.param)
    if request.param == "embedded":
        with servers.embedded(directory) as embedded:
            yield embedded
        return
    cluster = _cluster(directory / "cluster")
    if os.environ.get(KEPT):
        with cluster.network():
            yield servers.real(cluster)
            label = ",".join(f"{key}={value}" for key, value in OURS.items())
            cluster.kubectl("delete", "namespaces", "--selector", label, "--wait=false")
        return
    with running(cluster, "quick", with_keda=False):
        yield servers.real(cluster)


def _cluster(directory: Path) -> Cluster:
    try:
        need(missing_for_quick())
        built = binaries.cached()
    except RequirementsMissing as missing:
        pytest.skip(str(missing))
    if built is None:
        pytest.fail("the cluster's programs are not built yet; run `python -m tests.cluster build`")
    return Cluster(Path(os.environ.get(KEPT) or directory), Binaries(built.folder))

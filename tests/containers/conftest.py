"""The engine, the API server, and the roles that all these tests look at. Asked for by `-m containers` only."""

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from testcontainers.core.config import testcontainers_config
from testcontainers.core.docker_client import DockerClient

from tests.cluster.archive import Archive
from tests.cluster.footprint import Footprint
from tests.cluster.product_image import ROOT, product_image
from tests.cluster.side_by_side import COUNTED_OUTSIDE
from tests.containers import engine, roles
from tests.containers.roles import Role

API_SERVER_SECONDS = 60.0
LOAD_SECONDS = 300.0


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what builds images and boots containers unless it was asked for by name."""
    if "containers" in config.getoption("markexpr", ""):
        return
    for item in items:
        if item.get_closest_marker("containers"):
            item.add_marker(pytest.mark.skip(reason="asked for by `-m containers` only (make test-cluster)"))


@pytest.fixture(scope="session")
def archive() -> Path:
    """The product's image, made when these sources have none yet."""
    return product_image()


@pytest.fixture(scope="session")
def opened(archive: Path) -> Iterator[Archive]:
    """The same, open for looking into it."""
    with Archive(archive) as opened:
        yield opened


@pytest.fixture(scope="session")
def docker(archive: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Docker engine that has the image; gives its address. One of our own must leave nothing on the machine."""
    testcontainers_config.ryuk_disabled = (
        True  # it would be pulled; the engine ends with its containers anyway
    )
    if engine.GIVEN:
        _load(archive)
        yield engine.GIVEN
        return
    if missing := engine.missing():
        pytest.skip(f"no Docker engine: {missing}")
    before = Footprint.now()
    with (
        engine.own_engine(tmp_path_factory.mktemp("docker")) as host,
        pytest.MonkeyPatch.context() as environment,
    ):
        environment.setenv("DOCKER_HOST", host)
        _load(archive)
        yield host
    if os.environ.get(COUNTED_OUTSIDE):
        return
    left = Footprint.now().beyond(before)
    assert not left, f"the Docker engine left behind: {left}"


@pytest.fixture(scope="session")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder in which a pod would find its cluster: of an embedded API server that is a process."""
    folder = tmp_path_factory.mktemp("account")
    folder.chmod(0o755)
    server = subprocess.Popen([sys.executable, "-m", "tests.containers.api_server", str(folder)], cwd=ROOT)
    try:
        deadline = time.monotonic() + API_SERVER_SECONDS
        while not (folder / "url").exists():
            assert server.poll() is None, "the API server has ended"
            assert time.monotonic() < deadline, "the API server does not answer"
            time.sleep(roles.TICK_SECONDS)
        yield folder
    finally:
        server.terminate()
        assert server.wait(API_SERVER_SECONDS) == 0


@pytest.fixture(scope="session")
def worker(docker: str, account: Path) -> Iterator[Role]:
    """A worker in a container, ready."""
    role = roles.worker(account)
    with role.container:
        role.wait_ready()
        yield role


@pytest.fixture(scope="session")
def gateway(worker: Role) -> Iterator[Role]:
    """A gateway in a container, linked to the worker."""
    role = roles.gateway(worker.control)
    with role.container:
        role.wait_ready()
        yield role


def _load(archive: Path) -> None:
    client = DockerClient(timeout=LOAD_SECONDS).client
    try:
        with archive.open("rb") as file:
            client.images.load(file)
    finally:
        client.close()

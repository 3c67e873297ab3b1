"""The engine, the API server, and the roles that all these tests look at. Asked for by `-m containers` only."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.archive import Archive
from tests.cluster.footprint import Footprint
from tests.cluster.product_image import product_image
from tests.cluster.side_by_side import COUNTED_OUTSIDE
from tests.containers import engine, roles, surroundings
from tests.containers.roles import Role


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
    if not engine.GIVEN and (missing := engine.missing()):
        pytest.skip(f"no Docker engine: {missing}")
    before = Footprint.now()
    with surroundings.docker(archive, tmp_path_factory.mktemp("docker")) as host:
        yield host
    if engine.GIVEN or os.environ.get(COUNTED_OUTSIDE):
        return
    left = Footprint.now().beyond(before)
    assert not left, f"the Docker engine left behind: {left}"


@pytest.fixture(scope="session")
def account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder in which a pod would find its cluster."""
    with surroundings.api_server(tmp_path_factory.mktemp("account")) as folder:
        yield folder


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

"""What the roles need around them: a Docker engine that has the image, and an embedded API server where a pod would find its own."""

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from testcontainers.core.config import testcontainers_config
from testcontainers.core.docker_client import DockerClient

from tests.cluster.product_image import ROOT
from tests.containers import engine, roles

API_SERVER_SECONDS = 60.0
LOAD_SECONDS = 300.0


@contextmanager
def docker(archive: Path, folder: Path) -> Iterator[str]:
    """A Docker engine with the image in it, given by `DOCKER_HOST` or our own in `folder`; gives its address."""
    testcontainers_config.ryuk_disabled = (
        True  # it would be pulled; the engine ends with its containers anyway
    )
    if engine.GIVEN:
        _load(archive)
        yield engine.GIVEN
        return
    with engine.own_engine(folder) as host, pytest.MonkeyPatch.context() as environment:
        environment.setenv("DOCKER_HOST", host)
        _load(archive)
        yield host


@contextmanager
def api_server(folder: Path) -> Iterator[Path]:
    """The folder in which a pod would find its cluster: of an embedded API server that is a process."""
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


def _load(archive: Path) -> None:
    client = DockerClient(timeout=LOAD_SECONDS).client
    try:
        with archive.open("rb") as file:
            client.images.load(file)
    finally:
        client.close()

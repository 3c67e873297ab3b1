"""The image's worker against K3s, where K3s' image can be had: the only test here that may pull one.

K3s makes a network of its own, so it needs an engine that the machine has (`DOCKER_HOST`), not the one that the tests start.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from docker.errors import APIError, ImageNotFound
from testcontainers.community.k3s import K3SContainer
from testcontainers.core.docker_client import DockerClient

from noctaya.api.crds import crds
from noctaya.kube.client import Client
from noctaya.kube.config import ClusterConfig
from noctaya.kube.resources import CRDS, LEASES, NAMESPACES
from tests.containers import engine, roles

IMAGE = "docker.io/rancher/k3s:v1.33.5-k3s1"
SYSTEM = "noctaya-system"

pytestmark = [pytest.mark.containers, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def k3s() -> Iterator[K3SContainer]:
    """K3s, up; skips where it cannot be."""
    if not engine.GIVEN:
        pytest.skip("K3s needs a Docker engine with networks of its own; name one with DOCKER_HOST")
    client = DockerClient().client
    try:
        try:
            client.images.get(IMAGE)
        except ImageNotFound:
            client.images.pull(IMAGE)
    except APIError as problem:
        pytest.skip(f"the image {IMAGE} cannot be had: {problem}")
    finally:
        client.close()
    with K3SContainer(IMAGE) as started:
        yield started


@pytest.fixture
def kubeconfig(k3s: K3SContainer, tmp_path: Path) -> Path:
    """A kubeconfig that the image's user can read, too."""
    path = tmp_path / "kubeconfig"
    path.write_text(k3s.config_yaml())
    path.chmod(0o644)
    return path


async def test_a_worker_becomes_ready_on_k3s_and_holds_its_lease(kubeconfig: Path, docker: str) -> None:
    del docker
    async with Client(ClusterConfig.load(str(kubeconfig)), user_agent="noctaya-tests") as client:
        for definition in crds():
            await client.create(CRDS, None, definition)
        await client.create(NAMESPACES, None, {"metadata": {"name": SYSTEM}})
        role = roles.worker_with_kubeconfig(kubeconfig)
        with role.container:
            role.wait_ready()
            lease = await client.get(LEASES, SYSTEM, "noctaya-leader")
            assert lease["spec"]["holderIdentity"]

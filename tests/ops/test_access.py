"""How workers are found: ready pods, the leader's first, through a kubectl of our own that ends with us."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from noctaya import AsyncClient
from noctaya.kube import Client
from noctaya.kube.resources import PODS
from noctaya.ops import access
from noctaya.ops.errors import KubectlMissing, NoReadyWorker, PortForwardFailed
from noctaya.ops.way import NAMESPACE
from tests.conftest import children
from tests.ops.conftest import Seen

KUBECTL = """#!{python}
import os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
pod = next(word for word in sys.argv if word.startswith("pod/")).removeprefix("pod/")
with open(os.environ["ASKED_FOR"], "a") as asked:
    print(*sys.argv[1:], os.environ.get("KUBECONFIG"), file=asked)
if pod in os.environ["UNREACHABLE"].split(","):
    sys.exit("error: unable to forward port because pod is not running")
print("Forwarding from 127.0.0.1:" + os.environ["FORWARDED_TO"] + " -> 8081", flush=True)
while True:
    signal.pause()
"""


async def worker_pod(client: Client, name: str, ip: str, *, is_ready: bool = True) -> None:
    labels = {"app.kubernetes.io/name": "noctaya", "app.kubernetes.io/component": "worker"}
    body: dict[str, Any] = {
        "metadata": {"name": name, "labels": labels},
        "spec": {"containers": [{"name": "worker", "image": "noctaya"}]},
    }
    await client.create(PODS, NAMESPACE, body)
    conditions = [{"type": "Ready", "status": "True" if is_ready else "False"}]
    status = {"phase": "Running", "podIP": ip, "conditions": conditions}
    await client.patch(PODS, NAMESPACE, name, {"status": status}, subresource="status")


@pytest.fixture
def kubectl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """A kubectl that forwards by naming a port; gives what it was asked, a line a run."""
    program = tmp_path / "bin" / "kubectl"
    program.parent.mkdir()
    program.write_text(KUBECTL.format(python=sys.executable))
    program.chmod(0o755)
    asked = tmp_path / "asked"
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("ASKED_FOR", str(asked))
    monkeypatch.setenv("UNREACHABLE", "")
    return lambda: asked.read_text().splitlines()


async def test_the_leaders_pod_is_asked_through_a_kubectl_that_ends_with_the_client(
    seen: Seen, kubectl: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for pod in ("a0", "w0", "w1"):
        await worker_pod(seen.client, pod, "10.0.0.1")
    before = children()
    async with seen.fleet.serving() as url:
        monkeypatch.setenv("FORWARDED_TO", url.rpartition(":")[2])
        async with AsyncClient(kubeconfig=str(seen.kubeconfig), context="noctaya-local") as client:
            assert (await client.status())["told_by"]["pod"] == "w0"
            await client.verify()
            assert len(children() - before) == 1, "one kubectl serves all questions"
        assert children() == before
    (asked,) = kubectl()
    for word in (
        "port-forward",
        "pod/w0",
        f"--namespace {NAMESPACE}",
        "--context noctaya-local",
        str(seen.kubeconfig),
    ):
        assert word in asked


async def test_a_worker_that_cannot_be_forwarded_to_is_named_with_kubectls_words(
    seen: Seen, kubectl: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    await worker_pod(seen.client, "w0", "10.0.0.1")
    await worker_pod(seen.client, "w1", "10.0.0.2")
    async with seen.fleet.serving() as url:
        monkeypatch.setenv("FORWARDED_TO", url.rpartition(":")[2])
        monkeypatch.setenv("UNREACHABLE", "w1")
        async with AsyncClient(kubeconfig=str(seen.kubeconfig)) as client:
            assert await client.story(), "w0 tells its part"
            assert list(client.unreached) == ["w1"]
        monkeypatch.setenv("UNREACHABLE", "w0,w1")
        async with AsyncClient(kubeconfig=str(seen.kubeconfig)) as client:
            with pytest.raises(PortForwardFailed, match="unable to forward port because pod is not running"):
                await client.status()


async def test_a_kubectl_that_died_is_replaced_at_the_next_question(
    seen: Seen, kubectl: Callable[[], list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    await worker_pod(seen.client, "w0", "10.0.0.1")
    async with AsyncClient(kubeconfig=str(seen.kubeconfig)) as client:
        async with seen.fleet.serving() as url:
            monkeypatch.setenv("FORWARDED_TO", url.rpartition(":")[2])
            assert (await client.status())["told_by"]["pod"] == "w0"
        async with seen.fleet.serving() as url:  # another port: the old way leads nowhere now
            monkeypatch.setenv("FORWARDED_TO", url.rpartition(":")[2])
            assert (await client.status())["told_by"]["pod"] == "w0"
    assert len(kubectl()) == 2


async def test_without_kubectl_the_error_says_what_else_there_is(
    seen: Seen, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    await worker_pod(seen.client, "w0", "10.0.0.1")
    monkeypatch.setenv("PATH", str(tmp_path))
    async with AsyncClient(kubeconfig=str(seen.kubeconfig)) as client:
        with pytest.raises(KubectlMissing, match=r"--admin http://127\.0\.0\.1:8081"):
            await client.status()


async def test_a_fleet_without_a_ready_worker_says_so(seen: Seen) -> None:
    async with AsyncClient(kubeconfig=str(seen.kubeconfig)) as client:
        with pytest.raises(NoReadyWorker, match="no worker pod in namespace noctaya-system"):
            await client.status()
        await worker_pod(seen.client, "w0", "10.0.0.1", is_ready=False)
        with pytest.raises(NoReadyWorker, match="1 worker pods, none of them ready"):
            await client.status()


async def test_a_pod_of_the_embedded_cluster_is_asked_where_it_is(
    seen: Seen, monkeypatch: pytest.MonkeyPatch
) -> None:
    await worker_pod(seen.client, "w0", "127.0.0.1")
    async with seen.fleet.serving() as url:
        monkeypatch.setattr(access, "ADMIN_PORT", int(url.rpartition(":")[2]))
        async with AsyncClient(kubeconfig=str(seen.kubeconfig)) as client:
            assert (await client.status())["told_by"]["pod"] == "w0"

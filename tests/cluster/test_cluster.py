"""The cluster itself: what the product's tests on it may rely on."""

import asyncio
import json
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.cluster import Cluster
from tests.cluster.errors import CommandFailed
from tests.cluster.image import python_image
from tests.cluster.images import DOMAIN, PAUSE
from tests.cluster.scripted_scaler import ScriptedScaler, scripted_scaler

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]

PYTHON = f"{DOMAIN}/python:1"
POD_SECONDS = 60.0
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
Eventually = Callable[[Callable[[], bool], float], None]


@pytest.fixture(scope="module")
def python(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An image of this machine's Python, known to the node."""
    cluster.load(python_image(PYTHON).write(tmp_path_factory.mktemp("images") / "python.tar"))
    return PYTHON


def deployment(
    name: str, image: str, *command: str, replicas: int, port: int | None = None
) -> dict[str, Any]:
    """A Deployment of one restricted container; Ready when its port answers, if it has one."""
    container: dict[str, Any] = {
        "name": name,
        "image": image,
        "imagePullPolicy": "Never",
        "securityContext": RESTRICTED,
    }
    if command:
        container["command"] = list(command)
    if port is not None:
        container["readinessProbe"] = {"tcpSocket": {"port": port}, "periodSeconds": 1}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"terminationGracePeriodSeconds": 1, "containers": [container]},
            },
        },
    }


def service(name: str, *, headless: bool = False) -> dict[str, Any]:
    """A Service of the pods of a Deployment, on port 80."""
    spec: dict[str, Any] = {"selector": {"app": name}, "ports": [{"port": 80, "targetPort": 8000}]}
    if headless:
        spec["clusterIP"] = "None"
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": f"{name}-pods" if headless else name},
        "spec": spec,
    }


def scaled_object(name: str, address: str) -> dict[str, Any]:
    """A ScaledObject between 0 and 2 replicas that a push scaler at `address` wakes."""
    return {
        "apiVersion": "keda.sh/v1alpha1",
        "kind": "ScaledObject",
        "metadata": {"name": name},
        "spec": {
            "scaleTargetRef": {"name": name},
            "pollingInterval": 5,
            "cooldownPeriod": 15,
            "minReplicaCount": 0,
            "maxReplicaCount": 2,
            "triggers": [{"type": "external-push", "metadata": {"scalerAddress": address}}],
        },
    }


def test_the_control_plane_is_the_version_that_was_asked_for(cluster: Cluster) -> None:
    version = json.loads(cluster.kubectl("version", "-o", "json"))
    assert version["serverVersion"]["gitVersion"] == version["clientVersion"]["gitVersion"] == "v1.35.4"
    assert "ok" in cluster.kubectl("get", "--raw", "/readyz")


def test_every_part_runs(cluster: Cluster) -> None:
    state = cluster.directory.state()
    assert state is not None
    assert {"etcd", "kube-apiserver", "kubelet", "kube-proxy", "containerd"} <= state.parts.keys()


def test_a_restricted_pod_of_a_built_image_runs_and_its_log_is_read(
    cluster: Cluster, namespace: str, python: str, eventually: Eventually
) -> None:
    cluster.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    program = "import os, ssl, sqlite3, time; print('user', os.getuid()); time.sleep(600)"
    cluster.kubectl.apply(
        [deployment("app", python, "python3", "-c", program, replicas=1)], namespace=namespace
    )
    cluster.kubectl.wait(
        "deployment/app", "condition=Available", namespace=namespace, timeout_seconds=POD_SECONDS
    )
    eventually(lambda: cluster.kubectl("logs", "deployment/app", namespace=namespace) == "user 65532\n", 10.0)


def test_pods_find_services_by_name_and_reach_them(cluster: Cluster, namespace: str, python: str) -> None:
    kubectl = cluster.kubectl
    web = deployment("web", python, "python3", "-m", "http.server", "8000", replicas=2, port=8000)
    kubectl.apply([web, service("web"), service("web", headless=True)], namespace=namespace)
    kubectl.wait("deployment/web", "condition=Available", namespace=namespace, timeout_seconds=POD_SECONDS)
    program = (
        "import socket, urllib.request;"
        "print(urllib.request.urlopen('http://web/', timeout=5).status,"
        " len({found[4][0] for found in socket.getaddrinfo('web-pods', 80)}))"
    )
    words = ("exec", "deployment/web", "--", "python3", "-c", program)
    assert kubectl(*words, namespace=namespace) == "200 2\n"


def test_this_process_reaches_pods_from_the_clusters_network(
    cluster: Cluster, namespace: str, python: str, network: str
) -> None:
    web = deployment("web", python, "python3", "-m", "http.server", "8000", replicas=1, port=8000)
    cluster.kubectl.apply([web], namespace=namespace)
    cluster.kubectl.wait(
        "deployment/web", "condition=Available", namespace=namespace, timeout_seconds=POD_SECONDS
    )
    (pod,) = cluster.kubectl.get("pods", namespace=namespace)["items"]
    with socket.create_connection((pod["status"]["podIP"], 8000), timeout=5.0) as opened:
        assert opened.getpeername()[1] == 8000


async def test_keda_wakes_a_deployment_when_true_is_pushed(
    cluster: Cluster, namespace: str, network: str
) -> None:
    kubectl = cluster.kubectl
    async with scripted_scaler(network) as scaler:
        await _prepare(cluster, namespace, scaler)
        await scaler.push(True)  # polls still answer false: only the push can have woken it
        await _wait(cluster, namespace, "jsonpath={.spec.replicas}=1", 10.0)
        scaler.active, scaler.value = True, 5
        await _wait(cluster, namespace, "jsonpath={.status.readyReplicas}=1", POD_SECONDS)
        scaler.value = 15
        await _wait(cluster, namespace, "jsonpath={.spec.replicas}=2", 60.0)
        scaler.active, scaler.value = False, 0
        await _wait(cluster, namespace, "jsonpath={.spec.replicas}=0", 90.0)
    await asyncio.to_thread(kubectl, "delete", "scaledobject/model", namespace=namespace)


async def test_kedas_webhook_refuses_a_second_scaledobject_for_one_target(
    cluster: Cluster, namespace: str, network: str
) -> None:
    async with scripted_scaler(network) as scaler:
        await _prepare(cluster, namespace, scaler)
        second = scaled_object("model", scaler.address)
        second["metadata"]["name"] = "other"
        with pytest.raises(CommandFailed, match="is already managed by"):
            await asyncio.to_thread(cluster.kubectl.apply, [second], namespace=namespace)
        await asyncio.to_thread(cluster.kubectl, "delete", "scaledobject/model", namespace=namespace)


async def _prepare(cluster: Cluster, namespace: str, scaler: ScriptedScaler) -> None:
    """A sleeping Deployment whose ScaledObject is Ready and holds a stream."""
    objects = [deployment("model", PAUSE, replicas=0), scaled_object("model", scaler.address)]
    await asyncio.to_thread(cluster.kubectl.apply, objects, namespace=namespace)
    await scaler.has_stream(60.0)
    # a push before this is dropped: KEDA has not noted the metric's name yet
    claim = "jsonpath={.status.externalMetricNames[0]}=s0-pending"
    await asyncio.to_thread(cluster.kubectl.wait, "scaledobject/model", claim, namespace=namespace)


async def _wait(cluster: Cluster, namespace: str, claim: str, seconds: float) -> None:
    await asyncio.to_thread(
        cluster.kubectl.wait, "deployment/model", claim, namespace=namespace, timeout_seconds=seconds
    )


def test_a_part_that_is_killed_is_started_again(cluster: Cluster, eventually: Eventually) -> None:
    def revivals() -> int:
        state = cluster.directory.state()
        return state.revivals.get("kube-scheduler", 0) if state else 0

    assert cluster.part("kube-scheduler").send(signal.SIGKILL)
    eventually(lambda: revivals() == 1, 15.0)


def test_the_kubeconfig_is_readable_by_its_owner_only(cluster: Cluster) -> None:
    secret: list[Path] = [cluster.directory.kubeconfig, *cluster.directory.certificates.rglob("*.key")]
    assert len(secret) > 5
    assert all(path.stat().st_mode & 0o077 == 0 for path in secret)

"""Jobs, claims, placement, node ports, namespaces and old events, on a running embedded cluster."""

import importlib.util
import socket
from pathlib import Path
from typing import Any

import pytest

from noctaya.kube.errors import NotFound
from noctaya.kube.resources import (
    CONFIGMAPS,
    EVENTS,
    JOBS,
    NAMESPACES,
    NODES,
    PODS,
    PVCS,
    PVS,
    SERVICES,
)
from noctaya.local.controllers.expiry import EventExpiry
from tests.local.agent.cluster import LocalCluster, container, is_ready, local_cluster, phase_is, until
from tests.ports import free_port

WAIT = "import signal; signal.sigwait({15})"
SERVE = """
import os, socket, sys
server = socket.create_server((os.environ["IP"], 8000))
while True:
    connection, _ = server.accept()
    connection.sendall(os.environ["NAME"].encode())
    connection.close()
"""
IP_AND_NAME = [
    {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
]


def job(script: str, policy: str = "Never", **spec: Any) -> dict[str, Any]:
    template = {"spec": {"restartPolicy": policy, "containers": [container(script)]}}
    return {"metadata": {"name": "work"}, "spec": {"template": template, **spec}}


def has_condition(kind: str) -> Any:
    return lambda found: any(c["type"] == kind for c in (found.get("status") or {}).get("conditions") or ())


async def test_a_job_runs_to_completion(cluster: LocalCluster) -> None:
    await cluster.create(JOBS, job("print('done')"))

    found = await cluster.until(JOBS, "work", has_condition("Complete"))

    assert found["status"]["succeeded"] == 1
    assert found["status"]["completionTime"]
    (pod,) = (await cluster.client.list(PODS, "default")).items
    assert pod["metadata"]["labels"]["job-name"] == "work"


async def test_a_job_that_keeps_failing_gives_up(cluster: LocalCluster) -> None:
    await cluster.create(JOBS, job("import sys; sys.exit(1)", backoffLimit=1))

    found = await cluster.until(JOBS, "work", has_condition("Failed"))

    assert found["status"]["failed"] == 2
    assert {c["reason"] for c in found["status"]["conditions"]} == {"BackoffLimitExceeded"}


async def test_a_finished_job_goes_after_its_ttl_with_its_pods(cluster: LocalCluster) -> None:
    await cluster.create(JOBS, job("pass", ttlSecondsAfterFinished=0))

    async def nothing_left() -> bool:
        jobs = (await cluster.client.list(JOBS, "default")).items
        pods = (await cluster.client.list(PODS, "default")).items
        return not jobs and not pods

    await cluster.until_event("work", "Completed")
    await until(nothing_left, 8, lambda: "job or pods left")


async def test_a_pod_that_asks_for_a_missing_device_waits_for_it(cluster: LocalCluster) -> None:
    gpu: dict[str, Any] = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    await cluster.pod("wants-gpu", [container(WAIT, **gpu)])

    pod = await cluster.until(PODS, "wants-gpu", lambda p: bool(p["status"].get("conditions")))

    scheduled = next(c for c in pod["status"]["conditions"] if c["type"] == "PodScheduled")
    assert (scheduled["status"], scheduled["reason"]) == ("False", "Unschedulable")
    assert "Insufficient nvidia.com/gpu" in scheduled["message"]
    assert pod["status"]["phase"] == "Pending"
    await cluster.until_event("wants-gpu", "FailedScheduling", "Insufficient nvidia.com/gpu")

    patch = {"status": {"capacity": {"nvidia.com/gpu": "1"}}}
    await cluster.client.patch(NODES, None, "local", patch, subresource="status")
    await cluster.until(PODS, "wants-gpu", is_ready)


async def test_the_node_is_ready_and_has_what_the_settings_say(tmp_path: Path) -> None:
    async with local_cluster(tmp_path, node_resources={"noctaya.io/fake-gpu": 2}) as cluster:
        node = await cluster.until(NODES, "local", lambda n: bool((n.get("status") or {}).get("conditions")))
        assert is_ready(node)
        assert node["status"]["allocatable"]["noctaya.io/fake-gpu"] == "2"
        resources: dict[str, Any] = {"resources": {"limits": {"noctaya.io/fake-gpu": "2"}}}
        await cluster.pod("first", [container(WAIT, **resources)])
        await cluster.until(PODS, "first", is_ready)
        await cluster.pod("second", [container(WAIT, **resources)])
        await cluster.until_event("second", "FailedScheduling")

        await cluster.client.delete(PODS, "default", "first")

        await cluster.until(PODS, "second", is_ready)


CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


async def test_a_claim_can_be_the_directory_of_an_installed_package(cluster: LocalCluster) -> None:
    metadata = {"name": "weights", "annotations": {"local.noctaya.io/python-package": "pytest"}}
    await cluster.create(PVCS, {"metadata": metadata, "spec": CLAIM})
    claim = await cluster.until(PVCS, "weights", phase_is("Bound"))
    volume = await cluster.client.get(PVS, None, claim["spec"]["volumeName"])
    found = importlib.util.find_spec("pytest")
    assert found is not None
    assert found.origin is not None
    package = Path(found.origin).parent
    assert volume["spec"]["hostPath"]["path"] == str(package)
    assert claim["status"]["capacity"] == {"storage": "1Gi"}

    main = container(
        "import os, sys; print(os.path.exists(sys.argv[1]))",
        volumeMounts=[{"name": "w", "mountPath": "/models"}],
    )
    main["args"].append("/models/__init__.py")
    volumes = [{"name": "w", "persistentVolumeClaim": {"claimName": "weights", "readOnly": True}}]
    await cluster.pod("reads", [main], volumes=volumes, restartPolicy="Never")
    await cluster.until(PODS, "reads", phase_is("Succeeded"))
    assert cluster.log_text("reads") == "True\n"

    await cluster.client.delete(PVCS, "default", "weights")
    await cluster.until_gone(PVS, claim["spec"]["volumeName"])
    assert Path(found.origin).stat().st_size > 0, "a package is never removed"  # noqa: ASYNC240


async def test_a_claim_for_a_package_that_is_not_installed_says_so(cluster: LocalCluster) -> None:
    metadata = {"name": "weights", "annotations": {"local.noctaya.io/python-package": "no_such_package"}}
    await cluster.create(PVCS, {"metadata": metadata, "spec": CLAIM})

    await cluster.until_event("weights", "ProvisioningFailed", "no_such_package")
    assert (await cluster.client.get(PVCS, "default", "weights"))["status"]["phase"] == "Pending"


async def test_a_pod_waits_for_its_claim(cluster: LocalCluster) -> None:
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "later"}}]
    await cluster.pod("waits", [container(WAIT)], volumes=volumes)
    await cluster.until_event("waits", "FailedScheduling", 'persistentvolumeclaim "later" not found')

    await cluster.create(PVCS, {"metadata": {"name": "later"}, "spec": CLAIM})

    await cluster.until(PODS, "waits", is_ready)


def node_port(port: int) -> dict[str, Any]:
    ports = [{"name": "tcp", "port": 80, "targetPort": 8000, "nodePort": port}]
    return {
        "metadata": {"name": "web"},
        "spec": {"type": "NodePort", "selector": {"kind": "web"}, "ports": ports},
    }


def ask(port: int) -> str:
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2) as connection:
            return connection.recv(100).decode()
    except OSError:
        return ""


async def test_a_node_port_reaches_every_ready_pod_in_turn(cluster: LocalCluster) -> None:
    from asyncio import to_thread

    port = free_port()
    await cluster.create(SERVICES, node_port(port))
    probe = {"tcpSocket": {"port": 8000}, "periodSeconds": 1}
    for name in ("one", "two"):
        body = {
            "metadata": {"name": name, "labels": {"kind": "web"}},
            "spec": {"containers": [container(SERVE, env=IP_AND_NAME, readinessProbe=probe)]},
        }
        await cluster.create(PODS, body)
    for name in ("one", "two"):
        await cluster.until(PODS, name, is_ready)

    async def both_answer() -> bool:
        return {await to_thread(ask, port) for _ in range(4)} == {"one", "two"}

    await until(both_answer, 5, lambda: "not both answer")


async def test_a_node_port_in_use_is_named(cluster: LocalCluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        await cluster.create(SERVICES, node_port(port))
        await cluster.until_event("web", "NodePortInUse", f"127.0.0.1:{port}")


async def test_a_deleted_namespace_is_emptied_and_goes(cluster: LocalCluster) -> None:
    await cluster.create(NAMESPACES, {"metadata": {"name": "temporary"}})
    await cluster.create(CONFIGMAPS, {"metadata": {"name": "a"}}, "temporary")
    await cluster.create(
        PODS, {"metadata": {"name": "p"}, "spec": {"containers": [container(WAIT)]}}, "temporary"
    )

    await cluster.client.delete(NAMESPACES, None, "temporary")

    await cluster.until_gone(NAMESPACES, "temporary")
    with pytest.raises(NotFound):
        await cluster.client.get(CONFIGMAPS, "temporary", "a")


async def test_old_events_are_swept_away(cluster: LocalCluster) -> None:
    about = {"kind": "Pod", "namespace": "default", "name": "p", "uid": "u"}
    for name, at in (("old", "2026-01-01T00:00:00Z"), ("new", "2026-01-01T02:00:00Z")):
        body = {
            "metadata": {"name": name},
            "involvedObject": about,
            "reason": "R",
            "message": "m",
            "lastTimestamp": at,
        }
        await cluster.create(EVENTS, body)

    at_two = 1767232800.0 + 60
    removed = await EventExpiry(cluster.client, age_seconds=3600, sweep_seconds=60).sweep(at_two)

    assert removed == 1
    assert (await cluster.client.get(EVENTS, "default", "new"))["reason"] == "R"

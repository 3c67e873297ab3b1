"""Probes against real processes: readiness flips quickly, liveness restarts, startup holds the others back."""

import time
from pathlib import Path

from noctaya.kube.resources import PODS
from tests.local.agent.cluster import LocalCluster, container, first_container, is_ready

MOUNTS = [{"name": "state", "mountPath": "/state"}]


async def test_readiness_follows_the_check_both_ways(cluster: LocalCluster, tmp_path: Path) -> None:
    # A slow period: only the prompt looks in between can see the first success so soon.
    probe = {"exec": {"command": ["test", "-e", "/state/ok"]}, "periodSeconds": 1, "failureThreshold": 1}
    (tmp_path / "state").mkdir()
    volume = {"name": "state", "hostPath": {"path": str(tmp_path / "state")}}
    wait = "import signal; signal.sigwait({15})"
    await cluster.pod("flips", [container(wait, readinessProbe=probe, volumeMounts=MOUNTS)], volumes=[volume])
    pod = await cluster.until(PODS, "flips", lambda p: bool(first_container(p).get("started")))
    assert not is_ready(pod)
    await cluster.until_event("flips", "Unhealthy", "Readiness probe failed")

    (tmp_path / "state" / "ok").touch()
    started = time.monotonic()
    await cluster.until(PODS, "flips", is_ready)
    assert time.monotonic() - started < 0.8

    (tmp_path / "state" / "ok").unlink()
    pod = await cluster.until(PODS, "flips", lambda p: not is_ready(p))
    assert first_container(pod)["restartCount"] == 0
    assert pod["status"]["phase"] == "Running"


async def test_a_failing_liveness_probe_restarts_the_container(cluster: LocalCluster) -> None:
    script = "import signal; signal.sigwait({15})"
    probe = {"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1}
    await cluster.pod("sick", [container(script, livenessProbe=probe)], terminationGracePeriodSeconds=1)

    await cluster.until(PODS, "sick", lambda p: first_container(p).get("restartCount", 0) >= 1)

    await cluster.until_event("sick", "Killing", "failed liveness probe, will be restarted")


async def test_liveness_waits_for_startup_and_http_is_spoken(cluster: LocalCluster) -> None:
    probe = {"httpGet": {"path": "/health", "port": 8000}, "periodSeconds": 1}
    engine = {
        "name": "main",
        "image": "noctaya/scripted:any",
        "args": ["--startup-delay", "1500ms"],
        "startupProbe": {**probe, "failureThreshold": 30},
        "livenessProbe": {**probe, "failureThreshold": 1},
        "readinessProbe": probe,
    }
    await cluster.pod("engine", [engine])

    pod = await cluster.until(PODS, "engine", is_ready)

    assert first_container(pod)["restartCount"] == 0
    assert first_container(pod)["started"] is True


async def test_a_container_that_never_starts_up_is_killed_after_its_threshold(cluster: LocalCluster) -> None:
    probe = {"tcpSocket": {"port": 9}, "periodSeconds": 1, "failureThreshold": 2}
    script = "import signal; signal.sigwait({15})"
    await cluster.pod("never", [container(script, startupProbe=probe)], restartPolicy="Never")

    started = time.monotonic()
    pod = await cluster.until(PODS, "never", lambda p: "terminated" in first_container(p).get("state", {}))

    assert 0.9 <= time.monotonic() - started < 4
    assert not is_ready(pod)
    await cluster.until_event("never", "Killing", "failed startup probe")

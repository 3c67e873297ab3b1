"""A cluster on a state directory: killed outright, it leaves no process, and the next start has every object again."""

import signal
from pathlib import Path

import pytest

from noctaya.local.cluster import free_port
from tests.e2e.cluster import EmbeddedCluster
from tests.e2e.scripted import manifest, scripted_runtime, scripted_service

ORPHAN_SECONDS = 5.0


def start(directory: Path) -> EmbeddedCluster:
    return EmbeddedCluster.start(directory, free_port(), "--gateways", "1", "--state", "state")


def test_a_killed_cluster_leaves_no_process_and_starts_again_from_its_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # the state directory is given as a relative path, as people do
    first = start(tmp_path)
    try:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ai"}}
        first.kubectl(
            "apply", "-f", "-",
            stdin=manifest(namespace, scripted_runtime("kept"), scripted_service("kept", "kept")),
        )  # fmt: skip
        first.wait_asleep("kept")
        uid = first.get("llmservices", "kept")["metadata"]["uid"]
        roles = {pod["metadata"]["name"] for pod in first.items("pods", "noctaya-system", "")}
        below = set(first.descendants())
    finally:
        first.kill()
    first.wait_gone(below, ORPHAN_SECONDS)

    again = start(tmp_path)
    try:
        pods = again.items("pods", "noctaya-system", "")
        assert roles.isdisjoint(pod["metadata"]["name"] for pod in pods)
        assert len(pods) == 2, "pods of the last run are still there"
        assert again.get("llmservices", "kept")["metadata"]["uid"] == uid
    finally:
        assert again.stop() == 128 + signal.SIGINT

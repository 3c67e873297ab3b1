"""What is said before anything is started: requirements, the cache's key, progress."""

import io
import os
import shutil
import time
from pathlib import Path

import pytest
from rich.console import Console

from tests.cluster import binaries, requirements
from tests.cluster.cluster import Cluster
from tests.cluster.errors import ClusterError, RequirementsMissing
from tests.cluster.isolation import HiddenDirectory, check
from tests.cluster.processes import ProcessId
from tests.cluster.progress import Progress
from tests.cluster.state import Directory, Journal, Launch


def test_everything_that_is_missing_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda program: None)
    monkeypatch.setattr(requirements, "NETWORK_PLUGIN_FOLDERS", ())
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(requirements, "available_memory_bytes", lambda: 1)
    with pytest.raises(RequirementsMissing) as refused:
        requirements.need(requirements.missing_for_node())
    message = str(refused.value)
    for word in ("root", "containerd", "iptables", "network plugins", requirements.INSTALL, "memory"):
        assert word in message


def test_an_absent_go_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RequirementsMissing, match=r"Go 1\.26 or newer"):
        binaries.cached()


@pytest.mark.skipif(shutil.which("go") is None, reason="needs Go to name its version")
def test_a_changed_source_is_another_build(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    shutil.copytree(binaries.HERE, tmp_path / "sources", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(binaries, "HERE", tmp_path / "sources")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    key = binaries._key()
    (tmp_path / "sources" / "README").write_text("not a source")
    assert binaries._key() == key
    (tmp_path / "sources" / "pause" / "main.go").write_text("package main\n")
    assert binaries._key() != key
    assert binaries.cached() is None


def test_the_programs_know_their_versions() -> None:
    (link,) = (flag for flag in binaries._flags() if flag.startswith("-ldflags="))
    assert "k8s.io/component-base/version.gitVersion=v1.35.4" in link
    assert "keda/v2/version.Version=2.20.2" in link


def test_without_a_terminal_a_long_step_is_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    screen = io.StringIO()
    with Progress(Console(file=screen, force_terminal=False, width=200)) as told:
        for second in range(40):
            now[0] = float(second)
            told.working("building")
        told.finished("built", 40.0)
    assert screen.getvalue().splitlines() == ["building (15 s)", "building (30 s)", "  40.0 s  built"]


@pytest.mark.parametrize("folder", ["/run/x", "/var/lib/x", "/var/log/x"])
def test_a_directory_that_the_cluster_would_hide_from_itself_is_refused(folder: str) -> None:
    with pytest.raises(HiddenDirectory, match="cannot have its directory"):
        check(Path(folder))


def test_a_directory_with_other_files_is_not_taken(tmp_path: Path) -> None:
    (tmp_path / "letter.txt").write_text("dear")
    cluster = Cluster(tmp_path, binaries.Binaries(tmp_path))
    with pytest.raises(ClusterError, match="holds files that are no cluster's"), Progress() as told:
        cluster.up("quick", told)
    assert (tmp_path / "letter.txt").read_text() == "dear"


def test_what_guard_and_keeper_write_is_read_again(tmp_path: Path) -> None:
    directory = Directory(tmp_path)
    assert directory.launch() is None
    assert directory.state() is None
    launch = Launch("node", "/programs", ProcessId(1, 2), ProcessId(3, 4), "branch", {"vm/x": "1\n"})
    directory.write_launch(launch)
    assert directory.launch() == launch
    journal = Journal(directory)
    with journal.step("control plane"):
        state = directory.state()
        assert state is not None
        assert (state.phase, state.doing) == ("starting", "control plane")
    journal.failed("etcd ended")
    journal.stopped()
    state = directory.state()
    assert state is not None
    assert (state.phase, state.problem, [step.name for step in state.steps]) == (
        "failed",
        "etcd ended",
        ["control plane"],
    )

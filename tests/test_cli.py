"""The command line: what it refuses before anything starts, and where it may be run from."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from noctaya.__main__ import ENDED_BY_SIGTERM

NOCTAYA = (sys.executable, "-m", "noctaya")


def run(*arguments: str, shell: str = "") -> subprocess.CompletedProcess[str]:
    command = ["sh", "-c", f'exec "$@" {shell}', "sh", *NOCTAYA, *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("option", ["--port", "--api-port"])
@pytest.mark.parametrize("port", ["65536", "-1", "http"])
def test_a_port_that_cannot_be_is_refused_and_named(option: str, port: str) -> None:
    refused = run("local", option, port)
    assert refused.returncode == 2
    assert option in refused.stderr
    assert "Traceback" not in refused.stderr


@pytest.mark.parametrize("closed", [">&-", "<&-", "2>&-", "<&- >&- 2>&-"])
def test_a_command_runs_with_standard_streams_closed(closed: str) -> None:
    assert run("version", shell=closed).returncode == 0


def test_closed_standard_streams_are_opened_so_that_no_socket_takes_their_numbers() -> None:
    program = (
        "import os, noctaya.cli as cli; cli.open_standard_streams(); "
        "[os.fstat(number) for number in (0, 1, 2)]; print('lost')"
    )
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" <&- >&-', "sh", sys.executable, "-c", program],
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_kubeconfig_of_a_persons_own_is_refused_before_anything_starts(tmp_path: object) -> None:
    mine = f"{tmp_path}/config"
    with open(mine, "w") as file:
        file.write("clusters: [{name: production}]")
    refused = run("local", "--port", "0", "--kubeconfig", mine)
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert refused.stderr.startswith(f"noctaya: {mine} is not a kubeconfig of an embedded cluster")


def test_a_container_that_is_told_to_end_while_it_loads_ends_at_once(tmp_path: Path) -> None:
    """The kernel drops a signal to a container's first process that has no handler for it; an ignored one plays that here."""
    (tmp_path / "typer.py").write_text("import time; print('loading', flush=True); time.sleep(60)\n")
    process = subprocess.Popen(
        ["sh", "-c", "trap '' TERM; exec \"$@\"", "sh", *NOCTAYA, "gateway"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
    )
    with process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == b"loading\n"
            process.terminate()
            assert process.wait(30) == ENDED_BY_SIGTERM
        finally:
            process.kill()

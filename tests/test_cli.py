"""The command line: what it refuses before anything starts, and where it may be run from."""

import subprocess
import sys

import pytest

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

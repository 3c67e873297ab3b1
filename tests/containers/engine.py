"""A Docker engine of the tests' own: a daemon in namespaces of its own, which leaves nothing on the machine.

It makes no bridge and no firewall rule: containers use the machine's network, which is what they meet in the tests. Its
`/run` is its own, its mounts end with it, its control groups are one branch that is removed. Invariant: killed in whatever
way, the tests take the daemon along and the daemon its containers (the kernel ends the process namespace). How it fails:
`NotReadyInTime` with the daemon's last lines.
"""

import os
import shlex
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster import control_groups
from tests.cluster.errors import NotReadyInTime, tail
from tests.cluster.processes import ProcessId, end, in_namespace, run

GIVEN = os.environ.get("DOCKER_HOST")
"""An engine that was there before the tests."""
PROGRAMS = ("dockerd", "containerd", "runc", "setpriv", "unshare", "mount")
START_SECONDS = 120.0
STOP_SECONDS = 30.0
PING_SECONDS = 5.0
TICK_SECONDS = 0.05


def missing() -> str:
    """What keeps this machine from running an engine of the tests' own; empty when nothing does."""
    if os.geteuid() != 0:
        return "root starts a Docker engine; else name a running one with DOCKER_HOST"
    absent = [program for program in PROGRAMS if shutil.which(program) is None]
    return (
        f"{', '.join(absent)} not found; on Debian: apt-get install --no-install-recommends docker.io"
        if absent
        else ""
    )


@contextmanager
def own_engine(folder: Path) -> Iterator[str]:
    """Have a daemon for the body; gives what belongs into DOCKER_HOST. `folder` must not be below /run."""
    host, log, branch = f"unix://{folder}/socket", folder / "dockerd.log", f"noctaya-docker-{os.getpid()}"
    (folder / "config.json").write_text("{}")  # not the machine's own configuration
    daemon = [
        "dockerd",
        f"--config-file={folder}/config.json",
        f"--data-root={folder}/data",
        f"--exec-root={folder}/exec",
        f"--pidfile={folder}/pid",
        f"--host={host}",
        f"--cgroup-parent=/{branch}",
        "--bridge=none",
        "--iptables=false",
        "--ip6tables=false",
        "--ip-forward=false",
        "--log-level=warn",
    ]
    if "--oom-score-adjust" in run(["dockerd", "--help"]):
        daemon.append("--oom-score-adjust=0")  # the default needs a capability that containers lack
    inside = f"mount -t tmpfs tmpfs /run && exec {shlex.join(daemon)}"
    kept_apart = ["unshare", "--mount", "--pid", "--fork", "--kill-child=KILL", "--mount-proc"]
    with log.open("wb") as output:
        started = subprocess.Popen(
            ["setpriv", "--pdeathsig=KILL", *kept_apart, "sh", "-c", inside],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        _wait_until_it_answers(started, folder / "socket", log)
        yield host
    finally:
        _end(started)
        left = control_groups.remove(branch)
    assert not left, f"control groups that would not go: {left}"


def _wait_until_it_answers(started: "subprocess.Popen[bytes]", address: Path, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not _answers(address):
        if started.poll() is not None or time.monotonic() > deadline:
            raise NotReadyInTime("the Docker engine", START_SECONDS, tail(log))
        time.sleep(TICK_SECONDS)


def _answers(address: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PING_SECONDS)
        try:
            connection.connect(str(address))
            connection.sendall(b"GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n")
            return b" 200 OK" in connection.recv(64)
        except OSError:  # not there yet, or too busy
            return False


def _end(started: "subprocess.Popen[bytes]") -> None:
    """End the daemon and, with its process namespace, everything in it."""
    namespaces = {
        os.readlink(f"/proc/{child}/ns/pid")
        for child in Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()
    }
    inside = [process for name in namespaces for process in in_namespace(name)]
    first = [process for process in inside if process.number_inside() == 1]
    end(first, STOP_SECONDS)
    try:
        started.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        started.kill()
        started.wait()
    _wait_for_the_end_of(inside)


def _wait_for_the_end_of(processes: list[ProcessId]) -> None:
    deadline = time.monotonic() + STOP_SECONDS
    while left := [process for process in processes if process.is_alive]:
        if time.monotonic() > deadline:
            for process in left:
                process.send(signal.SIGKILL)
            deadline += STOP_SECONDS
        time.sleep(TICK_SECONDS)

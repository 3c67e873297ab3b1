"""Processes by identity, and programs run to their end.

A process id alone names whoever holds it now. With the start time (clock ticks since boot, `/proc/<pid>/stat` field 22)
it names one process for ever; every signal is sent after that check. How it fails: a process that is gone, or whose id
went to another, is simply not alive.
"""

import os
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import msgspec

from tests.cluster.errors import CommandFailed

TICK_SECONDS = 0.05
GRACE_SECONDS = 10.0


class ProcessId(msgspec.Struct, frozen=True):
    """One process, for ever: its id and when it started."""

    pid: int
    started: int

    @classmethod
    def of(cls, pid: int) -> "ProcessId | None":
        """The process that holds `pid` now, or None."""
        fields = _stat(pid)
        return cls(pid, int(fields[19])) if fields else None

    @property
    def is_alive(self) -> bool:
        """It runs still; one that has ended and waits to be collected does not count."""
        fields = _stat(self.pid)
        return fields is not None and int(fields[19]) == self.started and fields[0] not in ("Z", "X")

    def number_inside(self) -> int:
        """Its number in the innermost process namespace that it is in; 0 when it is gone."""
        try:
            status = Path(f"/proc/{self.pid}/status").read_text()
        except (FileNotFoundError, ProcessLookupError):
            return 0
        return int(next(line for line in status.splitlines() if line.startswith("NSpid:")).split()[-1])

    def send(self, number: signal.Signals) -> bool:
        """Send a signal to this very process; false when it is gone."""
        if not self.is_alive:
            return False
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return False
        return True


def in_namespace(namespace: str) -> list[ProcessId]:
    """Processes that run in a process namespace, by its name as `/proc/<pid>/ns/pid` gives it."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                is_inside = os.readlink(entry / "ns" / "pid") == namespace
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
            if is_inside and (process := ProcessId.of(int(entry.name))) and process.is_alive:
                found.append(process)
    return found


def _stat(pid: int) -> list[str] | None:
    """Fields of `/proc/<pid>/stat` from the third (the state) on: the second may hold anything, brackets too."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def end(processes: Iterable[ProcessId], grace_seconds: float = GRACE_SECONDS) -> None:
    """End these processes and nothing else: SIGTERM, then SIGKILL for those that outstay the grace."""
    waiting = [process for process in processes if process.send(signal.SIGTERM)]
    deadline = time.monotonic() + grace_seconds
    while (waiting := [process for process in waiting if process.is_alive]) and time.monotonic() < deadline:
        time.sleep(TICK_SECONDS)
    for process in waiting:
        process.send(signal.SIGKILL)
    while any(process.is_alive for process in waiting):
        time.sleep(TICK_SECONDS)


def run(
    argv: Sequence[str | Path],
    *,
    stdin: str | None = None,
    environment: Mapping[str, str] | None = None,
    timeout_seconds: float = 60.0,
) -> str:
    """Run a program to its end and return what it printed.

    Raises:
        CommandFailed: it ended badly, or not in time (then it is killed).
    """
    words = [str(word) for word in argv]
    try:
        done = subprocess.run(
            words,
            input=stdin,
            stdin=subprocess.DEVNULL if stdin is None else None,
            capture_output=True,
            text=True,
            timeout=timeout_seconds,
            env={**os.environ, **(environment or {})},
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise CommandFailed(words, None, f"killed after {timeout_seconds:.0f} s") from late
    except FileNotFoundError as missing:
        raise CommandFailed(words, 127, str(missing)) from missing
    if done.returncode:
        raise CommandFailed(words, done.returncode, done.stderr or done.stdout)
    return done.stdout

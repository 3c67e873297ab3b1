"""The cluster's long-running programs: started with a log each, looked after, ended in order.

While the cluster starts, a part that ends is an error (`PartEnded`, with its log). Once it is up, a part that ends is
started again after a moment, as a machine's init would; a test may kill one and watch.
"""

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.cluster.errors import NotReadyInTime, PartEnded
from tests.cluster.processes import ProcessId, end

REVIVE_SECONDS = 1.0
TICK_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class Part:
    """A program and how it is run."""

    name: str
    argv: Sequence[str | Path]
    environment: Mapping[str, str] = field(default_factory=dict)


class Parts:
    """All parts of one cluster, children of this process."""

    def __init__(
        self, logs: Path, on_change: Callable[[dict[str, ProcessId]], None] = lambda _: None
    ) -> None:
        """`on_change` is told the processes that run whenever one was started."""
        self._logs = logs
        self._on_change = on_change
        self._running: dict[str, tuple[Part, subprocess.Popen[bytes]]] = {}
        self._ended_at: dict[str, float] = {}
        self.revivals: dict[str, int] = {}

    def start(self, part: Part) -> None:
        """Start it, in a session of its own: Ctrl-C on a terminal is for whoever owns the terminal."""
        with (self._logs / f"{part.name}.log").open("ab") as log:
            process = subprocess.Popen(
                [str(word) for word in part.argv],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, **part.environment},
            )
        self._running[part.name] = (part, process)
        self._on_change(self.ids())

    def ids(self) -> dict[str, ProcessId]:
        """The processes that run now."""
        found = {name: ProcessId.of(process.pid) for name, (_, process) in self._running.items()}
        return {name: process for name, process in found.items() if process is not None}

    def check(self) -> None:
        """Raise `PartEnded` for a part that has ended."""
        for name, (_, process) in self._running.items():
            if process.poll() is not None:
                raise PartEnded(name, process.returncode, self._logs / f"{name}.log")

    def until(self, what: str, claim: Callable[[], bool], seconds: float) -> None:
        """Return when the claim holds.

        Raises:
            PartEnded: a part ended meanwhile.
            NotReadyInTime: it never held.
        """
        deadline = time.monotonic() + seconds
        while not claim():
            self.check()
            if time.monotonic() > deadline:
                raise NotReadyInTime(what, seconds)
            time.sleep(TICK_SECONDS)

    def owns(self, pid: int) -> bool:
        """The process is a part (and is collected here, by nobody else)."""
        return any(process.pid == pid for _, process in self._running.values())

    def revive(self, now: float) -> None:
        """Start again what ended a moment ago."""
        for name, (part, process) in list(self._running.items()):
            if process.poll() is None:
                continue
            if now - self._ended_at.setdefault(name, now) >= REVIVE_SECONDS:
                del self._ended_at[name]
                self.revivals[name] = self.revivals.get(name, 0) + 1
                self.start(part)

    def stop(self) -> None:
        """End them all, the youngest first: what was started first (the store) is needed longest."""
        for _, process in reversed(list(self._running.values())):
            if process.poll() is None and (identity := ProcessId.of(process.pid)):
                end([identity])
            process.wait()
        self._running.clear()


def reap_orphans(parts: Parts) -> None:
    """Collect ended processes that nobody else will; the first process of a namespace inherits them all."""
    while True:
        try:
            ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        if ended is None or parts.owns(ended.si_pid):  # a part's end is its own affair: `revive` sees it
            return
        os.waitpid(ended.si_pid, 0)

"""The process outside that starts the keeper, outlives it, and leaves the machine as it was.

It notes what no namespace keeps apart (`sysctls`, `control_groups`), makes the keeper, passes SIGTERM on to it, and cleans up when it has
ended. It is ended by `down`, or by its lifeline: a pipe whose other end a test run holds, so that a test run that is killed
takes its cluster along. If the guard itself is killed, the kernel kills the keeper, and `down` cleans up.
"""

import argparse
import os
import select
import signal
import sys
import time
from pathlib import Path
from typing import get_args

from tests.cluster import control_groups, sysctls
from tests.cluster.errors import ClusterError
from tests.cluster.keeper import Plan, keep
from tests.cluster.namespaces import Kind, end_with_parent, unshare
from tests.cluster.processes import ProcessId, end
from tests.cluster.state import Directory, Launch, Mode

STOP_SECONDS = 30.0
TICK_SECONDS = 0.2
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD)


class Guard:
    """One cluster's guard."""

    def __init__(self, plan: Plan, lifeline: int | None) -> None:
        self._plan = plan
        self._lifeline = lifeline
        self._directory = Directory(plan.directory)

    def run(self) -> int:
        """Start the keeper and stay until it has ended; returns its exit code."""
        before = sysctls.current() if self._plan.mode == "node" else {}
        branch = f"noctaya-test-{os.getpid()}"
        signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
        if self._plan.mode == "node":
            unshare(Kind.PROCESS)
        keeper_pid = os.fork()
        if keeper_pid == 0:
            self._become_keeper(branch)
        guard, keeper = ProcessId.of(os.getpid()), ProcessId.of(keeper_pid)
        if guard is None or keeper is None:
            raise ClusterError("the keeper ended before it began")
        launch = Launch(self._plan.mode, str(self._plan.binaries), guard, keeper, branch, before)
        self._directory.write_launch(launch)
        code = self._wait(keeper)
        clean_up(self._directory, launch)
        return code

    def _become_keeper(self, branch: str) -> None:
        end_with_parent()
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
        if self._lifeline is not None:
            os.close(self._lifeline)
        code = 1
        try:
            code = keep(self._plan, branch)
        finally:
            os._exit(code)  # the guard's own ending is not the keeper's to run

    def _wait(self, keeper: ProcessId) -> int:
        asked_at: float | None = None
        while True:
            received = signal.sigtimedwait(_SIGNALS, TICK_SECONDS)
            pid, status = os.waitpid(keeper.pid, os.WNOHANG)
            if pid:
                return os.waitstatus_to_exitcode(status)
            told = received is not None and received.si_signo == signal.SIGTERM
            if asked_at is None and (told or self._is_lifeline_cut()):
                asked_at = time.monotonic()
                keeper.send(signal.SIGTERM)
            if asked_at is not None and time.monotonic() - asked_at > STOP_SECONDS:
                keeper.send(signal.SIGKILL)

    def _is_lifeline_cut(self) -> bool:
        """Nothing is ever written into it: it can be read only when its other end is closed."""
        return self._lifeline is not None and bool(select.select([self._lifeline], [], [], 0)[0])


def clean_up(directory: Directory, launch: Launch) -> None:
    """Put the machine back as it was. Needs the keeper to have ended; safe to do again.

    Raises:
        ClusterError: something of the cluster still runs.
    """
    if launch.mode == "quick":
        state = directory.state()
        end(state.parts.values() if state else ())
    else:
        sysctls.restore(launch.sysctls)
        if left := control_groups.remove(launch.branch):
            raise ClusterError(f"these control groups would not go: {', '.join(map(str, left))}")
    launch.cleaned = True
    directory.write_launch(launch)


def main(arguments: list[str]) -> int:
    """Entry point of the guard's process."""
    parser = argparse.ArgumentParser(prog="tests.cluster.guard")
    parser.add_argument("--dir", type=Path, required=True)
    parser.add_argument("--binaries", type=Path, required=True)
    parser.add_argument("--mode", choices=get_args(Mode), required=True)
    parser.add_argument("--without-keda", action="store_true")
    parser.add_argument("--lifeline", type=int)
    given = parser.parse_args(arguments)
    plan = Plan(given.dir, given.binaries, given.mode, with_keda=not given.without_keda)
    return Guard(plan, given.lifeline).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

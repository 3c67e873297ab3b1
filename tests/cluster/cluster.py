"""A cluster, as its users hold it: start, look, enter, end. By hand (`__main__`) and in tests (`conftest`) alike.

`up` returns when everything is ready; the cluster then lives on its own. `down` ends exactly what `up` started, by process
id and start time, and checks that the machine is as it was.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.cluster import isolation
from tests.cluster.binaries import Binaries
from tests.cluster.errors import AlreadyRunning, ClusterError, NotReadyInTime, NotRunning, StartFailed, tail
from tests.cluster.guard import STOP_SECONDS, clean_up
from tests.cluster.kubectl import Kubectl
from tests.cluster.namespaces import network_of
from tests.cluster.node import CTR, IMPORT_SECONDS
from tests.cluster.processes import ProcessId, in_namespace, run
from tests.cluster.progress import Progress
from tests.cluster.requirements import missing_for_node, missing_for_quick, need
from tests.cluster.state import Directory, Launch, Mode, State

ROOT = Path(__file__).parents[2]
START_SECONDS = 400.0
TICK_SECONDS = 0.05
CLEAN_SECONDS = 15.0


def default_directory() -> Path:
    """Where a cluster that is started by hand lives, unless told otherwise."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "noctaya" / "cluster"


class Cluster:
    """The cluster of one directory."""

    def __init__(self, directory: Path, binaries: Binaries) -> None:
        self.directory = Directory(directory)
        self.binaries = binaries
        self.kubectl = Kubectl(binaries.program("kubectl"), self.directory.kubeconfig, self.enter)
        self._guard: subprocess.Popen[bytes] | None = None

    def up(
        self, mode: Mode, progress: Progress, *, with_keda: bool = True, lifeline: int | None = None
    ) -> State:
        """Start it and return when it is ready.

        Raises:
            RequirementsMissing: this machine lacks something.
            AlreadyRunning: it is up.
            StartFailed: it gave up; it has ended again.
        """
        need(missing_for_node() if mode == "node" else missing_for_quick())
        if mode == "node":
            isolation.check(self.directory.path)
        self._make_room()
        self._guard = self._start_guard(mode, with_keda, lifeline)
        try:
            return self._follow(self._guard, progress)
        except BaseException:
            self.down()
            raise

    def down(self) -> None:
        """End it; nothing happens when it has ended already.

        Raises:
            ClusterError: something of it would not end.
        """
        if self._guard is not None:
            self._end_guard(self._guard)
            self._guard = None
        launch = self.directory.launch()
        if launch is None:
            return
        launch.guard.send(signal.SIGTERM)
        _wait_for_end(launch.guard, STOP_SECONDS + CLEAN_SECONDS)
        # What follows finds nothing to do unless the guard was killed.
        launch.keeper.send(signal.SIGKILL)
        _wait_for_end(launch.keeper, CLEAN_SECONDS)
        again = self.directory.launch() or launch
        if not again.cleaned:
            clean_up(self.directory, again)

    def is_up(self) -> bool:
        """Some process of it runs."""
        launch = self.directory.launch()
        return launch is not None and (launch.guard.is_alive or launch.keeper.is_alive)

    @property
    def server(self) -> str:
        """The API server's URL; in node mode only in the cluster's network (`network`)."""
        return self._ready()[1].server

    @contextmanager
    def network(self) -> Iterator[None]:
        """Be in the cluster's network: sockets made and programs started in the body are there. Quick mode has none."""
        launch, _ = self._ready()
        if launch.mode == "quick":
            yield
            return
        with network_of(launch.keeper.pid):
            yield

    @property
    def namespace(self) -> str:
        """The name of the process namespace that everything of it is in (node mode)."""
        return os.readlink(f"/proc/{self._ready()[0].keeper.pid}/ns/pid")

    def part(self, name: str) -> ProcessId:
        """The process of a part, by its number here: for tests that kill or freeze one."""
        launch, state = self._ready()
        inside = state.parts[name]
        if launch.mode == "quick":
            return inside
        (found,) = (
            process for process in in_namespace(self.namespace) if process.number_inside() == inside.pid
        )
        return found

    def load(self, archive: Path) -> None:
        """Make an image archive known to the node."""
        run([*self.enter(everything=True), *CTR, "images", "import", archive], timeout_seconds=IMPORT_SECONDS)

    def enter(self, *, everything: bool = False) -> list[str]:
        """Words before a command that put it into the cluster's network, or into its mounts and processes too."""
        launch, _ = self._ready()
        if launch.mode == "quick":
            return []
        kinds = ["--net", *(["--mount", "--pid"] if everything else [])]
        return ["nsenter", f"--target={launch.keeper.pid}", *kinds]

    def _ready(self) -> tuple[Launch, State]:
        launch, state = self.directory.launch(), self.directory.state()
        if launch is None or state is None or state.phase != "ready" or not launch.keeper.is_alive:
            raise NotRunning(self.directory.path)
        return launch, state

    def _make_room(self) -> None:
        """An empty directory, unless it belongs to a cluster that is up or to somebody else."""
        path = self.directory.path
        if self.is_up():
            raise AlreadyRunning(path)
        if self.directory.launch() is not None:
            self.down()
            shutil.rmtree(path)
        elif path.exists() and any(path.iterdir()):
            raise ClusterError(f"{path} holds files that are no cluster's; give another --dir")
        self.directory.make()

    def _start_guard(self, mode: Mode, with_keda: bool, lifeline: int | None) -> "subprocess.Popen[bytes]":
        words = [
            f"--dir={self.directory.path}",
            f"--binaries={self.binaries.folder}",
            f"--mode={mode}",
            *([] if with_keda else ["--without-keda"]),
            *([] if lifeline is None else [f"--lifeline={lifeline}"]),
        ]
        with (self.directory.logs / "keeper.log").open("ab") as log:
            return subprocess.Popen(
                [sys.executable, "-m", "tests.cluster.guard", *words],
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                pass_fds=() if lifeline is None else (lifeline,),
                env={**os.environ, "PYTHONPATH": str(ROOT)},
            )

    def _follow(self, guard: "subprocess.Popen[bytes]", progress: Progress) -> State:
        told = 0
        deadline = time.monotonic() + START_SECONDS
        while True:
            ended = guard.poll() is not None
            state = self.directory.state() or State()
            for step in state.steps[told:]:
                progress.finished(step.name, step.seconds)
            told = len(state.steps)
            if state.phase == "ready":
                return state
            if ended:
                log = self.directory.logs / "keeper.log"
                raise StartFailed(state.problem or tail(log), self.directory.logs)
            if time.monotonic() > deadline:
                raise NotReadyInTime(f"the cluster ({state.doing})", START_SECONDS)
            progress.working(f"starting: {state.doing}")
            time.sleep(TICK_SECONDS)

    def _end_guard(self, guard: "subprocess.Popen[bytes]") -> None:
        if guard.poll() is None:
            guard.terminate()
        try:
            guard.wait(STOP_SECONDS + CLEAN_SECONDS)
        except subprocess.TimeoutExpired:
            guard.kill()
            guard.wait()


def _wait_for_end(process: ProcessId, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while process.is_alive:
        if time.monotonic() > deadline:
            process.send(signal.SIGKILL)
            deadline += seconds
        time.sleep(TICK_SECONDS)

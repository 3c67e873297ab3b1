"""What a cluster's directory says about it: two files, each with one writer, replaced whole.

`launch.json` is the guard's (outside: which processes, what the machine was like before); `state.json` is the keeper's
(inside: how far it is, how to reach it). Everyone else only reads. How it fails: a file that is not there is None.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TypeVar

import msgspec

from tests.cluster.errors import ClusterError
from tests.cluster.processes import ProcessId

Mode = Literal["quick", "node"]
Phase = Literal["starting", "ready", "failed", "stopped"]


class Launch(msgspec.Struct):
    """Written by the guard before the keeper does anything."""

    mode: Mode
    binaries: str
    """The folder of the programs that it runs."""
    guard: ProcessId
    keeper: ProcessId
    branch: str
    """The cluster's own branch of the control groups."""
    sysctls: dict[str, str]
    """Machine-wide settings as they were before; no namespace keeps those apart."""
    cleaned: bool = False
    """The machine is as it was before."""


class Step(msgspec.Struct):
    """A part of the start that is done."""

    name: str
    seconds: float


class State(msgspec.Struct):
    """Written by the keeper as it goes."""

    phase: Phase = "starting"
    doing: str = ""
    steps: list[Step] = []
    problem: str = ""
    server: str = ""
    parts: dict[str, ProcessId] = {}
    """As the keeper sees them: in node mode, numbers of its own process namespace."""
    revivals: dict[str, int] = {}
    """How often a part that ended was started again."""


S = TypeVar("S", bound=msgspec.Struct)


class Directory:
    """A cluster's directory: where everything of it is."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.logs = self.path / "logs"
        self.certificates = self.path / "certificates"
        self.configuration = self.path / "configuration"
        self.kubeconfig = self.path / "kubeconfig"
        self.private = self.path / "private"

    def make(self) -> None:
        """Make it and the folders that every mode needs; only its owner may look in (it holds keys)."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        for folder in (self.logs, self.certificates, self.configuration):
            folder.mkdir(exist_ok=True)

    def launch(self) -> Launch | None:
        """The guard's file."""
        return _read(self.path / "launch.json", Launch)

    def state(self) -> State | None:
        """The keeper's file."""
        return _read(self.path / "state.json", State)

    def write_launch(self, launch: Launch) -> None:
        """For the guard only (and for whoever cleans up after a guard that is gone)."""
        _write(self.path / "launch.json", launch)

    def write_state(self, state: State) -> None:
        """For the keeper only."""
        _write(self.path / "state.json", state)


class Journal:
    """The keeper's account of itself, on disk after every change."""

    def __init__(self, directory: Directory) -> None:
        self._directory = directory
        self.state = State()
        self.save()

    def save(self) -> None:
        """Write it as it is now."""
        self._directory.write_state(self.state)

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """A step of the start, timed."""
        started = time.monotonic()
        self.state.doing = name
        self.save()
        yield
        self.state.steps.append(Step(name, round(time.monotonic() - started, 2)))
        self.state.doing = ""
        self.save()

    def parts_changed(self, parts: dict[str, ProcessId]) -> None:
        """A part was started, for the first time or again."""
        self.state.parts = parts
        self.save()

    def ready(self, server: str) -> None:
        """Everything is up."""
        self.state.phase, self.state.server = "ready", server
        self.save()

    def failed(self, problem: str) -> None:
        """The start gave up."""
        self.state.phase, self.state.problem = "failed", problem
        self.save()

    def stopped(self) -> None:
        """It ended because it was told to."""
        if self.state.phase != "failed":
            self.state.phase = "stopped"
            self.save()


def _read(path: Path, kind: type[S]) -> S | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
    except msgspec.DecodeError as problem:
        raise ClusterError(
            f"cannot read {path}: {problem}; end what runs there by hand and remove it"
        ) from problem


def _write(path: Path, value: msgspec.Struct) -> None:
    part = path.with_suffix(".part")
    part.write_bytes(msgspec.json.format(msgspec.json.encode(value), indent=1))
    part.rename(path)

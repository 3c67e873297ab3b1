"""What can go wrong with the test cluster, each with the place to look at."""

from collections.abc import Sequence
from pathlib import Path

from noctaya.errors import NoctayaError, UserError

TAIL_LINES = 12


class ClusterError(NoctayaError):
    """The test cluster could not do what it was asked to."""


class RequirementsMissing(ClusterError, UserError):
    """This machine lacks something; all of it is named at once."""

    def __init__(self, missing: Sequence[str]) -> None:
        super().__init__(
            "the test cluster cannot run on this machine:\n" + "\n".join(f"  - {line}" for line in missing)
        )
        self.missing = tuple(missing)


class AlreadyRunning(ClusterError, UserError):
    """The directory belongs to a cluster that is up."""

    def __init__(self, directory: Path) -> None:
        super().__init__(f"a cluster is up in {directory}; end it with `down` or give another --dir")
        self.directory = directory


class NotRunning(ClusterError, UserError):
    """The directory belongs to no cluster that is up."""

    def __init__(self, directory: Path) -> None:
        super().__init__(f"no cluster is up in {directory}; start one with `up`")
        self.directory = directory


class BuildFailed(ClusterError):
    """The Go compiler said no."""

    def __init__(self, what: str, output: Sequence[str]) -> None:
        super().__init__(f"building {what} failed:\n" + "\n".join(output[-TAIL_LINES:]))
        self.what = what


class CommandFailed(ClusterError):
    """A program that was run to its end did not end well."""

    def __init__(self, argv: Sequence[str], code: int | None, output: str) -> None:
        ending = "did not end in time" if code is None else f"ended with {code}"
        super().__init__(f"`{' '.join(argv)}` {ending}: {output.strip()}")
        self.argv = tuple(argv)
        self.code = code
        self.output = output


class PartEnded(ClusterError):
    """A part of the cluster ended while the cluster was starting."""

    def __init__(self, name: str, code: int, log: Path) -> None:
        super().__init__(f"{name} ended with {code}; the end of {log}:\n{tail(log)}")
        self.name = name
        self.code = code


class NotReadyInTime(ClusterError):
    """Something did not become what it should before its deadline."""

    def __init__(self, what: str, seconds: float, last: str = "") -> None:
        super().__init__(
            f"{what} is not ready after {seconds:.0f} s{f'; last answer: {last}' if last else ''}"
        )
        self.what = what


class StartFailed(ClusterError):
    """The cluster's own first process says why it gave up."""

    def __init__(self, problem: str, logs: Path) -> None:
        super().__init__(f"{problem}\n(logs: {logs})")
        self.problem = problem


def tail(log: Path, lines: int = TAIL_LINES) -> str:
    """The last lines of a log, or a word that there is none."""
    try:
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])
    except FileNotFoundError:
        return "(no log)"

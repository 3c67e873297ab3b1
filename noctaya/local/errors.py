"""Errors of the embedded cluster.

An API server's refusals to its clients are not here: they are `apiserver.status.ApiError`, which carries a Kubernetes Status.
"""

from noctaya.errors import NoctayaError, UserError


class LocalError(NoctayaError):
    """The embedded cluster could not do what it was asked to."""


class PortInUse(LocalError, UserError):
    """Another program listens where the embedded API server should."""

    def __init__(self, host: str, port: int) -> None:
        super().__init__(
            f"cannot listen on {host}:{port}: the port is in use; stop the other program or choose another port"
        )
        self.host = host
        self.port = port


class StateUnreadable(LocalError):
    """The saved state of an embedded cluster cannot be understood."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(
            f"cannot read the saved cluster state in {path}: {problem}; move it away to start with an empty cluster"
        )
        self.path = path
        self.problem = problem


class ExampleInvalid(LocalError):
    """An object that the embedded cluster was given to apply is not one that it can serve."""


class NotReadyInTime(LocalError):
    """A part of the cluster, or the model, did not become what it should in time."""

    def __init__(self, what: str, seconds: float, work_dir: object) -> None:
        super().__init__(
            f"{what} is not ready after {seconds:.0f} s; its log is in {work_dir}/logs, or start again with --keep"
        )
        self.what = what


class AnswerMissing(LocalError):
    """The demo's request got no answer from the model."""

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


class PortRefused(LocalError, UserError):
    """This machine does not let us listen on a port."""

    def __init__(self, host: str, port: int, cause: str) -> None:
        super().__init__(f"cannot listen on {host}:{port}: {cause}; choose another port, 0 picks a free one")
        self.host = host
        self.port = port


class StateInUse(LocalError, UserError):
    """Another embedded cluster runs on the same state directory."""

    def __init__(self, path: object) -> None:
        super().__init__(
            f"another embedded cluster runs on the state in {path}; stop it or choose another directory with --state"
        )
        self.path = path


class DirectoryUnusable(LocalError, UserError):
    """A directory or file that the cluster needs cannot be made or written."""

    def __init__(self, path: object, cause: str) -> None:
        super().__init__(f"cannot use {path}: {cause}; choose another path or change its permissions")
        self.path = path
        self.cause = cause


class ForeignKubeconfig(LocalError, UserError):
    """The file given with --kubeconfig holds something that is not an embedded cluster's kubeconfig."""

    def __init__(self, path: object) -> None:
        super().__init__(
            f"{path} is not a kubeconfig of an embedded cluster and would be overwritten; choose another path with --kubeconfig"
        )
        self.path = path


class OutputLost(LocalError):
    """Standard output does not take what the command prints."""

    def __init__(self, cause: str) -> None:
        super().__init__(f"cannot write to standard output: {cause}; free some space or send it elsewhere")
        self.cause = cause


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

    def __init__(self, what: str, seconds: float, found: str) -> None:
        super().__init__(
            f"{what} is not as it should be after {seconds:.0f} s: {found}. With --state the logs stay in that directory."
        )
        self.what = what
        self.found = found


class AnswerMissing(LocalError):
    """The demo's request got no answer from the model."""

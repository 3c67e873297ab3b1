"""What can be in the way between a person and the fleet."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noctaya.errors import NoctayaError, UserError

if TYPE_CHECKING:
    from noctaya.kube.errors import KubeError


class OpsError(NoctayaError):
    """The fleet could not be asked or told."""


class AdminUnreachable(OpsError):
    """A worker's admin port gives no answer."""

    def __init__(self, url: str, cause: str) -> None:
        super().__init__(
            f"no answer from the admin port {url} ({cause}). Is the worker ready, and does the port-forward still run? Without "
            "--admin the way is found by kubectl."
        )
        self.url = url


class AdminLacks(OpsError):
    """The worker answers, and does not know the question."""

    def __init__(self, url: str, name: str) -> None:
        super().__init__(
            f"{url} has no /debug/{name}: it is no worker's admin port, or that worker is older than this command. Compare "
            "`noctaya version` with the worker's image."
        )


class QuestionRefused(OpsError, UserError):
    """The worker refuses the question, and says why."""

    def __init__(self, url: str, why: str) -> None:
        super().__init__(f"{url} refuses: {why.strip()}")


class AdminUnusable(OpsError, UserError):
    """What was given as the admin port's address is none."""

    def __init__(self, given: str) -> None:
        super().__init__(f"{given!r} is no address of an admin port; give one like http://127.0.0.1:8081")


class KubectlMissing(OpsError, UserError):
    """There is no kubectl to reach a worker with."""

    def __init__(self) -> None:
        super().__init__(
            "kubectl is not on PATH, and a worker's admin port answers on loopback only. Install kubectl, or forward the port "
            "yourself and name it: --admin http://127.0.0.1:8081"
        )


class PortForwardFailed(OpsError):
    """kubectl could not forward the admin port."""

    def __init__(self, pod: str, said: str) -> None:
        super().__init__(
            f"kubectl port-forward to {pod} failed: {said.strip() or 'it said nothing'}. It needs the right to create "
            "pods/portforward in that namespace."
        )


class NoReadyWorker(OpsError):
    """Nobody can be asked."""

    def __init__(self, namespace: str, found: int) -> None:
        seen = f"{found} worker pods, none of them ready" if found else "no worker pod"
        super().__init__(
            f"there is {seen} in namespace {namespace}. Look at `kubectl get pods -n {namespace}`; a fleet elsewhere is named "
            "with --namespace."
        )


class NotAllowed(OpsError):
    """RBAC refuses what was to be done."""

    def __init__(self, verb: str, what: str, cause: KubeError) -> None:
        super().__init__(
            f"your credentials may not {verb} {what} ({cause.message}). Ask for that verb on that resource, or use others "
            "(--kubeconfig, --context)."
        )
        self.verb = verb
        self.what = what


class UnknownWorker(OpsError, UserError):
    """No member Lease of that name."""

    def __init__(self, worker: str, known: list[str]) -> None:
        there = ", ".join(known) if known else "none"
        super().__init__(f"there is no worker {worker!r} in this fleet; there are: {there}")
        self.worker = worker


class NoShardMap(OpsError):
    """There is nothing that could be frozen."""

    def __init__(self, namespace: str) -> None:
        super().__init__(
            f"there is no ShardMap in namespace {namespace}: no fleet was founded there, or somebody deleted it. See "
            "`noctaya verify`; a fleet elsewhere is named with --namespace."
        )


class NotInTime(OpsError):
    """What was waited for did not come."""

    def __init__(self, awaited: str, seconds: float, state: str) -> None:
        super().__init__(f"waited {seconds:g} s in vain for {awaited}: {state}")


class SubjectRefused(OpsError, UserError):
    """A shard, worker or service that cannot be."""

    def __init__(self, given: str, wanted: str) -> None:
        super().__init__(f"{given!r} is not {wanted}")


class FileUnusable(OpsError, UserError):
    """A file cannot be written."""

    def __init__(self, name: str, cause: str) -> None:
        super().__init__(f"cannot write {name}: {cause}; choose another name, or - for standard output")

"""kubectl of the cluster's own version, bound to one kubeconfig. How it fails: `CommandFailed` with kubectl's own words."""

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.cluster.processes import run

TIMEOUT_SECONDS = 60.0
Object = dict[str, Any]


class Kubectl:
    """`kubectl("get", "pods")` returns what it prints."""

    def __init__(self, program: Path, kubeconfig: Path, enter: Callable[[], list[str]] = list) -> None:
        """`enter` gives words to put before every command line, to reach the cluster's network."""
        self._enter = enter
        self.program = program
        self.kubeconfig = kubeconfig
        self.environment = {
            "KUBECONFIG": str(kubeconfig),
            "KUBECACHEDIR": str(kubeconfig.parent / "kubectl-cache"),  # nothing into a person's home,
            "KUBERC": "off",  # and no preferences from there
        }

    def __call__(
        self,
        *words: str | Path,
        namespace: str | None = None,
        stdin: str | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> str:
        """Run it.

        Raises:
            CommandFailed: it ended with an error, or not in time.
        """
        where = ("--namespace", namespace) if namespace else ()
        return run(
            [*self._enter(), self.program, f"--kubeconfig={self.kubeconfig}", *where, *words],
            stdin=stdin,
            timeout_seconds=timeout_seconds,
            environment=self.environment,
        )

    def get(self, *words: str, namespace: str | None = None) -> Any:
        """`get … -o json`, read."""
        return json.loads(self("get", *words, "-o", "json", namespace=namespace))

    def apply(
        self, objects: Iterable[Mapping[str, Any]], *, namespace: str | None = None, server_side: bool = False
    ) -> str:
        """Apply objects; they are sent as one List, since kubectl splits no JSON documents."""
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)})
        flags = ("--server-side", "--force-conflicts") if server_side else ()
        return self("apply", *flags, "-f", "-", namespace=namespace, stdin=text)

    def wait(
        self,
        what: str,
        claim: str,
        *names: str,
        namespace: str | None = None,
        timeout_seconds: float = TIMEOUT_SECONDS,
    ) -> None:
        """Wait until `claim` (as of `kubectl wait --for`) holds for `what`."""
        self(
            "wait",
            f"--for={claim}",
            what,
            *names,
            f"--timeout={timeout_seconds:.0f}s",
            namespace=namespace,
            timeout_seconds=timeout_seconds + 10.0,
        )

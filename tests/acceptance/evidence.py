"""What the cluster looked like when a test failed: put into the test's report, since the cluster is gone afterwards."""

import re
from collections.abc import Iterator

from tests.cluster.cluster import Cluster
from tests.cluster.errors import ClusterError

LOG_LINES = 200
STACK = re.compile(r"^\S+ \S+ (?:\s|\S+/\S+\.\S*\()", re.MULTILINE)
"""KEDA prints a stack with every error; what happened would drown in them."""
FLEET = ("noctaya-system", "app.kubernetes.io/name=noctaya")
KEDA = ("keda", "app=keda-operator")


def sections(cluster: Cluster, namespace: str | None) -> Iterator[tuple[str, str]]:
    """(title, text) of each view; `namespace` is the test's own."""
    yield "pods", _of(cluster, "get", "pods", "--all-namespaces", "-o", "wide")
    yield "models", _of(cluster, "get", "llmservices,scaledobjects,deployments", "--all-namespaces")
    if namespace:
        yield (
            f"objects of {namespace}",
            _of(cluster, "get", "llmservices,scaledobjects,pods", "-o", "yaml", "-n", namespace),
        )
    yield "events", _tail(_of(cluster, "get", "events", "--all-namespaces", "--sort-by=.lastTimestamp"))
    for where, selector in (FLEET, KEDA):
        words = (f"--selector={selector}", "--prefix", "--timestamps", f"--tail={3 * LOG_LINES}")
        told = _of(cluster, "logs", "-n", where, *words, "--max-log-requests=20")
        yield f"logs of {where}", "\n".join(line for line in told.splitlines() if not STACK.match(line))
    if namespace:
        backends = ("--selector=serving.noctaya.io/llmservice", "--prefix", f"--tail={LOG_LINES}")
        yield (
            f"logs of {namespace}",
            _of(cluster, "logs", "-n", namespace, *backends, "--max-log-requests=20"),
        )


def _of(cluster: Cluster, *words: str) -> str:
    try:
        return cluster.kubectl(*words)
    except ClusterError as problem:  # a failed look must not hide the failure that it was for
        return str(problem)


def _tail(text: str) -> str:
    return "\n".join(text.splitlines()[-LOG_LINES:])

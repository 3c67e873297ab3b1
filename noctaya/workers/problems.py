"""What is wrong just now, in sentences for whoever runs the cluster; `/readyz` and the metrics show the same list."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from noctaya.api.names import GROUP
from noctaya.kube import Resource, Store
from noctaya.kube.errors import Forbidden, KindNotServed, KubeError, Unauthorized


class Problem(NamedTuple):
    """`name` is stable, for alerts; `message` says what it is and what to do."""

    name: str
    message: str


Source = Callable[[], Iterable[Problem]]


class Problems:
    """The sum of what every part of a worker complains about when asked."""

    def __init__(self) -> None:
        self._sources: list[Source] = []

    def add(self, source: Source) -> None:
        """Ask `source` too."""
        self._sources.append(source)

    def current(self) -> list[Problem]:
        """Every problem of this instant, each name once."""
        found: dict[str, Problem] = {}
        for source in self._sources:
            for problem in source():
                found.setdefault(problem.name, problem)
        return list(found.values())


def store_problems(stores: Iterable[Store[Any]], *, keda: Store[Any]) -> Iterator[Problem]:
    """What keeps a store from being current: a kind that is not served, a verb that RBAC refuses, no answer."""
    for store in stores:
        error = store.problem
        kind = store.resource.plural
        if store is keda and not store.serves:
            yield Problem(
                "KEDAMissing",
                "KEDA's ScaledObject is not served by this cluster: models can neither be woken nor put to sleep. Install "
                "KEDA; this worker goes on by itself.",
            )
        elif error is None:
            continue
        elif isinstance(error, KindNotServed):
            yield Problem(
                f"{kind}NotServed",
                f"{store.resource.full_name} is not served by this API server. {_missing_kind(store.resource)} This worker "
                "goes on by itself.",
            )
        elif isinstance(error, Forbidden):
            yield Problem(f"{kind}Forbidden", str(error))
        elif isinstance(error, Unauthorized):
            yield Problem(
                "CredentialsRefused",
                f"the API server does not accept this worker's credentials: {error}. Look at its ServiceAccount and token.",
            )
        else:
            yield _unreachable(error)


def _unreachable(error: KubeError) -> Problem:
    return Problem("APIServerUnreachable", f"the API server does not answer: {error}")


def _missing_kind(resource: Resource) -> str:
    if resource.group == GROUP:
        return "Its CustomResourceDefinition is missing: apply deploy/kustomize/crd."
    return "Every Kubernetes has it: look at the API server's version and aggregation."

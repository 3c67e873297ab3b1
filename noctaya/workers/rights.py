"""What a worker must be allowed to do, and the sentence for what it may not. Pure.

The list is what the code asks for (a test compares the two), so that a right that was taken away is named before it is needed.
Client keys are left out: those rights may be given namespace by namespace (the component direct-secrets).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from noctaya.kube.resources import (
    CONFIGMAPS,
    DEPLOYMENTS,
    EVENTS,
    HPAS,
    INFERENCERUNTIMES,
    JOBS,
    LEASES,
    LLMSERVICES,
    PODS,
    PVCS,
    SCALEDOBJECTS,
    SECRETS,
    SERVICES,
    Resource,
)
from noctaya.leader.certificate_reading import AUTHORITY_SECRET, LEAF_SECRETS
from noctaya.leader.lease_names import SHARDMAP
from noctaya.workers.keys import FLEET_KEY
from noctaya.workers.problems import Problem

WATCHED = ("list", "watch")
CHILD = ("get", "list", "watch", "create", "patch")
EVERYWHERE: tuple[tuple[Resource, str, tuple[str, ...]], ...] = (
    (LLMSERVICES, "", WATCHED),
    (LLMSERVICES, "status", ("patch",)),
    (INFERENCERUNTIMES, "", WATCHED),
    (DEPLOYMENTS, "", CHILD),
    (SERVICES, "", CHILD),
    (PVCS, "", CHILD),
    (SCALEDOBJECTS, "", CHILD),
    (PODS, "", WATCHED),
    (JOBS, "", WATCHED),
    (HPAS, "", WATCHED),
    (EVENTS, "", ("create", "patch")),
)
"""(kind, subresource, verbs) in all namespaces."""
AT_HOME: tuple[tuple[Resource, str, tuple[str, ...]], ...] = (
    (LEASES, "", ("get", "list", "watch", "create", "update")),
    (CONFIGMAPS, SHARDMAP, ("get", "list", "watch", "update")),
    (CONFIGMAPS, "", ("create",)),
    (SECRETS, FLEET_KEY, ("get",)),
    *((SECRETS, name, ("get", "update")) for name in (AUTHORITY_SECRET, *LEAF_SECRETS.values())),
    (SECRETS, "", ("create",)),
)
"""(kind, name, verbs) in the fleet's own namespace."""


@dataclass(frozen=True, slots=True)
class Right:
    """One verb on one resource; an empty `namespace` is all of them, an empty `name` any."""

    resource: Resource
    verb: str
    namespace: str = ""
    name: str = ""
    subresource: str = ""

    def review(self) -> dict[str, Any]:
        """The body of a SelfSubjectAccessReview that asks for it."""
        attributes = {
            "verb": self.verb,
            "group": self.resource.group,
            "resource": self.resource.plural,
            "namespace": self.namespace,
            "name": self.name,
            "subresource": self.subresource,
        }
        return {"spec": {"resourceAttributes": {key: value for key, value in attributes.items() if value}}}


def rights(own_namespace: str) -> tuple[Right, ...]:
    """Every right that a worker of this namespace needs."""
    return (
        *(
            Right(resource, verb, subresource=subresource)
            for resource, subresource, verbs in EVERYWHERE
            for verb in verbs
        ),
        *(Right(resource, verb, own_namespace, name) for resource, name, verbs in AT_HOME for verb in verbs),
    )


def missing_rights(missing: Collection[Right]) -> Iterator[Problem]:
    """One problem a kind, with every verb that is missing on it."""
    by_kind: dict[str, dict[str, list[str]]] = {}
    for right in missing:
        what = right.resource.describe(None, right.name or None, right.subresource or None)
        where = f"in namespace {right.namespace}" if right.namespace else "in all namespaces"
        by_kind.setdefault(right.resource.plural, {}).setdefault(f"{what} {where}", []).append(right.verb)
    for plural, said in by_kind.items():
        words = "; ".join(f"{', '.join(verbs)} {what}" for what, verbs in said.items())
        yield Problem(
            f"{plural}Forbidden",
            f"this worker is not allowed to {words}. Its roles in deploy/kustomize have the right: apply the overlay again.",
        )

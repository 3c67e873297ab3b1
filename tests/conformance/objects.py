"""Objects that the tests make; every one has the least that its kind needs."""

from __future__ import annotations

from typing import Any

from tests.conformance.client import Object


def config_map(name: str = "c", *, metadata: Object | None = None, **data: str) -> Object:
    body: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, **(metadata or {})}}
    return {**body, "data": data} if data else body


def deployment(
    name: str = "d", *, image: str = "app:1", metadata: Object | None = None, **spec: Any
) -> Object:
    """Without replicas unless told; nothing starts, since no cluster of the suite has a node."""
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {
            "containers": [
                {
                    "name": "main",
                    "image": image,
                    "env": [{"name": "A", "value": "1"}],
                    "ports": [{"containerPort": 8000}],
                }
            ]
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, **(metadata or {})},
        "spec": {"selector": {"matchLabels": {"app": name}}, "template": template, **spec},
    }


def only_replicas(count: int, name: str = "d") -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {"replicas": count},
    }


def lease(name: str = "l", **spec: Any) -> Object:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": name},
        "spec": spec,
    }


def owned_by(owner: Object, *, blocks: bool = False) -> Object:
    """Metadata of a child."""
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
    }
    return {"ownerReferences": [{**reference, "blockOwnerDeletion": True} if blocks else reference]}


def managers(found: Object) -> list[tuple[str, str, str]]:
    """(manager, operation, subresource) of each entry of managedFields, in their order."""
    return [
        (entry["manager"], entry["operation"], entry.get("subresource", ""))
        for entry in found["metadata"].get("managedFields") or []
    ]


def fields(found: Object, manager: str) -> Any:
    """What a manager owns."""
    return next(
        entry["fieldsV1"] for entry in found["metadata"]["managedFields"] if entry["manager"] == manager
    )

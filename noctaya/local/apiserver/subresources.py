"""Which part of an object a write may touch, and when a deleted object is finally gone."""

from __future__ import annotations

from noctaya.local.apiserver.kinds import Kind
from noctaya.local.apiserver.status import Object

_EMPTY_STATUS = frozenset({"apps/deployments", "apps/replicasets", "batch/jobs"})
"""Kinds whose Go type always writes its status."""


def on_create(kind: Kind, new: Object) -> Object:
    """A new object starts without status where status is a subresource."""
    if kind.storage == "/pods":
        return {**new, "status": {"phase": "Pending", "qosClass": _quality_of_service(new)}}
    if kind.storage == "/namespaces":
        return {**new, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
    if kind.storage in ("/persistentvolumeclaims", "/persistentvolumes"):
        return {**new, "status": {"phase": "Pending"}}
    if kind.storage == "/services":
        return {**new, "status": {"loadBalancer": {}}}
    if not kind.has_status:
        return new
    new = {key: value for key, value in new.items() if key != "status"}
    return {**new, "status": {}} if kind.storage in _EMPTY_STATUS else new


def on_update(kind: Kind, subresource: str, old: Object, new: Object) -> Object:
    """`new` with everything from `old` that this subresource may not change."""
    if subresource == "status":
        kept = {key: value for key, value in old.items() if key != "status"}
        changed = {**kept, "apiVersion": new["apiVersion"], "metadata": _status_metadata(old, new)}
        if new.get("status") is not None:
            changed["status"] = new["status"]
        return changed
    if kind.has_status:
        kept_status = {"status": old["status"]} if "status" in old else {}
        new = {**{key: value for key, value in new.items() if key != "status"}, **kept_status}
    if kind.storage == "/namespaces" and subresource != "finalize" and "spec" in old:
        new = {**new, "spec": old["spec"]}
    return new


def _status_metadata(old: Object, new: Object) -> Object:
    metadata = dict(old["metadata"])
    if "managedFields" in new["metadata"]:
        metadata["managedFields"] = new["metadata"]["managedFields"]
    return metadata


def is_done(kind: Kind, found: Object) -> bool:
    """Whether nothing holds a deleted object any longer."""
    metadata = found["metadata"]
    if not metadata.get("deletionTimestamp") or metadata.get("finalizers"):
        return False
    if kind.storage == "/namespaces":
        return not (found.get("spec") or {}).get("finalizers")
    return not metadata.get("deletionGracePeriodSeconds")


def _quality_of_service(pod: Object) -> str:
    spec = pod.get("spec") or {}
    containers = [*(spec.get("containers") or []), *(spec.get("initContainers") or [])]
    asked = [container.get("resources") or {} for container in containers if isinstance(container, dict)]
    if not any(resources.get("requests") or resources.get("limits") for resources in asked):
        return "BestEffort"
    for resources in asked:
        limits = resources.get("limits") or {}
        requests = {**limits, **(resources.get("requests") or {})}
        if any(not limits.get(what) or requests.get(what) != limits.get(what) for what in ("cpu", "memory")):
            return "Burstable"
    return "Guaranteed"

"""Deletion: preconditions, finalizers, grace periods, propagation.

An object with finalizers, or a running pod with a grace period, is only marked; whoever holds it (garbage collector, node
agent, a controller) lets go later, and the write that takes the last hold away removes it (`subresources.is_done`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from noctaya.local.apiserver import objectmeta, status, subresources
from noctaya.local.apiserver.kinds import Kind
from noctaya.local.apiserver.status import Object
from noctaya.local.apiserver.storage import Storage
from noctaya.local.apiserver.tablecells import at
from noctaya.local.apiserver.writes import Writes

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """The API's DeleteOptions."""

    grace_seconds: int | None = None
    propagation: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Deleted:
    """The object's last or marked state."""

    object: Object
    gone: bool


class Deletes:
    """Marks and removes objects. `on_deleting` hears of every object marked or removed, by storage key."""

    def __init__(self, storage: Storage, writes: Writes, clock: Callable[[], float] = time.time) -> None:
        self._storage = storage
        self._writes = writes
        self._clock = clock

    def delete(self, kind: Kind, namespace: str, name: str, options: DeleteOptions) -> Deleted:
        """Delete an object, or mark it; 404 when there is none, 409 when a precondition fails."""
        old = self._storage.get(kind.storage, namespace if kind.namespaced else "", name)
        if old is None:
            raise kind.not_found(name)
        self._check(kind, old, options)
        grace = _grace(kind, old, options)
        metadata = dict(old["metadata"])
        finalizers = _finalizers(kind, metadata.get("finalizers") or [], options)
        if finalizers:
            metadata["finalizers"] = finalizers
        else:
            metadata.pop("finalizers", None)
        marked_before = metadata.get("deletionTimestamp")
        if marked_before is None or grace < metadata.get("deletionGracePeriodSeconds", 0):
            metadata["deletionTimestamp"] = objectmeta.timestamp(self._clock() + grace)
            metadata["deletionGracePeriodSeconds"] = grace
            if kind.has_generation and marked_before is None:
                metadata["generation"] = metadata.get("generation", 0) + 1
        marked = {**old, "metadata": metadata}
        if kind.storage == "/namespaces":
            marked["status"] = {**(old.get("status") or {}), "phase": "Terminating"}
        return self._finish(kind, old, marked, options)

    def _finish(self, kind: Kind, old: Object, marked: Object, options: DeleteOptions) -> Deleted:
        if subresources.is_done(kind, marked):
            self._writes.remove(kind, old, dry_run=options.dry_run)
            return Deleted(marked, gone=True)
        if options.dry_run or marked == old:
            return Deleted(marked, gone=False)
        return Deleted(self._writes.store(kind, old, marked), gone=False)

    def _check(self, kind: Kind, old: Object, options: DeleteOptions) -> None:
        metadata = old["metadata"]
        if options.uid and options.uid != metadata["uid"]:
            why = (
                f"the UID in the precondition ({options.uid}) does not match the UID in record ({metadata['uid']}). The object "
                "might have been deleted and then recreated"
            )
            raise _broken(kind, metadata["name"], why)
        if options.resource_version and options.resource_version != metadata["resourceVersion"]:
            why = (
                f"the ResourceVersion in the precondition ({options.resource_version}) does not match the ResourceVersion in "
                f"record ({metadata['resourceVersion']}). The object might have been modified"
            )
            raise _broken(kind, metadata["name"], why)
        if kind.storage == "/namespaces" and metadata["name"] in ("default", "kube-system"):
            raise status.forbidden("namespaces", "", metadata["name"], "this namespace may not be deleted")


def _broken(kind: Kind, name: str, why: str) -> status.ApiError:
    """409 for a precondition; the real server names the kind here where it names the resource elsewhere."""
    return status.conflict(kind.kind, kind.group, name, why)


def _grace(kind: Kind, old: Object, options: DeleteOptions) -> int:
    if kind.storage != "/pods":
        return 0
    if not at(old, "spec", "nodeName") or at(old, "status", "phase") in ("Succeeded", "Failed"):
        return 0
    if options.grace_seconds is not None:
        return max(0, options.grace_seconds)
    return int(at(old, "spec", "terminationGracePeriodSeconds", default=30))


def _finalizers(kind: Kind, present: list[str], options: DeleteOptions) -> list[str]:
    policy = options.propagation
    if policy is None:
        # As the real one does: a Job deleted without a policy leaves its pods behind.
        policy = (
            "Orphan" if kind.storage == "batch/jobs" and not {FOREGROUND, ORPHAN} & set(present) else None
        )
    if policy is None:
        return present
    kept = [finalizer for finalizer in present if finalizer not in (FOREGROUND, ORPHAN)]
    return kept + {"Foreground": [FOREGROUND], "Orphan": [ORPHAN], "Background": []}[policy]

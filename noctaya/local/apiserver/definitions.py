"""The life of custom resource definitions: served when stored, and gone only after their last custom resource.

Deleting a definition deletes its resources; while one of them is held by a finalizer the definition is kept by a finalizer
of its own, as on the real server, and it is still served so that the holder can let go.
"""

from __future__ import annotations

from noctaya.local.apiserver import customresources
from noctaya.local.apiserver.deletes import Deleted, DeleteOptions, Deletes
from noctaya.local.apiserver.kinds import Kind
from noctaya.local.apiserver.registry import Registry
from noctaya.local.apiserver.status import Object
from noctaya.local.apiserver.storage import Storage
from noctaya.local.apiserver.writes import Writes

DEFINITIONS = "apiextensions.k8s.io/customresourcedefinitions"
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"


class Definitions:
    """Keeps the registry true to the stored definitions."""

    def __init__(self, storage: Storage, registry: Registry, writes: Writes, deletes: Deletes) -> None:
        self._storage = storage
        self._registry = registry
        self._writes = writes
        self._deletes = deletes
        self._kind = registry.by_kind("apiextensions.k8s.io/v1", "CustomResourceDefinition")
        for definition in storage.list(DEFINITIONS):
            self.serve(definition)

    def serve(self, definition: Object) -> None:
        """Serve a stored definition's kinds from now on."""
        self._registry.set_custom(definition["metadata"]["name"], customresources.kinds_of(definition))

    def removed(self, kind: Kind, name: str) -> None:
        """An object is out of the store: a definition is no longer served, a custom resource may free its definition."""
        if kind.storage == DEFINITIONS:
            self._registry.set_custom(name, [])
        elif kind.schema is not None:
            self._release(f"{kind.plural}.{kind.group}", kind)

    def delete(self, kind: Kind, name: str, options: DeleteOptions) -> Deleted:
        """Delete a definition and its custom resources."""
        served = self._registry.custom(name)
        old = self._storage.get(DEFINITIONS, "", name)
        if options.dry_run or not served or old is None or not self._storage.count(served[0].storage):
            return self._deletes.delete(kind, "", name, options)
        metadata = old["metadata"]
        finalizers = [*(one for one in metadata.get("finalizers") or [] if one != CLEANUP), CLEANUP]
        self._writes.store(kind, old, {**old, "metadata": {**metadata, "finalizers": finalizers}})
        deleted = self._deletes.delete(kind, "", name, options)
        for one in self._storage.list(served[0].storage):
            below = one["metadata"]
            self._deletes.delete(served[0], below.get("namespace", ""), below["name"], DeleteOptions())
        return Deleted(deleted.object, gone=self._storage.get(DEFINITIONS, "", name) is None)

    def _release(self, name: str, kind: Kind) -> None:
        """Let a dying definition go when nothing of it is left."""
        old = self._storage.get(DEFINITIONS, "", name)
        if self._kind is None or old is None or self._storage.count(kind.storage):
            return
        metadata = old["metadata"]
        if not metadata.get("deletionTimestamp") or CLEANUP not in (metadata.get("finalizers") or []):
            return
        finalizers = [one for one in metadata["finalizers"] if one != CLEANUP]
        if finalizers:
            self._writes.store(self._kind, old, {**old, "metadata": {**metadata, "finalizers": finalizers}})
        else:
            self._writes.remove(self._kind, old)

"""The API server without HTTP: store, served kinds and verbs in one place, synchronous.

Controllers in the same process use it directly; the HTTP handlers are a shell around it.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from noctaya.local.apiserver import customresources, serviceaddresses
from noctaya.local.apiserver.definitions import DEFINITIONS, Definitions
from noctaya.local.apiserver.deletes import Deleted, DeleteOptions, Deletes
from noctaya.local.apiserver.kinds import Kind
from noctaya.local.apiserver.lists import Lists
from noctaya.local.apiserver.registry import Registry
from noctaya.local.apiserver.resources import BUILTIN_KINDS
from noctaya.local.apiserver.status import Object
from noctaya.local.apiserver.storage import Storage
from noctaya.local.apiserver.writes import WriteOptions, Writes

_EVENTS = "/events"
EVENT_LIMIT = 2000
"""Events have no end of their own; above this number the oldest go."""


class Cluster:
    """Verbs over one store. `clock` is wall time in seconds."""

    def __init__(self, storage: Storage, clock: Callable[[], float] = time.time) -> None:
        self.storage = storage
        self.clock = clock
        self.registry = Registry(BUILTIN_KINDS)
        self.writes = Writes(storage, clock)
        self.deletes = Deletes(storage, self.writes, clock)
        self.lists = Lists(storage)
        self._definitions = Definitions(storage, self.registry, self.writes, self.deletes)
        self.writes.prepare[DEFINITIONS] = lambda old, new: customresources.prepared(old, new, clock())
        self.writes.prepare["/services"] = lambda _, new: serviceaddresses.with_address(storage, new)
        self.writes.on_written[DEFINITIONS] = self._definitions.serve
        self.writes.on_removed = self._definitions.removed
        self.writes.on_written[_EVENTS] = self._bound_events
        for name in ("default", "kube-system"):
            if storage.get("/namespaces", "", name) is None:
                self.writes.create(
                    self.kind("Namespace"),
                    "",
                    {"metadata": {"name": name}},
                    WriteOptions(manager="noctaya-local"),
                )

    def kind(self, kind: str, api_version: str = "v1") -> Kind:
        """A served kind; KeyError when there is none."""
        found = self.registry.by_kind(api_version, kind)
        if found is None:
            raise KeyError(f"{api_version} {kind} is not served")
        return found

    def get(self, kind: Kind, namespace: str, name: str) -> Object:
        """The stored object, not to be changed in place; 404 when there is none."""
        found = self.storage.get(kind.storage, namespace if kind.namespaced else "", name)
        if found is None:
            raise kind.not_found(name)
        return found

    def delete(self, kind: Kind, namespace: str, name: str, options: DeleteOptions) -> Deleted:
        """Delete an object; a definition takes its custom resources along."""
        if kind.storage == DEFINITIONS:
            return self._definitions.delete(kind, name, options)
        return self.deletes.delete(kind, namespace, name, options)

    def _bound_events(self, _: Object) -> None:
        excess = self.storage.count(_EVENTS) - EVENT_LIMIT
        if excess <= 0:
            return
        # A tenth more than needed, so that not every further event sorts them all.
        oldest = sorted(
            self.storage.list(_EVENTS), key=lambda event: int(event["metadata"]["resourceVersion"])
        )
        for event in oldest[: excess + EVENT_LIMIT // 10]:
            self.storage.remove(_EVENTS, event["metadata"]["namespace"], event["metadata"]["name"])

"""The events of one watch request: which changes it sees, as what, and its bookmarks.

`WatchView` is pure: it turns changes into events. An object that starts or stops matching the selection is added or deleted
as far as this watch is concerned, as clients expect.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from noctaya.local.apiserver.kinds import Kind
from noctaya.local.apiserver.representation import Representation
from noctaya.local.apiserver.selectors import Selection
from noctaya.local.apiserver.status import ApiError, Object
from noctaya.local.apiserver.storage import Change

INITIAL_EVENTS_END = "k8s.io/initial-events-end"


@dataclass(slots=True)
class WatchView:
    """One watch's way of seeing changes."""

    kind: Kind
    selection: Selection
    representation: Representation
    clock: Callable[[], float] = time.time
    _sent_columns: bool = False

    def event(self, change: Change) -> bytes | None:
        """The line for a change, or None when this watch does not see it."""
        now_in = change.type != "DELETED" and self.selection.matches(change.object)
        was_in = change.previous is not None and self.selection.matches(change.previous)
        if now_in:
            return self._line("MODIFIED" if was_in else "ADDED", change.object)
        return self._line("DELETED", change.object) if was_in else None

    def initial(self, found: Object) -> bytes | None:
        """The line for an object that was there when the watch began."""
        return self._line("ADDED", found) if self.selection.matches(found) else None

    def bookmark(self, revision: int, *, initial_events_end: bool = False) -> bytes:
        """The line that says: everything up to `revision` has been sent."""
        metadata: Object = {"resourceVersion": str(revision), "creationTimestamp": None}
        if initial_events_end:
            metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
        marker: Object = {"kind": self.kind.kind, "apiVersion": self.kind.api_version, "metadata": metadata}
        if self.representation.shape == "Table":
            marker = {
                "kind": "Table",
                "apiVersion": "meta.k8s.io/v1",
                "metadata": {"resourceVersion": str(revision)},
                "columnDefinitions": None,
                "rows": [
                    {
                        "cells": [],
                        "object": {
                            "kind": "PartialObjectMetadata",
                            "apiVersion": "meta.k8s.io/v1",
                            "metadata": metadata,
                        },
                    }
                ],
            }
        elif self.representation.shape == "PartialObjectMetadata":
            marker |= {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
        return self._encoded("BOOKMARK", marker)

    def error(self, problem: ApiError) -> bytes:
        """The last line of a watch that cannot go on."""
        return self._encoded("ERROR", problem.as_status())

    def _line(self, event: str, found: Object) -> bytes:
        shown = self.representation.one(self.kind, found, self.clock())
        if self.representation.shape == "Table":
            if self._sent_columns:
                shown["columnDefinitions"] = None
            self._sent_columns = True
        return self._encoded(event, shown)

    def _encoded(self, event: str, found: Object) -> bytes:
        return Representation().encode({"type": event, "object": found}) + b"\n"

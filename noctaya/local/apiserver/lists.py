"""Lists in pages. A page's continue token names a snapshot that is kept for a while; lists are references, so it is cheap."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from dataclasses import dataclass

from noctaya.local.apiserver import status
from noctaya.local.apiserver.kinds import Kind
from noctaya.local.apiserver.selectors import Selection
from noctaya.local.apiserver.status import Object
from noctaya.local.apiserver.storage import Storage

_SNAPSHOTS = 64


@dataclass(frozen=True, slots=True)
class Page:
    """Objects of one page and the list's metadata."""

    objects: list[Object]
    metadata: Object


class Lists:
    """Answers list requests from the store."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._snapshots: OrderedDict[str, tuple[list[Object], int]] = OrderedDict()

    def page(
        self, kind: Kind, namespace: str | None, selection: Selection, limit: int = 0, continued: str = ""
    ) -> Page:
        """One page, or everything without a limit; raises 410 for a token whose snapshot is gone."""
        if continued:
            snapshot = self._snapshots.pop(continued, None)
            if snapshot is None:
                raise status.expired(
                    "The provided continue parameter is too old to display a consistent list result. You must start a new list"
                )
            found, revision = snapshot
        else:
            found = self._storage.list(kind.storage, namespace)
            if not selection.is_everything:
                found = [one for one in found if selection.matches(one)]
            revision = self._storage.revision
        metadata: Object = {"resourceVersion": str(revision)}
        if limit > 0 and len(found) > limit:
            token = secrets.token_urlsafe(12)
            self._snapshots[token] = (found[limit:], revision)
            while len(self._snapshots) > _SNAPSHOTS:
                self._snapshots.popitem(last=False)
            metadata["continue"] = token
            metadata["remainingItemCount"] = len(found) - limit
            found = found[:limit]
        return Page(found, metadata)

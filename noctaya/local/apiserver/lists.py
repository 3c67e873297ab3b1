"""Lists of one moment, in pages. A continue token names a version and where to go on, so any page may be asked for again.

Versions before the newest are put together from the history of changes: what was forgotten is 410, as after a compaction.
"""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass

import msgspec

from noctaya.local.apiserver import listoptions, status
from noctaya.local.apiserver.kinds import Kind
from noctaya.local.apiserver.listoptions import Wanted
from noctaya.local.apiserver.selectors import Selection
from noctaya.local.apiserver.status import Object
from noctaya.local.apiserver.storage import Storage

_TOO_OLD = "The provided continue parameter is too old to display a consistent list result. You must start a new list"
EVERYTHING = Wanted(None)


class _Token(msgspec.Struct):
    version: int = msgspec.field(name="rv")
    start: str
    """The place behind the last object that was given."""


@dataclass(frozen=True, slots=True)
class Page:
    """Objects of one page and the list's metadata."""

    objects: list[Object]
    metadata: Object


class Lists:
    """Answers list requests from the store."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def page(
        self, kind: Kind, namespace: str | None, selection: Selection, wanted: Wanted = EVERYTHING
    ) -> Page:
        """One page, or everything without a limit; raises 410 for a version that is forgotten, 504 for one to come."""
        listoptions.check_reached(wanted.version, self._storage.revision)
        token = _read(wanted.continued) if wanted.continued else None
        version = token.version if token else wanted.exact
        found = self._at(kind, namespace, version, "" if token is None else _TOO_OLD)
        shown = self._storage.revision if version is None else version
        if not selection.is_everything:
            found = [one for one in found if selection.matches(one)]
        if token is not None:
            found = [one for one in found if place(one) > token.start]
        metadata: Object = {"resourceVersion": str(shown)}
        if 0 < wanted.limit < len(found):
            metadata["continue"] = _written(_Token(shown, place(found[wanted.limit - 1])))
            if selection.is_everything:
                # With a selector the real server would have to read everything to know.
                metadata["remainingItemCount"] = len(found) - wanted.limit
            found = found[: wanted.limit]
        return Page(found, metadata)

    def _at(self, kind: Kind, namespace: str | None, version: int | None, too_old: str) -> list[Object]:
        if version is None:
            return self._storage.list(kind.storage, namespace)
        held = self._storage.list_at(kind.storage, namespace, version)
        if held is None:
            raise status.expired(too_old or f"The provided resource version {version} is too old")
        return held


def place(found: Object) -> str:
    """Where an object stands in a list: by its key as the real store writes it."""
    metadata = found["metadata"]
    return f"{metadata.get('namespace', '')}/{metadata['name']}"


def _written(token: _Token) -> str:
    return urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def _read(text: str) -> _Token:
    try:
        return msgspec.json.decode(urlsafe_b64decode(text + "=" * (-len(text) % 4)), type=_Token)
    except (ValueError, msgspec.MsgspecError) as problem:
        raise status.bad_request(f"invalid continue token: continue key is not valid: {problem}") from problem

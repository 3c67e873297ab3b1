"""Who owns which field: `metadata.managedFields`, kept for every write.

A plain write (operation Update) makes its manager the only owner of what it changed; owners of unchanged fields stay.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from noctaya.local.apiserver import fieldpaths, objectmeta
from noctaya.local.apiserver.builtintypes import merge_type
from noctaya.local.apiserver.fieldpaths import Path
from noctaya.local.apiserver.kinds import Kind
from noctaya.local.apiserver.status import Object

_NOT_OWNED = frozenset(
    {
        "name", "namespace", "creationTimestamp", "selfLink", "uid", "generation", "managedFields", "resourceVersion",
        "deletionTimestamp", "deletionGracePeriodSeconds",
    }
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Owner:
    """One entry of managedFields."""

    manager: str
    operation: str  # Apply or Update
    api_version: str
    subresource: str
    time: str
    fields: frozenset[Path]

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """What makes two entries the same."""
        return (self.manager, self.operation, self.api_version, self.subresource)

    def as_json(self) -> Object:
        """The entry as stored."""
        entry: Object = {
            "manager": self.manager,
            "operation": self.operation,
            "apiVersion": self.api_version,
            "time": self.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": fieldpaths.encode(self.fields),
        }
        if self.subresource:
            entry["subresource"] = self.subresource
        return entry


def entries_of(owners: Iterable[Owner]) -> list[Object]:
    """managedFields in the real server's order."""
    in_order = sorted(
        owners, key=lambda one: (one.operation, one.time, one.manager, one.api_version, one.subresource)
    )
    return [owner.as_json() for owner in in_order]


def owners_of(found: Object) -> list[Owner]:
    """The owners that an object records."""
    return [
        Owner(
            manager=entry.get("manager", ""),
            operation=entry.get("operation", "Update"),
            api_version=entry.get("apiVersion", ""),
            subresource=entry.get("subresource", ""),
            time=entry.get("time", ""),
            fields=frozenset(fieldpaths.decode(entry.get("fieldsV1") or {})),
        )
        for entry in found["metadata"].get("managedFields") or []
        if entry.get("manager")
    ]


def ownable(found: Object) -> Object:
    """The part of an object whose fields can be owned."""
    metadata = {key: value for key, value in (found.get("metadata") or {}).items() if key not in _NOT_OWNED}
    rest = {key: value for key, value in found.items() if key not in ("apiVersion", "kind", "metadata")}
    return {**rest, "metadata": metadata} if metadata else rest


def after_write(
    kind: Kind, subresource: str, old: Object | None, new: Object, manager: str, now: float
) -> Object:
    """`new` with what `manager` changed recorded as his.

    A client may edit managedFields itself (kubectl does when it moves to server-side apply); what it sent counts then.
    """
    changes = fieldpaths.compare(
        ownable(old or {}), ownable(_as_sent(kind, new) if old is None else new), merge_type(kind)
    )
    if not changes or (old is not None and _is_untracked(subresource, old, new, changes.written)):
        return new
    lost = frozenset(changes.modified | changes.removed)
    mine = Owner(manager, "Update", kind.api_version, subresource, objectmeta.timestamp(now), frozenset())
    owners: list[Owner] = []
    for owner in owners_of(new) if old else []:
        if owner.identity == mine.identity:
            mine = replace(mine, fields=owner.fields)
        elif left := owner.fields - lost:
            owners.append(owner if left == owner.fields else replace(owner, fields=left))
    mine = replace(mine, fields=(mine.fields | changes.written) - changes.removed)
    if mine.fields:
        owners.append(mine)
    return {**new, "metadata": {**new["metadata"], "managedFields": entries_of(owners)}}


def _is_untracked(subresource: str, old: Object, new: Object, written: Iterable[Path]) -> bool:
    """Updates of what nobody owns are not recorded: an object that began without owners, replicas without one."""
    if not owners_of(new):
        return True
    return subresource == "scale" and not any(owner.fields & set(written) for owner in owners_of(old))


def _as_sent(kind: Kind, new: Object) -> Object:
    """A new object without what the server gave it at birth and nobody owns."""
    unowned = (
        {"status", "spec"} if kind.storage == "/namespaces" else {"status"} if kind.has_status else set()
    )
    return {key: value for key, value in new.items() if key not in unowned}


def equal_but_for_times(old: Object, new: Object) -> bool:
    """Whether a write would change nothing but the times of field ownership."""
    if old == new:
        return True
    return _timeless(old) == _timeless(new)


def _timeless(found: Object) -> Object:
    entries = [{**entry, "time": ""} for entry in found["metadata"].get("managedFields") or []]
    entries.sort(
        key=lambda entry: (entry.get("manager", ""), entry["operation"], entry.get("subresource", ""))
    )
    metadata = {k: v for k, v in found["metadata"].items() if k not in ("managedFields", "resourceVersion")}
    return {**found, "metadata": {**metadata, "managedFields": entries}}

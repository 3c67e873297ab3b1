"""How values merge: which lists are sets or keyed maps, which objects are one indivisible whole.

Server-side apply and strategic merge patch both walk values along a `MergeType`. What a type does not describe is deduced as
the real server does for unknown data: objects merge field by field, lists are atomic.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from noctaya.local.apiserver.status import Json, Object


@dataclass(frozen=True, slots=True)
class MergeType:
    """One node. For objects `fields` and `items` (values of any other key); for lists `list_type` and `items`."""

    atomic: bool = False
    fields: Mapping[str, MergeType] = field(default_factory=dict)
    items: MergeType | None = None
    list_type: str = "atomic"
    keys: tuple[str, ...] = ()
    key_defaults: Mapping[str, Json] = field(default_factory=dict)
    patch_key: str = ""
    """Merge key of a strategic merge patch; empty: the list is replaced (or, for a set, extended)."""

    def below(self, name: str) -> MergeType:
        """The type of an object's field."""
        return self.fields.get(name) or self.items or DEDUCED

    @property
    def item(self) -> MergeType:
        """The type of a list's items."""
        return self.items or DEDUCED


DEDUCED = MergeType()
ATOMIC = MergeType(atomic=True)


def structure(fields: Mapping[str, MergeType] | None = None, **more: MergeType) -> MergeType:
    """An object that merges field by field."""
    return MergeType(fields={**(fields or {}), **more})


def keyed(*keys: str, of: MergeType = DEDUCED, patch_key: str = "", **defaults: Json) -> MergeType:
    """A list whose items are told apart by `keys`."""
    return MergeType(
        list_type="map", keys=keys, items=of, key_defaults=defaults, patch_key=patch_key or keys[0]
    )


def patched_by(key: str, of: MergeType = DEDUCED) -> MergeType:
    """A list that is atomic for apply, but that strategic merge patches merge by a key."""
    return MergeType(items=of, patch_key=key)


SET = MergeType(list_type="set")


def of_schema(schema: Object) -> MergeType:
    """The merge type that a custom resource's structural schema declares."""
    if schema.get("x-kubernetes-map-type") == "atomic":
        return ATOMIC
    if schema.get("type") == "array" or "items" in schema:
        list_type = schema.get("x-kubernetes-list-type", "atomic")
        items = schema.get("items") or {}
        keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
        described = items.get("properties") or {}
        defaults = {key: described[key]["default"] for key in keys if "default" in described.get(key, {})}
        return MergeType(list_type=list_type, keys=keys, items=of_schema(items), key_defaults=defaults)
    below = {name: of_schema(one) for name, one in (schema.get("properties") or {}).items()}
    values = schema.get("additionalProperties")
    return MergeType(fields=below, items=of_schema(values) if isinstance(values, dict) else None)

"""Structural schemas of custom resources: pruning and defaulting as the API server does them.

Order on a write: nulls that the schema does not allow are dropped, unknown fields are pruned (and reported), defaults are
filled in, then the object is validated (`schemavalidation`) and its CEL rules are run (`celrules`).
Defaults go into parents that exist; a parent with a default of its own exists from then on.
"""

from __future__ import annotations

import copy

from noctaya.local.apiserver.builtintypes import METADATA
from noctaya.local.apiserver.celrules import RuleSet
from noctaya.local.apiserver.mergetypes import MergeType, of_schema
from noctaya.local.apiserver.schemavalidation import SchemaValidator
from noctaya.local.apiserver.status import Cause, Json, Object

PRESERVE = "x-kubernetes-preserve-unknown-fields"
EMBEDDED = "x-kubernetes-embedded-resource"
_BLOCKING = frozenset(
    {
        "FieldValueRequired", "FieldValueTypeInvalid", "FieldValueNotSupported", "FieldValueTooLong", "FieldValueTooMany",
    }
)  # fmt: skip
_RULES_SKIPPED = Cause(
    "<nil>",
    "Invalid value: null: some validation rules were not checked because the object was invalid; correct the existing "
    "errors to complete validation",
)
_STANDARD_METADATA = {"type": "object", PRESERVE: True}


class StructuralSchema:
    """A version's schema, compiled once."""

    def __init__(self, source: Object) -> None:
        self.source = source
        self._root = {**source, EMBEDDED: True}
        self._validator = SchemaValidator(source)
        self._rules = RuleSet(source)

    def merge_type(self) -> MergeType:
        """How objects of this schema merge in server-side apply."""
        described = of_schema(self.source)
        return MergeType(fields={**described.fields, "metadata": METADATA}, items=described.items)

    def pruned(self, found: Object) -> tuple[Object, list[str]]:
        """The object without what the schema does not know, and the paths of that."""
        unknown: list[str] = []
        return _prune(_without_nulls(found, self._root), self._root, "", unknown), unknown

    def defaulted(self, found: Object) -> Object:
        """The object with the schema's defaults."""
        filled: Object = _default(found, self._root)
        return filled

    def problems(self, new: Object, old: Object | None) -> list[Cause]:
        """Broken rules; CEL rules are only run on objects whose shape they can rely on."""
        causes = self._validator.problems(new)
        if any(cause.reason in _BLOCKING for cause in causes):
            return [*causes, _RULES_SKIPPED] if self._rules else causes
        return [*causes, *self._rules.problems(new, old)]


def _properties(schema: Object) -> Object:
    properties: Object = schema.get("properties") or {}
    if schema.get(EMBEDDED):
        properties = {
            "apiVersion": {"type": "string"}, "kind": {"type": "string"}, **properties, "metadata": _STANDARD_METADATA,
        }  # fmt: skip
    return properties


def _below(schema: Object, key: str) -> Object | None:
    """The schema of a field; None when it is unknown."""
    found = _properties(schema).get(key)
    if found is None:
        found = schema.get("additionalProperties")
    if isinstance(found, dict):
        return found
    return {PRESERVE: True} if found is True else None


def _without_nulls(value: Json, schema: Object) -> Json:
    if isinstance(value, dict):
        kept = {}
        for key, below in value.items():
            inner = _below(schema, key)
            if below is None and inner is not None and not inner.get("nullable") and not inner.get(PRESERVE):
                continue
            kept[key] = _without_nulls(below, inner or {})
        return kept
    if isinstance(value, list):
        return [_without_nulls(item, schema.get("items") or {}) for item in value]
    return value


def _prune(value: Json, schema: Object, path: str, unknown: list[str]) -> Json:
    if isinstance(value, dict):
        preserve = bool(schema.get(PRESERVE))
        kept = {}
        for key, below in value.items():
            inner = _below(schema, key)
            where = f"{path}.{key}" if path else key
            if inner is not None:
                kept[key] = _prune(below, inner, where, unknown)
            elif preserve:
                kept[key] = below
            else:
                unknown.append(where)
        return kept
    if isinstance(value, list) and (items := schema.get("items")) is not None:
        return [_prune(item, items, f"{path}[{index}]", unknown) for index, item in enumerate(value)]
    return value


def _default(value: Json, schema: Object) -> Json:
    if isinstance(value, dict):
        filled = dict(value)
        for key, inner in _properties(schema).items():
            if key not in filled and "default" in inner:
                filled[key] = copy.deepcopy(inner["default"])
        for key, below in filled.items():
            inner = _below(schema, key)
            if inner is not None and isinstance(below, (dict, list)):
                filled[key] = _default(below, inner)
        return filled
    if isinstance(value, list):
        items = schema.get("items") or {}
        return [_default(item, items) for item in value]
    return value

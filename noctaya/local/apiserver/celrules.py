"""CEL rules (`x-kubernetes-validations`) of a custom resource's schema.

Rules run where a value is present. A rule that names `oldSelf` runs only when there is an old value at the same place: found
through fields, map keys and keyed lists, never through atomic lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from noctaya.local.apiserver.celengine import cel
from noctaya.local.apiserver.celfunctions import FUNCTIONS, go_duration
from noctaya.local.apiserver.fieldpaths import key_of
from noctaya.local.apiserver.mergetypes import of_schema
from noctaya.local.apiserver.schemavalidation import field_path, type_name
from noctaya.local.apiserver.status import Cause, Json, Object, shown

_OLD = re.compile(r"\boldSelf\b")
_ABSENT: Any = object()
_EVALUATION = (ValueError, TypeError, RuntimeError, KeyError, IndexError)


@dataclass(frozen=True, slots=True)
class Rule:
    """One compiled rule."""

    text: str
    program: Any
    message: str
    message_program: Any
    reason: str
    field: str
    is_transition: bool
    takes_no_old: bool
    """`optionalOldSelf`: runs without an old value too, and sees it as an optional."""

    def evaluate(self, value: Json, old: Json) -> str | None:
        """None when the rule holds, else why not; raises one of `_EVALUATION` when it cannot be told."""
        variables: Object = {"self": value}
        if self.takes_no_old:
            variables["oldSelf"] = cel.OptionalValue.none() if old is _ABSENT else cel.OptionalValue.of(old)
        elif old is not _ABSENT:
            variables["oldSelf"] = old
        context = cel.Context(variables=variables, functions=FUNCTIONS)
        if self.program.execute(context) is True:
            return None
        if self.message_program is not None:
            return str(self.message_program.execute(context))
        return self.message or f"failed rule: {self.text}"


def _why(problem: Exception) -> str:
    if isinstance(problem, KeyError):
        return f"no such key: {problem.args[0]}"
    return str(problem)


class BadRule(ValueError):
    """A rule that does not compile; `path` is where in the schema."""

    def __init__(self, path: str, text: str, problem: str) -> None:
        super().__init__(problem)
        self.path = path
        self.text = text


def _compiled(declared: Object, path: str, index: int) -> Rule:
    text = declared["rule"]
    where = f"{path}.x-kubernetes-validations[{index}].rule"
    try:
        program = cel.compile(text)
        expression = declared.get("messageExpression")
        message_program = cel.compile(expression) if expression else None
    except ValueError as problem:
        raise BadRule(where, text, f"compilation failed: {problem}") from problem
    return Rule(
        text=text,
        program=program,
        message=declared.get("message") or "",
        message_program=message_program,
        reason=declared.get("reason") or "FieldValueInvalid",
        field=(declared.get("fieldPath") or "").removeprefix("."),
        is_transition=_OLD.search(text) is not None,
        takes_no_old=bool(declared.get("optionalOldSelf")),
    )


class _Node:
    """A schema node that has rules, at itself or below."""

    def __init__(self, schema: Object, path: str) -> None:
        self.schema = schema
        self.rules = [
            _compiled(one, path, index)
            for index, one in enumerate(schema.get("x-kubernetes-validations") or [])
        ]
        self.list_type = of_schema(schema)
        properties = schema.get("properties") or {}
        below = {name: _Node(one, f"{path}.properties[{name}]") for name, one in properties.items()}
        self.properties = {name: node for name, node in below.items() if node}
        self.values = self._inner(schema.get("additionalProperties"), f"{path}.additionalProperties")
        self.items = self._inner(schema.get("items"), f"{path}.items")

    def _inner(self, schema: Json, path: str) -> _Node | None:
        if not isinstance(schema, dict):
            return None
        return _Node(schema, path) or None

    def __bool__(self) -> bool:
        return bool(self.rules or self.properties or self.values or self.items)


class RuleSet:
    """All rules of a schema; raises `BadRule` when one does not compile."""

    def __init__(self, schema: Object, path: str = "schema.openAPIV3Schema") -> None:
        self._root = _Node(schema, path)

    def __bool__(self) -> bool:
        return bool(self._root)

    def problems(self, new: Object, old: Object | None) -> list[Cause]:
        """Rules that do not hold, the outer ones first."""
        return list(_problems(self._root, new, _ABSENT if old is None else old, []))


def _problems(node: _Node, value: Json, old: Json, path: list[Any]) -> Iterator[Cause]:
    if node.rules and value is not None:
        yield from _broken(node, value, old, path)
    if isinstance(value, dict):
        before = old if isinstance(old, dict) else {}
        for key, below in value.items():
            inner = node.properties.get(key) or node.values
            if inner is not None:
                yield from _problems(inner, below, before.get(key, _ABSENT), [*path, key])
    elif isinstance(value, list) and node.items is not None:
        before = _correlated(node, old)
        for index, item in enumerate(value):
            match = before.get(key_of(item, node.list_type), _ABSENT) if before else _ABSENT
            yield from _problems(node.items, item, match, [*path, index])


def _correlated(node: _Node, old: Json) -> Object:
    if not isinstance(old, list) or node.list_type.list_type != "map":
        return {}
    return {key_of(item, node.list_type): item for item in old}


def _broken(node: _Node, value: Json, old: Json, path: list[Any]) -> Iterator[Cause]:
    seen = _typed(value, node.schema)
    before = old if old is _ABSENT else _typed(old, node.schema)
    unchanged = old is not _ABSENT and old == value
    for rule in node.rules:
        if rule.is_transition and old is _ABSENT and not rule.takes_no_old:
            continue
        if not rule.is_transition and unchanged:
            continue  # as the real server's ratcheting: a value that nobody touched is not judged again
        try:
            problem = rule.evaluate(seen, before)
        except _EVALUATION as failure:
            text = f'Invalid value: "{type_name(value)}": {_why(failure)} evaluating rule: {rule.message or rule.text}'
            yield Cause(field_path(path) or "<nil>", text)
            continue
        if problem is not None:
            where = field_path([*path, *rule.field.split(".")] if rule.field else path) or "<nil>"
            yield _cause(rule.reason, where, value, problem)


def _cause(reason: str, where: str, value: Json, problem: str) -> Cause:
    match reason:
        case "FieldValueForbidden":
            return Cause(where, f"Forbidden: {problem}", reason)
        case "FieldValueRequired":
            return Cause(where, f"Required value: {problem}", reason)
        case "FieldValueDuplicate":
            return Cause(where, f'Duplicate value: "{type_name(value)}"', reason)
    if isinstance(value, (dict, list)) or value is None:
        return Cause(where, f"Invalid value: {problem}", reason)
    return Cause(where, f"Invalid value: {shown(value)}: {problem}", reason)


def _typed(value: Json, schema: Object) -> Json:
    """Values as CEL sees them: durations and timestamps as such, numbers as doubles."""
    if isinstance(value, dict):
        properties, values = schema.get("properties") or {}, schema.get("additionalProperties")
        fallback = values if isinstance(values, dict) else {}
        return {key: _typed(below, properties.get(key) or fallback) for key, below in value.items()}
    if isinstance(value, list):
        return [_typed(item, schema.get("items") or {}) for item in value]
    if isinstance(value, str) and schema.get("format") in ("duration", "date-time"):
        return _time(value, schema["format"])
    if schema.get("type") == "number" and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    return value


def _time(value: str, kind: str) -> timedelta | datetime | str:
    try:
        return (
            go_duration(value) if kind == "duration" else datetime.fromisoformat(value.replace("Z", "+00:00"))
        )
    except ValueError:
        return value

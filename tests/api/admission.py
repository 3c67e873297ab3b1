"""What the API server does with an object of a kind that a CRD defines: fill defaults, check the schema, evaluate CEL.

Small and for tests only. Errors read like the API server's: the path, then what is wrong there.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from datetime import timedelta
from functools import cache
from typing import Any

import jsonschema_rs

from noctaya.api.crds import crds
from noctaya.api.durations import Duration
from noctaya.local.apiserver.celengine import cel

Schema = dict[str, Any]


@cache
def schema_of(kind: str) -> Schema:
    """The structural schema of `kind`, as its CRD carries it."""
    for crd in crds():
        if crd["spec"]["names"]["kind"] == kind:
            schema: Schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
            return schema
    raise LookupError(kind)


@cache
def _validator(kind: str) -> jsonschema_rs.Validator:
    return jsonschema_rs.Draft7Validator(json.loads(json.dumps(schema_of(kind))))


def admit(obj: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The object with defaults, and why it is refused; nothing when it is accepted."""
    kind = obj["kind"]
    obj = copy.deepcopy(obj)
    fill_defaults(obj, schema_of(kind))
    errors = [_from_schema(error) for error in _validator(kind).iter_errors(obj)]
    # The API server, too, evaluates rules only on what has the right types.
    if not errors:
        errors = list(_broken_rules(obj, schema_of(kind), ""))
    return obj, errors


def fill_defaults(value: Any, schema: Schema) -> None:
    """Write the defaults of `schema` into objects that exist, as structural defaulting does."""
    if isinstance(value, dict):
        for name, child in schema.get("properties", {}).items():
            if name not in value and "default" in child:
                value[name] = copy.deepcopy(child["default"])
            if name in value:
                fill_defaults(value[name], child)
    elif isinstance(value, list):
        for item in value:
            fill_defaults(item, schema["items"])


def rules_of(schema: Schema, path: str = "") -> Iterator[tuple[str, dict[str, str]]]:
    """Every CEL rule in `schema` with its path."""
    for rule in schema.get("x-kubernetes-validations", ()):
        yield path, rule
    for name, child in schema.get("properties", {}).items():
        yield from rules_of(child, f"{path}.{name}" if path else name)
    if "items" in schema:
        yield from rules_of(schema["items"], f"{path}[]")


def _from_schema(error: jsonschema_rs.ValidationError) -> str:
    path = ""
    for step in error.instance_path:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else str(step)
    if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Required):
        return f"{path}.{error.kind.property}: Required value".removeprefix(".")
    return f"{path}: {error.message}"


def _broken_rules(value: Any, schema: Schema, path: str) -> Iterator[str]:
    for rule in schema.get("x-kubernetes-validations", ()):
        if not _holds(rule["rule"], value):
            yield f"{path}: {rule['message']}"
    if isinstance(value, dict):
        for name, child in schema.get("properties", {}).items():
            if name in value:
                yield from _broken_rules(value[name], child, f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        if schema.get("x-kubernetes-list-type") == "set" and len(set(value)) < len(value):
            yield f"{path}: Duplicate value"
        for index, item in enumerate(value):
            yield from _broken_rules(item, schema["items"], f"{path}[{index}]")


def _holds(rule: str, value: Any) -> bool:
    context = cel.Context()
    context.add_variable("self", value)
    # The evaluator's own duration() knows no µs, and cannot be replaced under its name.
    context.add_function("goDuration", _go_duration)
    result = cel.compile(rule.replace("duration(", "goDuration(")).execute(context)
    assert isinstance(result, bool), rule
    return result


def _go_duration(text: str) -> timedelta:
    return timedelta(microseconds=Duration.parse(text).nanoseconds / 1000)

"""Validation of a custom resource against its OpenAPI schema, with the API server's own words for each problem."""

from __future__ import annotations

import base64
import binascii
import re
from typing import Any

import jsonschema_rs

from noctaya.local.apiserver.status import Cause, Json, Object, shown

_DURATION = re.compile(
    r"[-+]?(0|(\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h)((\d+(\.\d*)?|\.\d+)(ns|us|µs|μs|ms|s|m|h))*)"
)
_DROPPED = frozenset({"default", "description", "example", "externalDocs", "title", "nullable", "format"})
_FORMATS = frozenset(
    {"date-time", "date", "email", "hostname", "ipv4", "ipv6", "uri", "duration", "byte", "uuid"}
)
_RANGES = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
_TYPE_NAMES = (
    (bool, "boolean"),
    (str, "string"),
    (int, "integer"),
    (float, "number"),
    (list, "array"),
    (dict, "object"),
)


def type_name(value: Json) -> str:
    """The JSON type of a value, as messages name it."""
    return next((name for kind, name in _TYPE_NAMES if isinstance(value, kind)), "null")


def field_path(path: list[Any]) -> str:
    """`spec.ports[0].name`."""
    shown = ""
    for part in path:
        shown += f"[{part}]" if isinstance(part, int) else f".{part}" if shown else str(part)
    return shown


def _is_base64(text: str) -> bool:
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


class SchemaValidator:
    """A compiled schema."""

    def __init__(self, schema: Object) -> None:
        self._schema = schema
        self._validator = jsonschema_rs.Draft4Validator(
            _translated(schema),
            validate_formats=True,
            formats={"duration": lambda text: _DURATION.fullmatch(text) is not None, "byte": _is_base64},
        )

    def problems(self, found: Object) -> list[Cause]:
        """Every broken constraint, by field."""
        causes = [_cause(error) for error in self._validator.iter_errors(found)]
        causes.extend(_duplicates(found, self._schema, ""))
        return sorted(causes, key=lambda cause: cause.field)


def _translated(schema: Object) -> Object:
    """An OpenAPI v3 schema with Kubernetes' extensions as JSON schema draft 4."""
    result: Object = {}
    for key, value in schema.items():
        if key in _DROPPED or key.startswith("x-kubernetes-"):
            continue
        if key == "properties":
            result[key] = {name: _translated(one) for name, one in value.items() if isinstance(one, dict)}
        elif key in ("items", "additionalProperties", "not") and isinstance(value, dict):
            result[key] = _translated(value)
        elif key in ("allOf", "anyOf", "oneOf"):
            result[key] = [_translated(one) for one in value]
        else:
            result[key] = value
    if schema.get("x-kubernetes-int-or-string"):
        result["type"] = ["integer", "string"]
    if schema.get("nullable") and "type" in result:
        kinds = result["type"] if isinstance(result["type"], list) else [result["type"]]
        result["type"] = [*kinds, "null"]
        if "enum" in result:
            result["enum"] = [*result["enum"], None]
    if schema.get("format") in _FORMATS:
        result["format"] = schema["format"]
    if schema.get("format") in _RANGES and schema.get("type") == "integer":
        low, high = _RANGES[schema["format"]]
        result.setdefault("minimum", low)
        result.setdefault("maximum", high)
    return result


def _cause(error: jsonschema_rs.ValidationError) -> Cause:
    path = field_path(error.instance_path)
    kind: Any = error.kind
    value: Json = error.instance
    given = shown(value) if not isinstance(value, (dict, list)) else f'"{type_name(value)}"'
    match kind.name:
        case "required":
            where = f"{path}.{kind.property}" if path else str(kind.property)
            return Cause(where, "Required value", "FieldValueRequired")
        case "enum":
            options = ", ".join(shown(one) for one in kind.options if one is not None)
            return Cause(
                path, f"Unsupported value: {given}: supported values: {options}", "FieldValueNotSupported"
            )
        case "type":
            wanted = _wanted_type(kind)
            text = f'Invalid value: "{type_name(value)}": {path} in body must be of type {wanted}: "{type_name(value)}"'
            return Cause(path, text, "FieldValueTypeInvalid")
        case "maxLength":
            return Cause(path, f"Too long: may not be more than {kind.limit} bytes", "FieldValueTooLong")
        case "maxItems":
            text = f"Too many: {len(value)}: must have at most {kind.limit} items"
            return Cause(path, text, "FieldValueTooMany")
        case "anyOf":
            return Cause(path, f'Invalid value: {given}: "{path}" must validate at least one schema (anyOf)')
        case "oneOf":
            found = "valid alternatives" if hasattr(kind, "matched") else "none valid"
            return Cause(
                path,
                f'Invalid value: {given}: "{path}" must validate one and only one schema (oneOf). Found {found}',
            )
        case "not":
            return Cause(path, f'Invalid value: {given}: "{path}" must not validate the schema (not)')
    return Cause(
        path, f"Invalid value: {_count(kind.name, value, given)}: {path} in body {_rule(kind, value)}"
    )


def _wanted_type(kind: Any) -> str:
    kinds = kind.value if isinstance(kind.value, list) else [kind.value]
    wanted = [str(one) for one in kinds if one != "null"]
    return "integer,string" if len(wanted) > 1 else wanted[0]


def _count(name: str, value: Json, given: str) -> str:
    return str(len(value)) if name in ("minItems", "minProperties", "maxProperties") else given


def _rule(kind: Any, value: Json) -> str:
    limit = getattr(kind, "limit", "")
    match kind.name:
        case "minimum":
            return f"should be greater than or equal to {limit}"
        case "maximum":
            return f"should be less than or equal to {limit}"
        case "exclusiveMinimum":
            return f"should be greater than {limit}"
        case "exclusiveMaximum":
            return f"should be less than {limit}"
        case "minLength":
            return f"should be at least {limit} chars long"
        case "minItems":
            return f"should have at least {limit} items"
        case "minProperties":
            return f"should have at least {limit} properties"
        case "maxProperties":
            return f"should have at most {limit} properties"
        case "pattern":
            return f"should match '{kind.pattern}'"
        case "format":
            return f"must be of type {kind.format}: {shown(value)}"
        case "multipleOf":
            return f"should be a multiple of {kind.value}"
        case "uniqueItems":
            return "shouldn't contain duplicates"
    return f"is not valid: {kind.name}"


def _duplicates(value: Json, schema: Object, path: str) -> list[Cause]:
    """Items that a set or keyed list has twice."""
    causes: list[Cause] = []
    if isinstance(value, dict):
        for key, below in value.items():
            inner = (schema.get("properties") or {}).get(key) or schema.get("additionalProperties")
            if isinstance(inner, dict):
                causes.extend(_duplicates(below, inner, f"{path}.{key}" if path else key))
    elif isinstance(value, list):
        list_type = schema.get("x-kubernetes-list-type")
        keys = schema.get("x-kubernetes-list-map-keys") or []
        seen: set[str] = set()
        for index, item in enumerate(value):
            if list_type in ("set", "map"):
                identity = (
                    item if list_type == "set" else {k: item.get(k) for k in keys if isinstance(item, dict)}
                )
                text = shown(identity)
                if text in seen:
                    causes.append(
                        Cause(f"{path}[{index}]", f"Duplicate value: {text}", "FieldValueDuplicate")
                    )
                seen.add(text)
            causes.extend(_duplicates(item, schema.get("items") or {}, f"{path}[{index}]"))
    return causes

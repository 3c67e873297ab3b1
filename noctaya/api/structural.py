"""From a pydantic model to a structural schema, the dialect of JSON schema that CustomResourceDefinitions accept.

pydantic writes references, `anyOf` with null, titles and 2020 keywords; a CRD knows none of them. Every keyword that arrives
is either translated, dropped on purpose, or on the list of those that the API server knows: anything else raises
`NotStructural`, so that a new field in a model cannot make a CRD that only a cluster refuses.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel

from noctaya.api.rules import IMPLIED
from noctaya.errors import NoctayaError

Schema = dict[str, Any]

_KEPT: Final = frozenset(
    {
        "default",
        "enum",
        "format",
        "maxItems",
        "maxLength",
        "maximum",
        "maxProperties",
        "minItems",
        "minLength",
        "minimum",
        "minProperties",
        "pattern",
        "required",
        "type",
        "x-kubernetes-int-or-string",
        "x-kubernetes-list-map-keys",
        "x-kubernetes-list-type",
        "x-kubernetes-map-type",
        "x-kubernetes-validations",
    }
)
_DROPPED: Final = frozenset({"$defs", "title", "examples", IMPLIED})


class NotStructural(NoctayaError):
    """A model says something that a CustomResourceDefinition cannot say."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path or 'the model'} has no structural schema: {problem}")
        self.path = path
        self.problem = problem


def structural(model: type[BaseModel]) -> Schema:
    """The structural schema of `model`. Raises `NotStructural`."""
    source = model.model_json_schema(by_alias=True, mode="validation")
    return _Converter(source.get("$defs", {})).convert(source, model.__name__, ())


class _Converter:
    def __init__(self, definitions: Mapping[str, Schema]) -> None:
        self.definitions = definitions

    def convert(self, source: Schema, path: str, within: tuple[str, ...]) -> Schema:
        """`source` converted; `within` holds the definitions that are being expanded around it."""
        source, within = self._inlined(source, path, within)
        source = _without_null(source, path)
        if "$ref" in source:
            return self.convert(source, path, within)
        hidden = _DROPPED | {"default"} if IMPLIED in source else _DROPPED
        schema: Schema = {}
        for keyword, value in source.items():
            if keyword in hidden:
                continue
            match keyword:
                case "properties":
                    schema[keyword] = {
                        name: self.convert(child, f"{path}.{name}", within) for name, child in value.items()
                    }
                case "items":
                    schema[keyword] = self.convert(value, f"{path}[]", within)
                case "additionalProperties" if isinstance(value, dict):
                    schema[keyword] = self.convert(value, f"{path}[*]", within)
                case "description":
                    schema[keyword] = " ".join(inspect.cleandoc(value).split())
                case "const":
                    schema["enum"] = [value]
                case "exclusiveMinimum" | "exclusiveMaximum":
                    # OpenAPI 3.0 wants the bound and a flag.
                    bound = "minimum" if keyword == "exclusiveMinimum" else "maximum"
                    schema[bound], schema[keyword] = value, True
                case "anyOf" if source.get("x-kubernetes-int-or-string"):
                    schema[keyword] = value
                case _ if keyword in _KEPT:
                    schema[keyword] = value
                case _:
                    raise NotStructural(path, f"{keyword} is not supported")
        if "type" not in schema and not schema.get("x-kubernetes-int-or-string"):
            raise NotStructural(path, "it has no type")
        return schema

    def _inlined(self, source: Schema, path: str, within: tuple[str, ...]) -> tuple[Schema, tuple[str, ...]]:
        """`source` with what its `$ref` points to; what stands beside the reference wins."""
        if "$ref" not in source:
            return source, within
        name = source["$ref"].removeprefix("#/$defs/")
        if name in within:
            raise NotStructural(path, f"{name} contains itself")
        siblings = {keyword: value for keyword, value in source.items() if keyword != "$ref"}
        return self.definitions[name] | siblings, (*within, name)


def _without_null(source: Schema, path: str) -> Schema:
    """`X | None` as X: in Kubernetes an optional field is one that may be absent."""
    if "anyOf" not in source or source.get("x-kubernetes-int-or-string"):
        return source
    branches: list[Schema] = [branch for branch in source["anyOf"] if branch != {"type": "null"}]
    if len(branches) != 1:
        raise NotStructural(path, "a choice of types is not supported")
    siblings = {keyword: value for keyword, value in source.items() if keyword != "anyOf"}
    if siblings.get("default", ...) is None:
        del siblings["default"]
    return branches[0] | siblings

"""The base of the API's models, and rules that hold in two languages.

A `Rule` is written once: as CEL, which the API server evaluates when somebody applies an object, and as Python, which guards
the workers against objects that came around the API server's check. Tests feed both the same samples. Put a rule on a field
(`Annotated[Duration, rule]`) or, where it compares fields, in the `rules` of a model.

CEL here is the part that Kubernetes 1.30 and the embedded API server share: `has()` before optional fields, no optional
types, no extension library; durations are strings until `duration()` reads them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Self

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetCoreSchemaHandler,
    GetJsonSchemaHandler,
    model_validator,
)
from pydantic.alias_generators import to_camel
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from noctaya.api.descriptions import field_descriptions

VALIDATIONS: Final = "x-kubernetes-validations"
IMPLIED: Final = "x-noctaya-implied"
"""Marks a default that stays out of the CRD; the converter takes both away."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What must hold of a value; `message` is what a user reads when it does not, and names the field.

    `cel` is None where a keyword of the schema already says it (uniqueness: `x-kubernetes-list-type: set`).
    """

    cel: str | None
    message: str
    holds: Callable[[Any], bool]

    def check(self, value: Any) -> Any:
        if not self.holds(value):
            raise PydanticCustomError("rule", "{message}", {"message": self.message})
        return value

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.check, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        return validated_by(handler(schema), [self])


def validated_by(schema: JsonSchemaValue, rules: Iterable[Rule]) -> JsonSchemaValue:
    """`schema` with the CEL of `rules` added to it."""
    if validations := [{"rule": rule.cel, "message": rule.message} for rule in rules if rule.cel is not None]:
        schema[VALIDATIONS] = [*schema.get(VALIDATIONS, []), *validations]
    return schema


class ApiModel(BaseModel):
    """Part of an API object: frozen, camelCase outside, unknown fields ignored as the API server prunes them."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        frozen=True,
        extra="ignore",
        # A validator is built when it is first needed: the parts of a spec never need one of their own, and a role that
        # only names a model pays nothing for it.
        defer_build=True,
    )

    rules: ClassVar[tuple[Rule, ...]] = ()
    schema_extra: ClassVar[dict[str, Any]] = {}
    """Kubernetes keywords for the schema of this object, such as `x-kubernetes-map-type`."""

    @model_validator(mode="after")
    def _rules_hold(self) -> Self:
        for rule in self.rules:
            rule.check(self)
        return self

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        json_schema = handler(schema)
        resolved = handler.resolve_ref_schema(json_schema)
        resolved.update(cls.schema_extra)
        described = field_descriptions(cls)
        for name, field in cls.model_fields.items():
            shown = resolved.get("properties", {}).get(field.alias or name)
            if shown is not None and name in described:
                shown.setdefault("description", described[name])
        validated_by(resolved, cls.rules)
        return json_schema

    def as_json(self) -> dict[str, Any]:
        """The object as it was written: what was not set is left out, quantities keep their text."""
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True)


def implied(default: Any) -> Any:
    """A field with a default that readers see and the API server does not write into objects."""
    return Field(default=default, json_schema_extra={IMPLIED: True})


def written(default: Any, text: str) -> Any:
    """A field whose default the API server writes as `text`."""
    return Field(default=default, json_schema_extra={"default": text})


def nested(model: type[ApiModel]) -> Any:
    """A field that is there with all its own defaults even when the user leaves it out.

    The API server fills defaults only inside objects that exist: every ancestor of a default needs `default: {}`.
    """
    return Field(default_factory=model, json_schema_extra={"default": {}})

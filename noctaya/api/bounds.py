"""Bounded types and the rules that fields of one type share.

The API server estimates what a CEL rule may cost from the longest text and list that a schema admits, and refuses the whole
CRD when it does not know: every text here has a length, every list in the models a number of items.
"""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import Field, PlainValidator, StrictBool, WithJsonSchema
from pydantic_core import PydanticCustomError

from noctaya.api.durations import PATTERN
from noctaya.api.rules import Rule

HOSTNAME: Final = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
"""A DNS subdomain: host names, and the names of most Kubernetes objects."""
MODEL_NAME: Final = "^[A-Za-z0-9][A-Za-z0-9._:/@+-]*$"
"""What may stand in a request's `model` field."""


def _int_or_string(value: Any) -> int | str:
    if isinstance(value, bool) or not isinstance(value, int | str) or len(str(value)) > 253:
        raise PydanticCustomError(
            "int_or_string", "must be a whole number or a text of at most 253 characters"
        )
    return value


Bool = StrictBool
Int32 = Annotated[int, Field(strict=True, le=2**31 - 1, json_schema_extra={"format": "int32"})]
"""Fields add their lower bound."""
Int64 = Annotated[int, Field(strict=True, json_schema_extra={"format": "int64"})]
IntOrString = Annotated[
    int | str,
    PlainValidator(_int_or_string),  # not pydantic's union: its branches would show in the paths of errors
    WithJsonSchema(
        {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "maxLength": 253,
            "x-kubernetes-int-or-string": True,
        }
    ),
]
ShortText = Annotated[str, Field(max_length=253)]
"""The longest name of a Kubernetes object."""
Text = Annotated[str, Field(max_length=1024)]
LongText = Annotated[str, Field(max_length=32768)]
"""Arguments and environment values: a chat template must fit."""
LabelValue = Annotated[str, Field(max_length=63)]
Timestamp = Annotated[str, Field(max_length=64, json_schema_extra={"format": "date-time"})]


def positive(field: str) -> Rule:
    """For a Duration longer than nothing. The match comes first: false, it spares `duration()` a text it cannot read."""
    return Rule(
        f"self.matches('^{PATTERN}$') && duration(self) > duration('0s')",
        f"{field} must be a duration longer than 0s, such as 5m or 1m30s",
        lambda duration: duration.nanoseconds > 0,
    )


def not_negative(field: str) -> Rule:
    """For a Duration that may be nothing."""
    return Rule(
        f"self.matches('^{PATTERN}$') && duration(self) >= duration('0s')",
        f"{field} must be a duration of 0s or longer, such as 2m",
        lambda duration: duration.nanoseconds >= 0,
    )


def not_below_zero(field: str) -> Rule:
    """For a Quantity."""
    return Rule(
        "type(self) == int ? self >= 0 : !string(self).startsWith('-')",
        f"{field} must not be negative",
        lambda quantity: not quantity.text.startswith("-"),
    )


def is_unique(values: tuple[str, ...]) -> bool:
    return len(set(values)) == len(values)

"""What both kinds share: the head of the object, and reading a live object into a model.

A resource holds `metadata` and `spec`. Its status is left unread: a status that another version wrote must never make a
spec unreadable. Reading raises `InvalidSpec` with every field that is wrong; nothing else escapes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, ValidationError
from pydantic_core import ErrorDetails

from noctaya.api.bounds import Timestamp
from noctaya.api.errors import FieldProblem, InvalidSpec
from noctaya.api.rules import ApiModel, implied


class ObjectMeta(ApiModel):
    """The part of an object's metadata that Noctaya reads."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None


class Resource(ApiModel):
    """An object of Noctaya's API group."""

    kind: ClassVar[str]

    metadata: ObjectMeta

    @classmethod
    def parse(cls, obj: Mapping[str, Any]) -> Self:
        """The model of a live object, with defaults where the API server has not filled them. Raises `InvalidSpec`."""
        try:
            return cls.model_validate(obj)
        except ValidationError as error:
            raise invalid_spec(cls.kind, obj, error) from error


class StatusCondition(ApiModel):
    """One observation of the object's state."""

    last_transition_time: Timestamp
    """When the status last changed."""
    message: Annotated[str, Field(max_length=32768)]
    """Details, for people."""
    observed_generation: Annotated[int, Field(ge=0, json_schema_extra={"format": "int64"})] | None = None
    """Generation of the object that this speaks of."""
    reason: Annotated[
        str, Field(min_length=1, max_length=1024, pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")
    ]
    """Why, in one CamelCase word."""
    status: Literal["True", "False", "Unknown"]
    """True, False or Unknown."""
    type: Annotated[
        str,
        Field(
            max_length=316,
            pattern="^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$",
        ),
    ]
    """What it speaks of."""


Conditions = Annotated[
    tuple[StatusCondition, ...],
    Field(
        max_length=32,
        json_schema_extra={"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["type"]},
    ),
]


class ConditionsOnly(ApiModel):
    """A status that is nothing but conditions."""

    conditions: Conditions = implied(())
    """What is known about the object, by type."""


def invalid_spec(kind: str, obj: Any, error: ValidationError) -> InvalidSpec:
    """pydantic's findings, with the paths that a user knows from the manifest."""
    metadata = obj.get("metadata") if isinstance(obj, Mapping) else None
    name, namespace = (
        (str(metadata.get("name", "")), str(metadata.get("namespace", "")))
        if isinstance(metadata, Mapping)
        else ("", "")
    )
    problems = tuple(
        FieldProblem(_path(details["loc"]), _message(details)) for details in error.errors(include_url=False)
    )
    return InvalidSpec(kind, f"{namespace}/{name}" if namespace else name, problems)


def _path(loc: tuple[int | str, ...]) -> str:
    path = ""
    for step in loc:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path or "object"


def _message(details: ErrorDetails) -> str:
    cause = details.get("ctx", {}).get("error")
    if details["type"] == "missing":
        return "is required"
    return str(cause) if cause is not None else details["msg"]

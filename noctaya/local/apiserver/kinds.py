"""What the server knows about one served kind: names, scope, subresources, columns, schema.

`Kind` is a value: built-in kinds are listed in `resources.py`, those of custom resource definitions are built by
`customresources.py`. Several kinds may share one storage (both event APIs), then `decode` and `encode` convert.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from noctaya.local.apiserver import status
from noctaya.local.apiserver.status import ApiError, Json, Object

if TYPE_CHECKING:
    from noctaya.local.apiserver.mergetypes import MergeType
    from noctaya.local.apiserver.schema import StructuralSchema

ALL_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of kubectl's table. `cell(object, now)` gives its value; `now` is wall time in seconds, for ages."""

    name: str
    cell: Callable[[Object, float], Json]
    type: str = "string"
    format: str = ""
    description: str = ""
    priority: int = 0

    def definition(self) -> Object:
        """The entry of `columnDefinitions`."""
        return {
            "name": self.name,
            "type": self.type,
            "format": self.format,
            "description": self.description,
            "priority": self.priority,
        }


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where a kind keeps what its scale subresource shows; paths of field names below the object."""

    spec: tuple[str, ...] = ("spec", "replicas")
    status: tuple[str, ...] = ("status", "replicas")
    selector: tuple[str, ...] | None = ("spec", "selector")


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind in one version."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool = True
    singular: str = ""
    list_kind: str = ""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    has_status: bool = False
    scale: ScalePaths | None = None
    subresources: tuple[str, ...] = ()
    """Further ones: log, eviction, finalize."""
    columns: tuple[Column, ...] = ()
    storage: str = ""
    """Where objects are kept: `group/plural` unless shared."""
    schema: StructuralSchema | None = None
    """Of a custom resource; None for built-in kinds."""
    merge_type: MergeType | None = None
    """How lists and maps merge in server-side apply; None means by built-in table."""
    decode: Callable[[Object], Object] | None = None
    encode: Callable[[Object], Object] | None = None
    verbs: tuple[str, ...] = ALL_VERBS
    selectable_fields: tuple[str, ...] = ()
    """Field selector paths that a custom resource declares."""
    has_generation: bool = field(default=True)

    def __post_init__(self) -> None:
        if not self.storage:
            object.__setattr__(self, "storage", f"{self.group}/{self.plural}")
        if not self.singular:
            object.__setattr__(self, "singular", self.kind.lower())
        if not self.list_kind:
            object.__setattr__(self, "list_kind", f"{self.kind}List")

    @property
    def api_version(self) -> str:
        """`apps/v1`, or `v1` in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def qualified(self) -> str:
        """`deployments.apps`."""
        return status.qualified(self.plural, self.group)

    def not_found(self, name: str) -> ApiError:
        """404 for an object of this kind."""
        return status.not_found(self.plural, self.group, name)

    def conflict(self, name: str, why: str) -> ApiError:
        """409 for an object of this kind."""
        return status.conflict(self.plural, self.group, name, why)

    def shown(self, stored: Object) -> Object:
        """A stored object as this kind and version shows it."""
        if self.encode is not None:
            return self.encode(stored)
        if stored.get("apiVersion") != self.api_version:
            return {**stored, "apiVersion": self.api_version}
        return stored

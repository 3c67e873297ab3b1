"""Defaults, pruning and validation of an object on its way into the store."""

from __future__ import annotations

from dataclasses import replace

from noctaya.local.apiserver import builtindefaults, builtinvalidation, status
from noctaya.local.apiserver.kinds import Kind
from noctaya.local.apiserver.schema import StructuralSchema
from noctaya.local.apiserver.status import Cause, Object


class NotDecodable(status.ApiError):
    """400: the body is no object of this kind."""

    def __init__(self, kind: Kind, why: str) -> None:
        text = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {why}'
        super().__init__(400, "BadRequest", text)
        self.why = why


def admit(
    kind: Kind, subresource: str, old: Object | None, new: Object, validation: str
) -> tuple[Object, tuple[str, ...]]:
    """The object with its defaults and the warnings about it; raises 422 (or 400 in Strict) when it is refused."""
    if kind.schema is not None:
        return _custom(kind, kind.schema, subresource, old, new, validation)
    if (why := builtinvalidation.undecodable(kind, new)) is not None:
        raise NotDecodable(kind, why)
    new = builtindefaults.defaulted(kind, new)
    if not subresource or subresource == "scale":
        causes = builtinvalidation.problems(kind, old, new)
        if causes:
            # An event's refusal names the older API, whichever it came through.
            group = "" if kind.storage == "/events" else kind.group
            raise status.invalid(kind.kind, group, new["metadata"]["name"], causes)
    return new, ()


def _custom(
    kind: Kind,
    schema: StructuralSchema,
    subresource: str,
    old: Object | None,
    new: Object,
    validation: str,
) -> tuple[Object, tuple[str, ...]]:
    name = new["metadata"]["name"]
    new, unknown = schema.pruned(new)
    complaints = tuple(f'unknown field "{path}"' for path in unknown)
    if complaints and validation == "Strict":
        raise NotDecodable(kind, "strict decoding error: " + ", ".join(complaints))
    new = schema.defaulted(new)
    causes = schema.problems(new, old)
    if subresource == "status":
        causes = [_below_status(cause) for cause in causes]
    if causes:
        raise status.invalid(kind.kind, kind.group, name, causes)
    return new, complaints if validation == "Warn" else ()


def _below_status(cause: Cause) -> Cause:
    """The real server judges a status by its own part of the schema, and its words begin there."""
    inner = cause.field.removeprefix("status.")
    return replace(cause, message=cause.message.replace(f"{cause.field} in body", f"{inner} in body"))

"""Defaults, pruning and validation of an object on its way into the store."""

from __future__ import annotations

from noctaya.local.apiserver import builtindefaults, builtinvalidation, status
from noctaya.local.apiserver.kinds import Kind
from noctaya.local.apiserver.schema import StructuralSchema
from noctaya.local.apiserver.status import Object


def admit(
    kind: Kind, subresource: str, old: Object | None, new: Object, validation: str
) -> tuple[Object, tuple[str, ...]]:
    """The object with its defaults and the warnings about it; raises 422 (or 400 in Strict) when it is refused."""
    if kind.schema is not None:
        return _custom(kind, kind.schema, old, new, validation)
    new = builtindefaults.defaulted(kind, new)
    if not subresource or subresource == "scale":
        causes = builtinvalidation.problems(kind, old, new)
        if causes:
            raise status.invalid(kind.kind, kind.group, new["metadata"]["name"], causes)
    return new, ()


def _custom(
    kind: Kind, schema: StructuralSchema, old: Object | None, new: Object, validation: str
) -> tuple[Object, tuple[str, ...]]:
    name = new["metadata"]["name"]
    new, unknown = schema.pruned(new)
    complaints = tuple(f'unknown field "{path}"' for path in unknown)
    if complaints and validation == "Strict":
        raise status.bad_request(
            f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: strict decoding error: '
            + ", ".join(complaints)
        )
    new = schema.defaulted(new)
    causes = schema.problems(new, old)
    if causes:
        raise status.invalid(kind.kind, kind.group, name, causes)
    return new, complaints if validation == "Warn" else ()

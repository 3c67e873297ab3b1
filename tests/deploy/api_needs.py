"""What a worker asks of the API server, read from its source: the other side of its RBAC rules.

Found are calls of a client's verbs, Stores (list and watch), the children that `render.py` makes (applied: patch, and create
for the first time), Leases and events. A call whose kind cannot be read from the source is an error here rather than a gap
in the rules.
"""

import ast
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from noctaya.kube import resources
from noctaya.kube.resources import EVENTS, LEASES, Resource
from tests.deploy.manifests import ROOT

VERBS = {
    "get": ("get",),
    "list": ("list",),
    "watch": ("watch",),
    "create": ("create",),
    "replace": ("update",),
    "patch": ("patch",),
    "delete": ("delete",),
    "apply": ("patch", "create"),
}
LEASE_VERBS = {"read": "get", "create": "create", "replace": "update", "delete": "delete"}
EVENT_VERBS = ("create", "patch")
PACKAGES = ("workers", "leader")


class Need(NamedTuple):
    """One thing to be allowed, as RBAC writes it."""

    group: str
    resource: str
    verb: str


@lru_cache
def needs() -> frozenset[Need]:
    """Everything that the worker's and leader's packages ask for."""
    trees = {path: ast.parse(path.read_text()) for path in _modules()}
    children = {
        resource
        for tree in trees.values()
        for call in _calls(tree)
        if _name(call.func) == "Child" and (resource := _constant(call.args[0])) is not None
    }
    return frozenset(
        need
        for path, tree in trees.items()
        for call in _calls(tree)
        for need in _of_call(path, call, children)
    )


def _modules() -> Iterator[Path]:
    for package in PACKAGES:
        yield from sorted((ROOT / "noctaya" / package).rglob("*.py"))


def _of_call(path: Path, call: ast.Call, children: set[Resource]) -> Iterator[Need]:
    name = _name(call.func)
    if name == "Store":
        yield from _needs(_known(path, call, call.args[1]), ("list", "watch"))
    elif name == "EventRecorder":
        yield from _needs(EVENTS, EVENT_VERBS)
    elif isinstance(call.func, ast.Attribute):
        owner, verb = _name(call.func.value), call.func.attr
        if owner == "_leases":
            yield from _needs(LEASES, (LEASE_VERBS[verb],))
        elif owner in ("client", "_client", "lease_client") and verb in VERBS:
            for resource in _asked(path, call, children):
                yield from _needs(resource, VERBS[verb], _subresource(call))


def _asked(path: Path, call: ast.Call, children: set[Resource]) -> set[Resource]:
    if ast.unparse(call.args[0]) == "child.resource":
        return children
    return {_known(path, call, call.args[0])}


def _needs(resource: Resource, verbs: tuple[str, ...], subresource: str = "") -> Iterator[Need]:
    name = f"{resource.plural}/{subresource}" if subresource else resource.plural
    for verb in verbs:
        yield Need(resource.group, name, verb)


def _subresource(call: ast.Call) -> str:
    found = [keyword.value for keyword in call.keywords if keyword.arg == "subresource"]
    return str(ast.literal_eval(found[0])) if found else ""


def _known(path: Path, call: ast.Call, node: ast.expr) -> Resource:
    found = _constant(node)
    assert found is not None, f"{path}:{call.lineno}: which kind is {ast.unparse(node)}? Teach {__name__}."
    return found


def _constant(node: ast.expr) -> Resource | None:
    found = getattr(resources, node.id, None) if isinstance(node, ast.Name) else None
    return found if isinstance(found, Resource) else None


def _calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def _name(node: ast.expr) -> str:
    match node:
        case ast.Name():
            return node.id
        case ast.Attribute():
            return node.attr
        case _:
            return ""

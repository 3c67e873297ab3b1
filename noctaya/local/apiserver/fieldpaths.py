"""Paths of fields, sets of them, and the `fieldsV1` form in which managedFields stores them.

A path is a tuple of elements as fieldsV1 writes them: `f:name`, `k:{"name":"x"}` for an item of a keyed list, `v:"x"` for an
item of a set. A set contains the leaves of a value (scalars, atomic values, empty objects) and the items of keyed lists.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import msgspec

from noctaya.local.apiserver.mergetypes import MergeType
from noctaya.local.apiserver.status import Json, Object

Path = tuple[str, ...]


def key_of(item: Json, kind: MergeType) -> str:
    """The element that tells an item of a set or keyed list from its siblings."""
    if kind.list_type == "set" or not isinstance(item, dict):
        return f"v:{msgspec.json.encode(item).decode()}"
    keys = {key: item.get(key, kind.key_defaults.get(key)) for key in sorted(kind.keys)}
    return f"k:{msgspec.json.encode({k: v for k, v in keys.items() if v is not None}).decode()}"


def children(value: Json, kind: MergeType) -> list[tuple[str, Json, MergeType]] | None:
    """The elements below a value, or None when it is a leaf."""
    if kind.atomic:
        return None
    if isinstance(value, dict):
        return [(f"f:{name}", below, kind.below(name)) for name, below in value.items()] or None
    if isinstance(value, list) and kind.list_type != "atomic":
        return [(key_of(item, kind), item, kind.item) for item in value] or None
    return None


def leaves(value: Json, kind: MergeType, at: Path = ()) -> Iterator[Path]:
    """The set of a value's fields."""
    below = children(value, kind)
    if below is None:
        if at:
            yield at
        return
    for element, found, inner in below:
        if element[0] != "f" and isinstance(found, dict) and found:
            yield (*at, element)
        yield from leaves(found, inner, (*at, element))


@dataclass(slots=True)
class Changes:
    """How one value differs from another."""

    added: set[Path] = field(default_factory=set)
    modified: set[Path] = field(default_factory=set)
    removed: set[Path] = field(default_factory=set)

    @property
    def written(self) -> set[Path]:
        """What the writer now stands for."""
        return self.added | self.modified

    def __bool__(self) -> bool:
        return bool(self.added or self.modified or self.removed)


def compare(old: Json, new: Json, kind: MergeType) -> Changes:
    """The fields that differ; equal subtrees cost one comparison."""
    changes = Changes()
    _compare(old, new, kind, (), changes)
    return changes


def _compare(old: Json, new: Json, kind: MergeType, at: Path, changes: Changes) -> None:
    if old is new or (old == new and type(old) is type(new)):
        return
    before, after = children(old, kind), children(new, kind)
    if before is None and after is None:
        if at:
            changes.modified.add(at)
        return
    was = {element: (value, inner) for element, value, inner in before or ()}
    now = {element: (value, inner) for element, value, inner in after or ()}
    if at and before is None:
        changes.removed.add(at)
    if at and after is None:
        changes.added.add(at)
    for element, (value, inner) in now.items():
        path = (*at, element)
        if element in was:
            _compare(was[element][0], value, inner, path, changes)
        else:
            changes.added.update(_with_item(path, value, inner))
    for element, (value, inner) in was.items():
        if element not in now:
            path = (*at, element)
            changes.removed.update(_with_item(path, value, inner))


def _with_item(path: Path, value: Json, kind: MergeType) -> Iterator[Path]:
    if path[-1][0] != "f":
        yield path
    yield from leaves(value, kind, path)


# fieldsV1


def encode(paths: Iterable[Path]) -> Object:
    """A set as fieldsV1."""
    root: Object = {}
    members: set[Path] = set(paths)
    for path in sorted(members):
        node = root
        for depth, element in enumerate(path):
            below = node.get(element)
            if below is None:
                below = node[element] = {}
            elif not below and path[: depth + 1] in members and depth + 1 < len(path):
                below["."] = {}
            node = below
    return root


def decode(fields: Object) -> set[Path]:
    """The set that a fieldsV1 holds."""
    found: set[Path] = set()
    _decode(fields, (), found)
    return found


def _decode(node: Object, at: Path, found: set[Path]) -> None:
    if not node and at:
        found.add(at)
    for element, below in node.items():
        if element == ".":
            found.add(at)
        else:
            _decode(below, (*at, element), found)


def readable(path: Path) -> str:
    """A path as conflicts show it: `.spec.containers[name="x"].image`."""
    shown = ""
    for element in path:
        if element.startswith("f:"):
            shown += f".{element[2:]}"
        elif element.startswith("k:"):
            keys = msgspec.json.decode(element[2:].encode())
            inner = ",".join(f"{key}={msgspec.json.encode(value).decode()}" for key, value in keys.items())
            shown += f"[{inner}]"
        else:
            shown += f"[={element[2:]}]"
    return shown

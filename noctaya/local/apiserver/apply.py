"""Server-side apply: a manager says what it wants of an object; fields are merged, owned, and given up.

The rules are those of Kubernetes' structured merge: applying a field makes the manager one of its owners; changing a field
that another owns is a conflict unless forced; a field that the manager applied before and no longer names is removed when
nobody else owns it. Fields that nobody names stay as they are.
"""

from __future__ import annotations

from dataclasses import replace

from noctaya.local.apiserver import fieldpaths, objectmeta, status
from noctaya.local.apiserver.builtintypes import merge_type
from noctaya.local.apiserver.fieldpaths import Path, key_of
from noctaya.local.apiserver.kinds import Kind
from noctaya.local.apiserver.mergetypes import MergeType
from noctaya.local.apiserver.ownership import Owner, entries_of, ownable, owners_of
from noctaya.local.apiserver.status import ApiError, Cause, Json, Object


def configuration(kind: Kind, subresource: str, body: Object) -> Object:
    """The part of an applied body that counts: no identity, no nulls, only what the subresource may touch."""
    if (body.get("metadata") or {}).get("managedFields"):
        raise status.bad_request("metadata.managedFields must be nil")
    wanted: Object = ownable(_without_nulls(body))
    if kind.schema is not None and (unknown := kind.schema.pruned(wanted)[1]):
        metadata = body.get("metadata") or {}
        where = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}; {kind.api_version}, Kind={kind.kind}"
        listed = ", ".join(f".{path}: field not declared in schema" for path in unknown)
        raise ApiError(500, "", f"failed to create typed patch object ({where}): {listed}")
    if subresource == "status":
        return {key: value for key, value in wanted.items() if key == "status"}
    if kind.has_status:
        wanted.pop("status", None)
    return wanted


def first_owner(kind: Kind, config: Object, manager: str, now: float) -> list[Object]:
    """managedFields of an object that this apply creates."""
    fields = frozenset(fieldpaths.leaves(config, merge_type(kind)))
    mine = Owner(manager, "Apply", kind.api_version, "", objectmeta.timestamp(now), fields)
    return [mine.as_json()] if fields else []


def merged(
    kind: Kind, subresource: str, old: Object, config: Object, manager: str, force: bool, now: float
) -> tuple[Object, list[Object]]:
    """The object after the apply and its managedFields; raises 409 with the conflicts unless forced."""
    how = merge_type(kind)
    applied = frozenset(fieldpaths.leaves(config, how))
    owners = owners_of(old)
    mine = Owner(manager, "Apply", kind.api_version, subresource, objectmeta.timestamp(now), applied)
    last = next((owner for owner in owners if owner.identity == mine.identity), None)
    others = [owner for owner in owners if owner.identity != mine.identity]
    new: Object = _merge(old, config, how)
    changes = fieldpaths.compare(ownable(old), ownable(new), how)
    contested = frozenset(changes.written)
    conflicts = [(owner, owner.fields & contested) for owner in others if owner.fields & contested]
    if conflicts and not force:
        raise _conflict(conflicts)
    others = [left for owner in others if (left := _giving_up(owner, contested)).fields]
    given_up = _given_up(last.fields - applied if last else frozenset(), applied, others)
    if given_up:
        owned = applied.union(*(owner.fields for owner in others))
        new = _remove(new, how, given_up, owned, ())
    unchanged = last is not None and last.fields == applied and not changes
    entries = [*others, last if unchanged and last else mine] if applied else others
    return new, entries_of(entries)


def _giving_up(owner: Owner, contested: frozenset[Path]) -> Owner:
    return replace(owner, fields=owner.fields - contested) if owner.fields & contested else owner


def _given_up(dropped: frozenset[Path], applied: frozenset[Path], others: list[Owner]) -> frozenset[Path]:
    """Dropped fields that nobody else owns, nor anything below them."""
    if not dropped:
        return dropped
    kept: set[Path] = set()
    for fields in (applied, *(owner.fields for owner in others)):
        for path in fields:
            kept.update(path[:depth] for depth in range(1, len(path) + 1))
    return dropped - kept


def _conflict(conflicts: list[tuple[Owner, frozenset[Path]]]) -> ApiError:
    causes: list[Cause] = []
    lines: list[str] = []
    for owner, fields in sorted(conflicts, key=lambda conflict: conflict[0].identity):
        named = _named(owner)
        shown = sorted(fieldpaths.readable(path) for path in fields)
        causes.extend(Cause(field, f"conflict with {named}", "FieldManagerConflict") for field in shown)
        if len(shown) == 1 and len(conflicts) == 1:
            lines.append(f"conflict with {named}: {shown[0]}")
        else:
            lines.append(f"conflicts with {named}:\n" + "\n".join(f"- {field}" for field in shown))
    plural = "conflict" if len(causes) == 1 else "conflicts"
    message = f"Apply failed with {len(causes)} {plural}: " + "\n".join(lines)
    return ApiError(409, "Conflict", message, {"causes": [cause.as_json() for cause in causes]})


def _named(owner: Owner) -> str:
    """A manager as conflicts name it; one that applies needs no version."""
    subresource = f' with subresource "{owner.subresource}"' if owner.subresource else ""
    version = f" using {owner.api_version}" if owner.operation == "Update" else ""
    return f'"{owner.manager}"{subresource}{version}'


def _without_nulls(value: Json) -> Json:
    if isinstance(value, dict):
        return {key: _without_nulls(below) for key, below in value.items() if below is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    return value


def _merge(live: Json, config: Json, how: MergeType) -> Json:
    if how.atomic:
        return config
    if isinstance(config, dict) and isinstance(live, dict):
        return {
            **live,
            **{key: _merge(live.get(key), value, how.below(key)) for key, value in config.items()},
        }
    if isinstance(config, list) and isinstance(live, list) and how.list_type != "atomic":
        return _merge_list(live, config, how)
    return config


def _merge_list(live: list[Json], config: list[Json], how: MergeType) -> list[Json]:
    """Items in the applied order; an item that only the live list has stays behind its neighbour there."""
    before = {key_of(item, how): item for item in live}
    result: dict[str, Json] = {}
    for item in config:
        key = key_of(item, how)
        result[key] = _merge(before[key], item, how.item) if key in before else item
    order = list(result)
    previous = ""
    for key, item in before.items():
        if key not in result:
            order.insert(order.index(previous) + 1 if previous in order else 0, key)
            result[key] = item
        previous = key
    return [result[key] for key in order]


def _remove(value: Json, how: MergeType, paths: frozenset[Path], owned: frozenset[Path], at: Path) -> Json:
    """`value` without `paths`; an object that this empties goes too, unless somebody owns it."""
    below = fieldpaths.children(value, how)
    if below is None:
        return value
    heads = {path[len(at)] for path in paths}
    kept: list[tuple[str, Json]] = []
    for element, found, inner in below:
        path = (*at, element)
        if path in paths:
            continue
        if element in heads:
            inside = frozenset(one for one in paths if one[: len(path)] == path)
            left = _remove(found, inner, inside, owned, path)
            if left in ({}, []) and found not in ({}, []) and path not in owned:
                continue
            found = left
        kept.append((element, found))
    if isinstance(value, dict):
        return {element[2:]: found for element, found in kept}
    return [found for _, found in kept]

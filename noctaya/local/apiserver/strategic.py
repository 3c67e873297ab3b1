"""Strategic merge patch for built-in kinds: lists merge by key, with the `$patch`, `$retainKeys` and deletion directives."""

from __future__ import annotations

from noctaya.local.apiserver import status
from noctaya.local.apiserver.mergetypes import MergeType
from noctaya.local.apiserver.status import Json, Object

_ORDER = "$setElementOrder/"
_DELETE_FROM = "$deleteFromPrimitiveList/"
_RETAIN = "$retainKeys"


def strategic_patch(target: Json, patch: Object, how: MergeType) -> Object:
    """`target` with `patch` merged in, as `how` says for each list; raises 400 for a patch that makes no sense."""
    directive = patch.get("$patch")
    rest = {key: value for key, value in patch.items() if key != "$patch"}
    if directive == "replace":
        return rest
    if directive == "delete":
        return {}
    if directive not in (None, "merge"):
        raise status.bad_request(f"unrecognized type: unknown $patch directive {directive!r}")
    merged: Object = dict(target) if isinstance(target, dict) else {}
    retained = rest.pop(_RETAIN, None)
    if retained is not None:
        merged = {key: value for key, value in merged.items() if key in retained}
    for key in [key for key in rest if key.startswith(_DELETE_FROM)]:
        name, gone = key.removeprefix(_DELETE_FROM), rest.pop(key)
        merged[name] = [value for value in merged.get(name) or [] if value not in gone]
    orders = {
        key.removeprefix(_ORDER): rest.pop(key) for key in [key for key in rest if key.startswith(_ORDER)]
    }
    for key, value in rest.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = _value(merged.get(key), value, how.below(key))
    for key, order in orders.items():
        if isinstance(merged.get(key), list):
            merged[key] = _ordered(merged[key], order, how.below(key))
    return merged


def _value(target: Json, patch: Json, how: MergeType) -> Json:
    if isinstance(patch, dict):
        return strategic_patch(target, patch, how)
    if isinstance(patch, list):
        return _list(target if isinstance(target, list) else [], patch, how)
    return patch


def _list(target: list[Json], patch: list[Json], how: MergeType) -> list[Json]:
    if any(isinstance(item, dict) and item.get("$patch") == "replace" for item in patch):
        return [item for item in patch if not (isinstance(item, dict) and item.get("$patch") == "replace")]
    if how.list_type == "set":
        return [*target, *(item for item in patch if item not in target)]
    if not how.patch_key:
        return patch
    merged = list(target)
    named: list[Json] = []
    for item in patch:
        if not isinstance(item, dict) or how.patch_key not in item:
            raise status.bad_request(f"map: {item} does not contain declared merge key: {how.patch_key}")
        key = item[how.patch_key]
        position = _position(merged, how.patch_key, key)
        if item.get("$patch") == "delete":
            if position is not None:
                del merged[position]
            continue
        named.append(key)
        if position is None:
            merged.append(strategic_patch({}, item, how.item))
        else:
            merged[position] = strategic_patch(merged[position], item, how.item)
    return _interleaved(merged, target, named, how.patch_key)


def _interleaved(items: list[Json], target: list[Json], named: list[Json], key: str) -> list[Json]:
    """Items in the real server's order: the patch's in its own, each other one where it stood before one of those."""
    before = {item.get(key): index for index, item in enumerate(target) if isinstance(item, dict)}
    by_key = {item.get(key): item for item in items}
    patched = list(dict.fromkeys(name for name in named if name in by_key))
    others = [name for name in by_key if name not in patched]
    order: list[Json] = []
    while patched or others:
        takes_other = bool(others) and (not patched or before[others[0]] < before.get(patched[0], -1))
        order.append((others if takes_other else patched).pop(0))
    return [by_key[name] for name in order]


def _position(items: list[Json], key: str, value: Json) -> int | None:
    for index, item in enumerate(items):
        if isinstance(item, dict) and item.get(key) == value:
            return index
    return None


def _ordered(items: list[Json], order: list[Json], how: MergeType) -> list[Json]:
    """Items in the patch's order; those that it does not name stay behind the item before them."""
    key = how.patch_key
    wanted = [one.get(key) if isinstance(one, dict) and key else one for one in order]

    def identity(item: Json) -> Json:
        return item.get(key) if isinstance(item, dict) and key else item

    named = sorted(
        (item for item in items if identity(item) in wanted), key=lambda item: wanted.index(identity(item))
    )
    result = list(named)
    previous: Json = None
    for item in items:
        if identity(item) not in wanted:
            result.insert(result.index(previous) + 1 if previous in result else 0, item)
        previous = item
    return result

"""JSON merge patch (RFC 7386) and JSON patch (RFC 6902). Pure; the patched object is never changed in place."""

from __future__ import annotations

from noctaya.local.apiserver import status
from noctaya.local.apiserver.status import Json


def merge_patch(target: Json, patch: Json) -> Json:
    """`target` with `patch` merged in: null removes, objects merge, everything else replaces."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        else:
            merged[key] = merge_patch(merged.get(key), value)
    return merged


def json_patch(target: Json, operations: Json) -> Json:
    """`target` after all operations, or 422 and nothing when one of them fails."""
    if not isinstance(operations, list):
        raise status.bad_request("error decoding patch: a JSON patch is a list of operations")
    for operation in operations:
        target = _step(target, operation)
    return target


def _step(target: Json, operation: Json) -> Json:
    if not isinstance(operation, dict) or "op" not in operation or "path" not in operation:
        raise status.not_applicable()
    path = _pointer(operation["path"])
    match operation["op"]:
        case "test":
            if _read(target, path) != operation.get("value"):
                raise status.not_applicable()
            return target
        case "remove":
            return _without(target, path)
        case "add":
            return _with(target, path, operation.get("value"), insert=True)
        case "replace":
            # As the real one does: a member that is not there is added, an item is not.
            return _with(target, path, operation.get("value"), insert=False)
        case "move":
            source = _pointer(operation.get("from", ""))
            moved = _read(target, source)
            return _with(_without(target, source), path, moved, insert=True)
        case "copy":
            return _with(target, path, _read(target, _pointer(operation.get("from", ""))), insert=True)
    raise status.not_applicable()


def _pointer(text: Json) -> list[str]:
    if not isinstance(text, str) or (text and not text.startswith("/")):
        raise status.not_applicable()
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _index(found: list[Json], part: str, *, end: bool) -> int:
    if part == "-" and end:
        return len(found)
    if not part.isdigit() or int(part) >= len(found) + end:
        raise status.not_applicable()
    return int(part)


def _read(found: Json, path: list[str]) -> Json:
    for part in path:
        if isinstance(found, dict) and part in found:
            found = found[part]
        elif isinstance(found, list):
            found = found[_index(found, part, end=False)]
        else:
            raise status.not_applicable()
    return found


def _with(found: Json, path: list[str], value: Json, *, insert: bool) -> Json:
    if not path:
        return value
    part, rest = path[0], path[1:]
    if isinstance(found, dict) and (not rest or part in found):
        return {**found, part: _with(found.get(part), rest, value, insert=insert)}
    if isinstance(found, list):
        index = _index(found, part, end=insert and not rest)
        if rest or not insert:
            return [*found[:index], _with(found[index], rest, value, insert=insert), *found[index + 1 :]]
        return [*found[:index], value, *found[index:]]
    raise status.not_applicable()


def _without(found: Json, path: list[str]) -> Json:
    if path and isinstance(found, dict) and path[0] in found:
        part, rest = path[0], path[1:]
        if rest:
            return {**found, part: _without(found[part], rest)}
        return {key: value for key, value in found.items() if key != part}
    if path and isinstance(found, list):
        index = _index(found, path[0], end=False)
        middle = [_without(found[index], path[1:])] if path[1:] else []
        return [*found[:index], *middle, *found[index + 1 :]]
    raise status.not_applicable()

"""The scale subresource: an `autoscaling/v1` Scale as a view of a Deployment, ReplicaSet or custom resource."""

from __future__ import annotations

from noctaya.local.apiserver import status
from noctaya.local.apiserver.kinds import Kind, ScalePaths
from noctaya.local.apiserver.status import Cause, Json, Object
from noctaya.local.apiserver.tablecells import at, joined


def view(kind: Kind, found: Object) -> Object:
    """The Scale of an object."""
    paths = kind.scale or ScalePaths()
    metadata = found["metadata"]
    shown = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    seen: Object = {"replicas": at(found, *paths.status, default=0)}
    wanted = at(found, *paths.spec, default=0)
    selector = _selector(at(found, *paths.selector, default=None)) if paths.selector else ""
    if selector:
        seen["selector"] = selector
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in shown if key in metadata},
        "spec": {"replicas": wanted} if wanted else {},
        "status": seen,
    }


def _selector(found: Json) -> str:
    if not isinstance(found, dict):
        return str(found or "")
    parts = [f"{key}={value}" for key, value in sorted((found.get("matchLabels") or {}).items())]
    for rule in found.get("matchExpressions") or []:
        key, operator = rule["key"], rule["operator"]
        shown = {"Exists": key, "DoesNotExist": f"!{key}"}.get(operator)
        parts.append(
            shown or f"{key} {'in' if operator == 'In' else 'notin'} ({joined(rule.get('values') or [])})"
        )
    return ",".join(parts)


def scaled(kind: Kind, found: Object, wanted: Object) -> Object:
    """The object with the Scale's replicas; metadata of the Scale are preconditions. Raises 422 for a bad number."""
    paths = kind.scale or ScalePaths()
    replicas = (wanted.get("spec") or {}).get("replicas", 0)
    name = found["metadata"]["name"]
    if not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 0:
        cause = Cause("spec.replicas", f"Invalid value: {replicas}: must be greater than or equal to 0")
        raise status.invalid("Scale", "autoscaling", name, [cause])
    given = wanted.get("metadata") or {}
    conditions = {key: given[key] for key in ("uid", "resourceVersion", "name") if given.get(key)}
    metadata = {**found["metadata"], "resourceVersion": "", **conditions}
    return {**_set(found, paths.spec, replicas), "metadata": metadata}


def applied(kind: Kind, body: Object, name: str) -> Object:
    """The object that an applied Scale stands for: only the replicas, and what it demands of the object's metadata."""
    paths = kind.scale or ScalePaths()
    given = body.get("metadata") or {}
    conditions = {key: given[key] for key in ("uid", "resourceVersion") if given.get(key)}
    start: Object = {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {"name": name, **conditions},
    }
    if "replicas" not in (body.get("spec") or {}):
        return start
    return _set(start, paths.spec, body["spec"]["replicas"])


def _set(found: Object, path: tuple[str, ...], value: Json) -> Object:
    first, rest = path[0], path[1:]
    below = found.get(first)
    return {**found, first: _set(below if isinstance(below, dict) else {}, rest, value) if rest else value}

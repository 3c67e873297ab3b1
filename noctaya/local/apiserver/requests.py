"""What a request means: the path's resource, the query's options, the body's content. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
import yaml

from noctaya.local.apiserver import status
from noctaya.local.apiserver.deletes import DeleteOptions
from noctaya.local.apiserver.kinds import Kind
from noctaya.local.apiserver.query import flag, whole
from noctaya.local.apiserver.registry import Registry
from noctaya.local.apiserver.status import Json, Object
from noctaya.local.apiserver.writes import WriteOptions

JSON = "application/json"
YAML = "application/yaml"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

_CONNECTING = frozenset({"attach", "exec", "portforward", "proxy"})
"""Subresources of a pod that open a connection into it."""


@dataclass(frozen=True, slots=True)
class Target:
    """The kind, and where in it, that a path names. `name` is empty for collections."""

    kind: Kind
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def target(registry: Registry, path: str) -> Target:
    """The target of `/api/v1/…` or `/apis/<group>/<version>/…`; raises 404 for what is not served."""
    parts = [part for part in path.split("/") if part]
    group, version, rest = ("", parts[1], parts[2:]) if parts[0] == "api" else (parts[1], parts[2], parts[3:])
    namespace = ""
    if (
        len(rest) >= 3
        and rest[0] == "namespaces"
        and not (len(rest) == 3 and rest[2] in ("status", "finalize"))
    ):
        namespace, rest = rest[1], rest[2:]
    if not registry.serves(group, version):
        raise status.NoSuchGroup
    if not rest or len(rest) > 3:
        raise status.no_such_path()
    kind = registry.find(group, version, rest[0])
    if kind is None or (namespace and not kind.namespaced):
        raise status.no_such_path()
    if len(rest) > 1 and kind.namespaced and not namespace:
        raise status.no_such_path()
    name, subresource = (*rest[1:], "", "")[:2]
    if kind.storage == "/pods" and subresource in _CONNECTING:
        raise status.no_connections(subresource)
    if subresource and not _has(kind, subresource):
        raise status.no_such_path()
    return Target(kind, namespace, name, subresource)


def _has(kind: Kind, subresource: str) -> bool:
    if subresource == "status":
        return kind.has_status
    if subresource == "scale":
        return kind.scale is not None
    return subresource in kind.subresources


def write_options(query: Mapping[str, str], user_agent: str, verb: str) -> WriteOptions:
    """Options of a write (`verb`: Create, Update, Patch); the field manager defaults to the program's name in User-Agent."""
    manager = query.get("fieldManager", "")
    if len(manager) > 128:
        raise _refused_option(
            verb, "fieldManager", "Too long: may not be more than 128 bytes", "FieldValueTooLong"
        )
    if not manager.isprintable():
        text = f"Invalid value: {status.shown(manager)}: should only contain printable characters"
        raise _refused_option(verb, "fieldManager", text, "FieldValueInvalid")
    validation = query.get("fieldValidation", "") or "Warn"
    if validation not in ("Strict", "Warn", "Ignore"):
        text = f'Unsupported value: "{validation}": supported values: "", "Ignore", "Strict", "Warn"'
        raise _refused_option(verb, "fieldValidation", text, "FieldValueNotSupported")
    return WriteOptions(
        manager=manager or user_agent.split("/", 1)[0] or "unknown",
        dry_run=_dry_run(query.get("dryRun", ""), verb),
        validation=validation,
        force=flag(query, "force"),
    )


def _dry_run(text: str, verb: str) -> bool:
    if text not in ("", "All"):
        why = f'Unsupported value: ["{text}"]: supported values: "All"'
        raise _refused_option(verb, "dryRun", why, "FieldValueNotSupported")
    return text == "All"


def _refused_option(verb: str, field: str, text: str, reason: str) -> status.ApiError:
    return status.invalid(f"{verb}Options", "meta.k8s.io", "", [status.Cause(field, text, reason)])


def delete_options(query: Mapping[str, str], body: Object) -> DeleteOptions:
    """DeleteOptions of the body, else of the query."""
    conditions = body.get("preconditions") or {}
    grace = body.get("gracePeriodSeconds")
    if grace is None:
        grace = whole(query, "gracePeriodSeconds")
    policy = body.get("propagationPolicy") or query.get("propagationPolicy") or None
    orphan = body.get("orphanDependents")
    if policy is not None and orphan is not None:
        text = f'Invalid value: "{policy}": orphanDependents and deletionPropagation cannot be both set'
        raise _refused_option("Delete", "propagationPolicy", text, "FieldValueInvalid")
    if orphan is not None:
        policy = "Orphan" if orphan else "Background"
    if policy not in (None, "Foreground", "Background", "Orphan"):
        text = f'Unsupported value: "{policy}": supported values: "Foreground", "Background", "Orphan", "nil"'
        raise _refused_option("Delete", "propagationPolicy", text, "FieldValueNotSupported")
    dry_run = body.get("dryRun") or []
    return DeleteOptions(
        grace_seconds=grace,
        propagation=policy,
        uid=conditions.get("uid"),
        resource_version=conditions.get("resourceVersion"),
        dry_run=bool(dry_run) or _dry_run(query.get("dryRun", ""), "Delete"),
    )


def media_type(content_type: str) -> str:
    """The type without parameters."""
    return content_type.split(";", 1)[0].strip().lower()


def decoded(content_type: str, raw: bytes) -> Json:
    """The body as data; YAML where the type says so. Raises 400 for what cannot be read."""
    try:
        return msgspec.json.decode(raw)
    except msgspec.DecodeError as problem:
        if not media_type(content_type).endswith("yaml"):
            raise status.bad_request(f"the body is not valid JSON: {problem}") from problem
    try:
        return yaml.load(raw, Loader=_PlainLoader)
    except (yaml.YAMLError, ValueError) as problem:
        raise status.bad_request(f"the body is not valid YAML: {problem}") from problem


def decoded_object(content_type: str, raw: bytes) -> Object:
    """The body as one object."""
    found = decoded(content_type, raw)
    if not isinstance(found, dict):
        raise status.bad_request("the body must be one object")
    return found


class _PlainLoader(yaml.SafeLoader):
    """YAML as JSON would have it: a timestamp stays a string."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, Any]]] = {  # noqa: RUF012 - as the base class declares it
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

"""Just enough OpenAPI for kubectl.

kubectl asks whether the server validates fields itself (`fieldValidation` on patch, v3 documents, JSON) and then leaves
validation to the server. The v2 document is a protobuf message with no definitions, written out by hand: kubectl then
uses its own knowledge of the built-in kinds for strategic merge patches.
"""

from __future__ import annotations

from typing import Any

from noctaya.local.apiserver.registry import Registry
from noctaya.local.apiserver.status import Object

V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


def _field(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2, len(content)]) + content


def v2_protobuf() -> bytes:
    """openapi.v2.Document{swagger: "2.0", info: {title, version}, paths: {}}."""
    info = _field(1, b"Noctaya") + _field(2, b"v1.35.4")
    return _field(1, b"2.0") + _field(2, info) + _field(8, b"")


def v2_json() -> Object:
    """The same as JSON."""
    return {
        "swagger": "2.0",
        "info": {"title": "Noctaya", "version": "v1.35.4"},
        "paths": {},
        "definitions": {},
    }


def _prefix(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def v3_index(registry: Registry) -> Object:
    """`/openapi/v3`."""
    paths = {}
    for group, versions in registry.groups().items():
        for version in versions:
            path = _prefix(group, version)
            paths[path] = {"serverRelativeURL": f"/openapi/v3/{path}?hash={registry.generation}"}
    return {"paths": paths}


def v3_document(registry: Registry, group: str, version: str) -> Object | None:
    """`/openapi/v3/apis/<group>/<version>`: the patch operations and, for custom resources, their schemas."""
    kinds = registry.in_version(group, version)
    if not kinds:
        return None
    paths: Object = {}
    schemas: Object = {}
    for kind in kinds:
        gvk = {"group": kind.group, "version": kind.version, "kind": kind.kind}
        scope = "/namespaces/{namespace}" if kind.namespaced else ""
        parameters: list[Any] = [
            {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
            for name in ("dryRun", "fieldManager", "fieldValidation")
        ]
        paths[f"/{_prefix(group, version)}{scope}/{kind.plural}/{{name}}"] = {
            "patch": {
                "operationId": f"patch{kind.kind}",
                "parameters": parameters,
                "requestBody": {
                    "content": {"application/merge-patch+json": {}, "application/apply-patch+yaml": {}}
                },
                "responses": {"200": {"description": "OK"}},
                "x-kubernetes-action": "patch",
                "x-kubernetes-group-version-kind": gvk,
            }
        }
        described = kind.schema.source if kind.schema else {"type": "object"}
        schemas[f"{group or 'core'}.{version}.{kind.kind}"] = {
            **described,
            "x-kubernetes-group-version-kind": [gvk],
        }
    return {
        "openapi": "3.0.0",
        "info": {"title": "Noctaya", "version": "v1.35.4"},
        "paths": paths,
        "components": {"schemas": schemas},
    }

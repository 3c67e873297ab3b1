"""Everything that is not a resource: health, version, discovery, OpenAPI."""

from __future__ import annotations

from aiohttp import web

from noctaya.local.apiserver import discovery, openapi, status
from noctaya.local.apiserver.registry import Registry
from noctaya.local.apiserver.representation import Representation
from noctaya.local.apiserver.status import Object


def answer(registry: Registry, parts: list[str], accept: str) -> web.Response:
    """The document that a path's parts name; raises 404 when there is none."""
    found: Object | None = None
    match parts:
        case ["healthz" | "livez" | "readyz", *_]:
            return web.Response(text="ok")
        case ["version"]:
            found = discovery.VERSION
        case [("api" | "apis") as root] if discovery.wants_aggregated(accept):
            return _json(discovery.aggregated(registry, root == "api"), content_type=discovery.AGGREGATED)
        case ["api"]:
            found = discovery.api_versions()
        case ["apis"]:
            found = discovery.group_list(registry)
        case ["apis", group]:
            found = discovery.group(registry, group)
        case ["api", version]:
            found = discovery.resource_list(registry, "", version)
        case ["apis", group, version]:
            found = discovery.resource_list(registry, group, version)
        case ["openapi", "v2"]:
            if "protobuf" in accept:
                return web.Response(body=openapi.v2_protobuf(), headers={"Content-Type": openapi.V2_PROTOBUF})
            found = openapi.v2_json()
        case ["openapi", "v3"]:
            found = openapi.v3_index(registry)
        case ["openapi", "v3", "api", version]:
            found = openapi.v3_document(registry, "", version)
        case ["openapi", "v3", "apis", group, version]:
            found = openapi.v3_document(registry, group, version)
    if found is None:
        raise status.no_such_path()
    return _json(found)


def _json(body: Object, content_type: str = "application/json") -> web.Response:
    return web.Response(body=Representation().encode(body), headers={"Content-Type": content_type})

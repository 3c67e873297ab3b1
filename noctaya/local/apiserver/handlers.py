"""HTTP around the cluster: each handler reads a request, calls one verb, writes the answer. No policy here."""

from __future__ import annotations

import asyncio
import hmac
import logging
import random
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass

from aiohttp import web

from noctaya.local.apiserver import (
    documents,
    listoptions,
    logs,
    patches,
    protobuf,
    requests,
    scale,
    selectors,
    status,
)
from noctaya.local.apiserver.builtintypes import merge_type
from noctaya.local.apiserver.cluster import Cluster
from noctaya.local.apiserver.deletes import Deleted
from noctaya.local.apiserver.logs import LogSource
from noctaya.local.apiserver.query import flag, whole
from noctaya.local.apiserver.representation import Representation, chosen
from noctaya.local.apiserver.requests import Target
from noctaya.local.apiserver.resources import REVIEWS
from noctaya.local.apiserver.status import ApiError, Json, NoSuchGroup, Object
from noctaya.local.apiserver.strategic import strategic_patch
from noctaya.local.apiserver.watching import WatchView
from noctaya.local.apiserver.watchstream import WRITE_DEADLINE_SECONDS, WatchStream
from noctaya.local.apiserver.writes import WriteOptions, Written

_log = logging.getLogger(__name__)
_BODY_DEADLINE_SECONDS = 30.0
_OPEN_PATHS = frozenset({"/healthz", "/readyz", "/livez", "/version"})
_OPTIONS_OF = {"POST": "Create", "PATCH": "Patch"}
_PATCH_TYPES = (requests.JSON_PATCH, requests.MERGE_PATCH, requests.STRATEGIC_PATCH, requests.APPLY_PATCH)


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """Bounds of the HTTP side."""

    body_bytes: int = 3 * 1024 * 1024
    bookmark_seconds: float = 60.0
    watch_seconds: float = 1800.0
    """Least time limit of a watch that asks for none; the real one is up to twice this."""


class Handlers:
    """One `handle` for every path."""

    def __init__(
        self, cluster: Cluster, token: str, log_source: LogSource | None, limits: HttpLimits
    ) -> None:
        self._cluster = cluster
        self._token = f"Bearer {token}"
        self.log_source = log_source
        self._limits = limits

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer a request; an `ApiError` becomes its Status. A client that goes meanwhile is no error."""
        try:
            self._authenticate(request)
            return await self._route(request)
        except NoSuchGroup as problem:
            return web.Response(text=problem.message, status=problem.code)
        except ApiError as problem:
            return _json(problem.as_status(), problem.code)
        except RecursionError:
            return _json(status.bad_request("the object is nested too deeply").as_status(), 400)
        except ConnectionError:
            # The client went between a change and its line, as every watcher and every `kubectl logs -f` does one day. aiohttp
            # would log it as a failure of ours; with the connection cut it takes any answer as unsent, silently.
            if request.transport is not None:
                request.transport.abort()
            return web.Response()
        except TimeoutError:
            raise
        except Exception as defect:
            _log.exception("internal error answering %s %s", request.method, request.path)
            failure = ApiError(
                500, "InternalError", f"Internal error occurred: {type(defect).__name__}: {defect}"
            )
            return _json(failure.as_status(), 500)

    def _authenticate(self, request: web.Request) -> None:
        if request.path in _OPEN_PATHS:
            return
        given = request.headers.get("Authorization", "")
        if not hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self._token.encode()):
            raise status.unauthorized()

    async def _route(self, request: web.Request) -> web.StreamResponse:
        parts = [part for part in request.path.split("/") if part]
        is_resource = (parts[:1] == ["api"] and len(parts) > 2) or (parts[:1] == ["apis"] and len(parts) > 3)
        if is_resource:
            return await self._resource(request, requests.target(self._cluster.registry, request.path))
        if request.method not in ("GET", "HEAD"):
            raise status.ApiError(
                405, "MethodNotAllowed", "the server does not allow this method on the requested resource"
            )
        return documents.answer(self._cluster.registry, parts, request.headers.get("Accept", ""))

    async def _resource(self, request: web.Request, target: Target) -> web.StreamResponse:
        if target.kind.storage == REVIEWS and (request.method != "POST" or target.name):
            raise status.method_not_allowed()
        match request.method, bool(target.name), target.subresource:
            case "GET" | "HEAD", True, "log":
                return await self._log(request, target)
            case "GET" | "HEAD", True, "" | "status" | "scale":
                return self._get(request, target)
            case "GET" | "HEAD", False, "":
                if flag(request.query, "watch"):
                    return await self._watch(request, target)
                return self._list(request, target)
            case "POST", False, "":
                return await self._create(request, target)
            case "POST", True, "eviction":
                return await self._evict(request, target)
            case "POST", True, "binding":
                return await self._bind(request, target)
            case "PUT", True, "" | "status" | "scale" | "finalize":
                return await self._replace(request, target)
            case "PATCH", True, "" | "status" | "scale":
                return await self._patch(request, target)
            case "DELETE", True, "":
                return await self._delete(request, target)
            case "DELETE", False, "":
                return await self._delete_collection(request, target)
        raise status.method_not_allowed()

    # reading

    def _get(self, request: web.Request, target: Target) -> web.Response:
        shape = _representation(request)
        version = request.query.get("resourceVersion", "")
        if version.isdecimal():
            listoptions.check_reached(int(version), self._cluster.storage.revision)
        found = self._cluster.get(target.kind, target.namespace, target.name)
        if target.subresource == "scale":
            return _answer(shape, scale.view(target.kind, found))
        return _answer(shape, shape.one(target.kind, found, self._cluster.clock()))

    def _list(self, request: web.Request, target: Target) -> web.Response:
        shape = _representation(request)
        page = self._cluster.lists.page(
            target.kind,
            target.namespace or None,
            self._selection(request, target),
            listoptions.for_list(request.query),
        )
        return _answer(shape, shape.many(target.kind, page.objects, page.metadata, self._cluster.clock()))

    def _selection(self, request: web.Request, target: Target) -> selectors.Selection:
        query = request.query
        return selectors.parse(query.get("labelSelector", ""), query.get("fieldSelector", ""), target.kind)

    async def _watch(self, request: web.Request, target: Target) -> web.StreamResponse:
        query = request.query
        view = WatchView(
            target.kind, self._selection(request, target), _representation(request), self._cluster.clock
        )
        storage = self._cluster.storage
        wanted = listoptions.for_watch(query)
        bookmarks = flag(query, "allowWatchBookmarks")
        asked = whole(query, "timeoutSeconds")
        limit = float(asked) if asked else self._limits.watch_seconds * random.uniform(1, 2)
        initial: list[bytes] = []
        revision = storage.revision
        if wanted.initial_events or (not wanted.version and wanted.initial_events is None):
            held = storage.list(target.kind.storage, target.namespace or None)
            initial = [line for found in held if (line := view.initial(found)) is not None]
        elif wanted.version:
            revision = wanted.version
        try:
            watch = storage.watch(target.kind.storage, target.namespace or None, revision)
        except ApiError as problem:
            # The real server says it in the stream, behind a 200.
            return web.Response(body=view.error(problem), content_type="application/json")
        try:
            response = web.StreamResponse(
                headers={"Content-Type": "application/json", "Cache-Control": "no-cache, private"}
            )
            response.enable_chunked_encoding()
            await response.prepare(request)
            stream = WatchStream(response, view, watch, self._limits.bookmark_seconds if bookmarks else None)
            await stream.run(initial, revision, limit, bool(wanted.initial_events) and bookmarks)
        finally:
            watch.close()
        return response

    async def _log(self, request: web.Request, target: Target) -> web.StreamResponse:
        pod = self._cluster.get(target.kind, target.namespace, target.name)
        wanted = logs.log_request(pod, request.query)
        if self.log_source is None:
            raise status.ApiError(503, "ServiceUnavailable", "no node agent serves container logs")
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        async with aclosing(logs.chunks(self.log_source, pod, wanted)) as chunks:
            async for chunk in chunks:
                if not response.prepared:
                    await response.prepare(request)
                async with asyncio.timeout(WRITE_DEADLINE_SECONDS):
                    await response.write(chunk)
        if not response.prepared:
            return web.Response(text="")
        return response

    # writing

    async def _body(self, request: web.Request) -> bytes:
        if (request.content_length or 0) > self._limits.body_bytes:
            raise status.too_large(self._limits.body_bytes)
        try:
            async with asyncio.timeout(_BODY_DEADLINE_SECONDS):
                return await request.read()
        except web.HTTPRequestEntityTooLarge as problem:
            raise status.too_large(self._limits.body_bytes) from problem

    async def _object(self, request: web.Request) -> Object:
        given = requests.media_type(request.headers.get("Content-Type", requests.JSON))
        if given == protobuf.MEDIA_TYPE:
            return protobuf.decoded(await self._body(request))
        if given not in (requests.JSON, requests.YAML):
            raise status.unsupported_media_type(f"{requests.JSON}, {requests.YAML}")
        return requests.decoded_object(given, await self._body(request))

    def _options(self, request: web.Request) -> WriteOptions:
        verb = _OPTIONS_OF.get(request.method, "Update")
        return requests.write_options(request.query, request.headers.get("User-Agent", ""), verb)

    async def _create(self, request: web.Request, target: Target) -> web.Response:
        options = self._options(request)
        body = await self._object(request)
        namespace = target.namespace
        if target.kind.namespaced and not namespace:
            raise status.method_not_allowed()
        if target.kind.storage == REVIEWS:
            return _json({**body, "status": {"allowed": True}}, 201)
        return self._written(
            request, target, self._cluster.writes.create(target.kind, namespace, body, options)
        )

    async def _replace(self, request: web.Request, target: Target) -> web.Response:
        options = self._options(request)
        body = await self._object(request)
        kind, namespace, name = target.kind, target.namespace, target.name
        if target.subresource == "scale":
            written = self._cluster.writes.patch(
                kind, namespace, name, "scale", _scaling(target, lambda _: body), options
            )
        else:
            written = self._cluster.writes.replace(kind, namespace, name, target.subresource, body, options)
        return self._written(request, target, written)

    async def _patch(self, request: web.Request, target: Target) -> web.Response:
        options = self._options(request)
        kind, namespace, name, sub = target.kind, target.namespace, target.name, target.subresource
        given = requests.media_type(request.headers.get("Content-Type", ""))
        if given not in _PATCH_TYPES:
            raise status.not_a_patch()
        if given == requests.STRATEGIC_PATCH and kind.schema is not None:
            allowed = [one for one in _PATCH_TYPES if one != requests.STRATEGIC_PATCH or kind.schema is None]
            raise status.unsupported_media_type(", ".join(allowed))
        raw = await self._body(request)
        if given == requests.APPLY_PATCH:
            if "fieldManager" not in request.query:
                cause = status.Cause(
                    "fieldManager", "Required value: is required for apply patch", "FieldValueRequired"
                )
                raise status.invalid("PatchOptions", "meta.k8s.io", "", [cause])
            body = requests.decoded_object(requests.YAML, raw)
            if sub == "scale":
                body = scale.applied(kind, body, name)
            written = self._cluster.writes.apply(kind, namespace, name, sub, body, options)
        else:
            patch = requests.decoded(given, raw)
            change = _change(given, patch, target)
            if sub == "scale":
                change = _scaling(target, change)
            written = self._cluster.writes.patch(kind, namespace, name, sub, change, options)
        return self._written(request, target, written)

    def _written(self, request: web.Request, target: Target, written: Written) -> web.Response:
        shape = _representation(request)
        code = 201 if written.created else 200
        if target.subresource == "scale":
            return _answer(shape, scale.view(target.kind, written.object), code)
        body = shape.one(target.kind, written.object, self._cluster.clock())
        return _answer(shape, body, code, written.warnings)

    # deleting

    async def _delete(self, request: web.Request, target: Target) -> web.Response:
        options = requests.delete_options(request.query, await self._optional_object(request))
        deleted = self._cluster.delete(target.kind, target.namespace, target.name, options)
        return _answer(_representation(request), self._deleted(target, deleted))

    def _deleted(self, target: Target, deleted: Deleted) -> Object:
        metadata = deleted.object["metadata"]
        if deleted.gone and target.kind.storage != "/pods":
            return status.success(target.kind.plural, target.kind.group, metadata["name"], metadata["uid"])
        return target.kind.shown(deleted.object)

    async def _optional_object(self, request: web.Request) -> Object:
        raw = await self._body(request)
        return requests.decoded_object(request.headers.get("Content-Type", requests.JSON), raw) if raw else {}

    async def _delete_collection(self, request: web.Request, target: Target) -> web.Response:
        options = requests.delete_options(request.query, await self._optional_object(request))
        kind = target.kind
        page = self._cluster.lists.page(kind, target.namespace or None, self._selection(request, target))
        for found in page.objects:
            metadata = found["metadata"]
            self._cluster.delete(kind, metadata.get("namespace", ""), metadata["name"], options)
        return _answer(
            _representation(request), Representation().many(kind, page.objects, page.metadata, 0.0)
        )

    async def _evict(self, request: web.Request, target: Target) -> web.Response:
        body = await self._object(request)
        options = requests.delete_options({}, body.get("deleteOptions") or {})
        self._cluster.delete(target.kind, target.namespace, target.name, options)
        return _json({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}, 201)

    async def _bind(self, request: web.Request, target: Target) -> web.Response:
        body = await self._object(request)
        node = (body.get("target") or {}).get("name")

        def bound(pod: Object) -> Object:
            if (pod.get("spec") or {}).get("nodeName"):
                raise target.kind.conflict(target.name, f"pod {target.name} is already assigned to node")
            return {**pod, "spec": {**pod["spec"], "nodeName": node}}

        self._cluster.writes.patch(
            target.kind, target.namespace, target.name, "binding", bound, self._options(request)
        )
        return _json({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}, 201)


def _change(given: str, patch: Json, target: Target) -> Callable[[Object], Object]:
    if given == requests.JSON_PATCH:
        return lambda found: patches.json_patch(found, patch)
    if not isinstance(patch, dict):
        raise status.bad_request("the patch must be an object")
    if given == requests.STRATEGIC_PATCH:
        return lambda found: strategic_patch(found, patch, merge_type(target.kind))
    return lambda found: patches.merge_patch(found, patch)


def _scaling(target: Target, change: Callable[[Object], Object]) -> Callable[[Object], Object]:
    return lambda found: scale.scaled(target.kind, found, change(scale.view(target.kind, found)))


def _representation(request: web.Request) -> Representation:
    return chosen(request.headers.get("Accept", ""), request.query.get("includeObject", ""))


def _json(body: Object, code: int = 200, content_type: str = "application/json") -> web.Response:
    return web.Response(
        body=Representation().encode(body), status=code, headers={"Content-Type": content_type}
    )


def _answer(
    shape: Representation, body: Object, code: int = 200, warnings: tuple[str, ...] = ()
) -> web.Response:
    response = web.Response(
        body=shape.encode(body), status=code, headers={"Content-Type": shape.content_type}
    )
    for warning in warnings:
        quoted = warning.replace("\\", "\\\\").replace('"', '\\"')
        response.headers.add("Warning", f'299 - "{quoted}"')
    return response

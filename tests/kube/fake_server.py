"""A small API server for the client's own tests: one flat table of objects, real HTTP, and every way to misbehave.

It knows no schemas, patches by shallow merge, and serves any path of the form that the API has. `script` holds answers that
are given instead of the normal one, first come first served; `unserved` holds plurals whose resource "does not exist".
"""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from aiohttp import web

from noctaya.kube.config import ClusterConfig

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
Object = dict[str, Any]


@dataclass
class Seen:
    """One request, as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Stream:
    """One open watch."""

    plural: str
    response: web.StreamResponse
    transport: asyncio.Transport
    sent: int
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    is_silent: bool = False

    def drop(self) -> None:
        """Cut the connection in mid-stream."""
        self.transport.abort()
        self.ended.set()


@dataclass
class FakeServer:
    """Use as an async context manager; `config()` is how to reach it."""

    version: int = 100
    compacted: int = 0
    objects: dict[tuple[str, str, str], Object] = field(default_factory=dict)
    history: list[tuple[int, str, str, Object]] = field(default_factory=list)
    seen: list[Seen] = field(default_factory=list)
    script: deque[tuple[Callable[[web.Request], bool], Answer]] = field(default_factory=deque)
    unserved: set[str] = field(default_factory=set)
    streams: list[Stream] = field(default_factory=list)
    url: str = ""

    # -- what a test does to it ------------------------------------------------------------------------------------

    def config(self, **more: Any) -> ClusterConfig:
        return ClusterConfig(server=self.url, source="fake", **more)

    def put(
        self, plural: str, name: str, namespace: str = "models", *, new: bool = False, **more: Any
    ) -> Object:
        """Create or change an object, and tell the watchers. `new` gives it another uid under the same name."""
        self.version += 1
        key = (plural, namespace, name)
        old = self.objects.get(key)
        if old is not None and new:
            self.remove(plural, name, namespace)
            self.version += 1
            old = None
        uid = old["metadata"]["uid"] if old else str(uuid4())
        metadata = {"name": name, "namespace": namespace, "uid": uid, "resourceVersion": str(self.version)}
        self.objects[key] = {"metadata": metadata, **more}
        self._publish(plural, "MODIFIED" if old else "ADDED", self.objects[key])
        return self.objects[key]

    def remove(self, plural: str, name: str, namespace: str = "models") -> None:
        self.version += 1
        gone = self.objects.pop((plural, namespace, name))
        gone = {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self.version)}}
        self._publish(plural, "DELETED", gone)

    def compact(self) -> None:
        """Forget all history: older watches get 410."""
        self.compacted = self.version
        self.history.clear()

    def next(self, answer: Answer, when: Callable[[web.Request], bool] = lambda _: True) -> None:
        """Answer the next request that `when` holds for like this."""
        self.script.append((when, answer))

    async def send(self, plural: str, event_type: str, content: Any) -> None:
        """Put an event of this very content on every open stream of a kind."""
        await self.send_raw(plural, json.dumps({"type": event_type, "object": content}).encode() + b"\n")

    async def send_raw(self, plural: str, content: bytes) -> None:
        for stream in [stream for stream in self.streams if stream.plural == plural]:
            await stream.response.write(content)

    async def bookmark(self, plural: str) -> None:
        await self.send(plural, "BOOKMARK", {"metadata": {"resourceVersion": str(self.version)}})

    def end_streams(self) -> None:
        """End every watch as a server does at its timeout."""
        for stream in self.streams:
            stream.ended.set()

    def lists(self, plural: str) -> int:
        """How many lists (pages) of a kind were asked for."""
        return len([one for one in self.seen if one.path.endswith(f"/{plural}") and "watch" not in one.query])

    def watches(self, plural: str) -> int:
        return len([one for one in self.seen if one.path.endswith(f"/{plural}") and "watch" in one.query])

    # -- serving ---------------------------------------------------------------------------------------------------

    async def __aenter__(self) -> FakeServer:
        application = web.Application(client_max_size=64 * 1024 * 1024)
        application.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        for stream in list(self.streams):
            stream.drop()
        await self._runner.cleanup()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.seen.append(Seen(request.method, request.path, dict(request.query), dict(request.headers), body))
        for position, (when, answer) in enumerate(self.script):
            if when(request):
                del self.script[position]
                return await answer(request)
        if request.path == "/version":
            return web.json_response({"gitVersion": "v1.35.0"})
        parts = request.path.strip("/").split("/")
        parts = parts[2:] if parts[0] == "api" else parts[3:]
        namespace = ""
        if parts[0] == "namespaces" and len(parts) > 2:
            namespace, parts = parts[1], parts[2:]
        plural = parts[0]
        if plural in self.unserved:
            return web.Response(status=404, text="404 page not found\n")
        if len(parts) > 1:
            return self._one(request, plural, namespace, parts[1], body)
        if request.method == "POST":
            return self._create(plural, namespace, json.loads(body))
        if request.query.get("watch") == "true":
            return await self._watch(request, plural)
        return self._list(request, plural, namespace)

    def _list(self, request: web.Request, plural: str, namespace: str) -> web.Response:
        found = [
            item
            for (kind, home, _), item in self.objects.items()
            if kind == plural and namespace in ("", home)
        ]
        limit, start = int(request.query.get("limit", "0")), int(request.query.get("continue", "0"))
        metadata = {"resourceVersion": str(self.version)}
        if limit and start + limit < len(found):
            metadata["continue"] = str(start + limit)
        page = found[start : start + limit] if limit else found
        return web.json_response({"kind": "List", "metadata": metadata, "items": page})

    def _one(self, request: web.Request, plural: str, namespace: str, name: str, body: bytes) -> web.Response:
        item = self.objects.get((plural, namespace, name))
        if item is None:
            return status(404, "NotFound", f'{plural} "{name}" not found', name=name)
        if request.method == "GET":
            return web.json_response(item)
        content = json.loads(body) if body else {}
        if request.method == "DELETE":
            wanted = content.get("preconditions", {})
            if any(item["metadata"][key] != value for key, value in wanted.items()):
                return status(409, "Conflict", "precondition failed", name=name)
            self.remove(plural, name, namespace)
            return web.json_response({"kind": "Status", "status": "Success"})
        version = content.get("metadata", {}).get("resourceVersion")
        if version is not None and version != item["metadata"]["resourceVersion"]:
            return status(409, "Conflict", "the object has been modified", name=name)
        if request.method == "PATCH":
            content = {**item, **content}
        more = {key: value for key, value in content.items() if key != "metadata"}
        return web.json_response(self.put(plural, name, namespace, **more))

    def _create(self, plural: str, namespace: str, content: Object) -> web.Response:
        name = content["metadata"]["name"]
        if (plural, namespace, name) in self.objects:
            return status(409, "AlreadyExists", f'{plural} "{name}" already exists', name=name)
        more = {key: value for key, value in content.items() if key != "metadata"}
        return web.json_response(self.put(plural, name, namespace, **more), status=201)

    async def _watch(self, request: web.Request, plural: str) -> web.StreamResponse:
        since = int(request.query["resourceVersion"])
        if since < self.compacted:
            return status(410, "Expired", "too old resource version")
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        transport = request.transport
        assert isinstance(transport, asyncio.Transport)
        stream = Stream(plural, response, transport, since)
        self.streams.append(stream)
        try:
            await self._feed(stream)
        finally:
            self.streams.remove(stream)
        return response

    async def _feed(self, stream: Stream) -> None:
        while not stream.ended.is_set():
            for version, plural, event_type, item in list(self.history):
                if version > stream.sent and plural == stream.plural and not stream.is_silent:
                    stream.sent = version
                    line = json.dumps({"type": event_type, "object": item})
                    await stream.response.write(line.encode() + b"\n")
            try:
                async with asyncio.timeout(0.005):
                    await stream.ended.wait()
            except TimeoutError:
                continue

    def _publish(self, plural: str, event_type: str, item: Object) -> None:
        self.history.append((self.version, plural, event_type, item))


def status(code: int, reason: str, message: str, **details: Any) -> web.Response:
    """An error as the API server words it."""
    content = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return web.json_response({**content, "details": details}, status=code)


async def html_502(_: web.Request) -> web.Response:
    """What a load balancer says when nobody is behind it."""
    return web.Response(
        status=502, content_type="text/html", text="<html><h1>502 Bad Gateway</h1></html>" * 100
    )


async def hang(_: web.Request) -> web.Response:
    """Accept and never answer."""
    await asyncio.Event().wait()
    raise AssertionError


async def drop(request: web.Request) -> web.Response:
    """Cut the connection without an answer."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def too_many(retry_after_seconds: float) -> Answer:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(
            status=429,
            headers={"Retry-After": str(retry_after_seconds)},
            text="Too many requests, please try again later.\n",
        )

    return answer


def gone() -> Answer:
    async def answer(_: web.Request) -> web.Response:
        return status(410, "Expired", "too old resource version: 7 (100)")

    return answer


def is_watch(request: web.Request) -> bool:
    return request.query.get("watch") == "true"


def is_list(request: web.Request) -> bool:
    return request.method == "GET" and "watch" not in request.query


GONE_STATUS = {
    "kind": "Status",
    "status": "Failure",
    "code": 410,
    "reason": "Expired",
    "message": "too old resource version",
}

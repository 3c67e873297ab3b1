"""A client for conformance tests: it hides nothing of an answer, and every wait has an end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp

from noctaya.kube.resources import Resource
from tests.conformance.server import Server

ANSWER_SECONDS = 60.0
TICK_SECONDS = 0.02
APPLY = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Answer:
    """`warnings` are the texts of the Warning headers."""

    code: int
    body: Any
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Refusal:
    """A `Status` that says no."""

    code: int
    reason: str
    message: str
    details: Object

    @property
    def causes(self) -> list[tuple[str, str, str]]:
        """(reason, field, message) of each cause."""
        return [
            (one.get("reason", ""), one.get("field", ""), one.get("message", ""))
            for one in self.details.get("causes") or []
        ]


class Api:
    """One server, one namespace of the test's own."""

    def __init__(self, server: Server, session: aiohttp.ClientSession, namespace: str) -> None:
        self.server = server
        self.namespace = namespace
        self._session = session

    def path(self, resource: Resource, name: str | None = None, subresource: str | None = None) -> str:
        """In the test's namespace."""
        return resource.path(self.namespace if resource.namespaced else None, name, subresource)

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        query: Mapping[str, str] | None = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        user_agent: str = "conformance",
    ) -> Answer:
        """`body` is sent as it is when it is bytes, else as JSON."""
        content = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        headers = {"Accept": accept, "User-Agent": user_agent, **self.server.authorization}
        if content is not None:
            headers["Content-Type"] = content_type
        url = self.server.config.server + path
        async with (
            asyncio.timeout(ANSWER_SECONDS),
            self._session.request(
                method, url, data=content, headers=headers, params=query, ssl=self.server.tls
            ) as response,
        ):
            text = await response.text()
            is_json = "json" in response.headers.get("Content-Type", "")
            warnings = tuple(_warning(one) for one in response.headers.getall("Warning", []))
            return Answer(response.status, json.loads(text) if is_json else text, warnings)

    async def ok(self, method: str, path: str, body: Any = None, **options: Any) -> Any:
        """The body of an answer that must be a success."""
        answer = await self.call(method, path, body, **options)
        assert 200 <= answer.code < 300, f"{method} {path}: {answer}"
        return answer.body

    async def refused(self, method: str, path: str, body: Any = None, **options: Any) -> Refusal:
        """The Status of an answer that must be a refusal, its shape checked."""
        answer = await self.call(method, path, body, **options)
        assert answer.code >= 300, f"{method} {path}: {answer}"
        status = answer.body
        assert isinstance(status, dict), answer
        assert (status["kind"], status["apiVersion"]) == ("Status", "v1"), answer
        assert (status["status"], status["code"]) == ("Failure", answer.code), answer
        return Refusal(
            answer.code, status.get("reason", ""), status.get("message", ""), status.get("details") or {}
        )

    async def create(self, resource: Resource, body: Object, **options: Any) -> Any:
        return await self.ok("POST", self.path(resource), body, **options)

    async def get(self, resource: Resource, name: str, **options: Any) -> Any:
        return await self.ok("GET", self.path(resource, name), **options)

    async def list(self, resource: Resource, **query: str) -> Any:
        return await self.ok("GET", self.path(resource), query=query)

    async def patch(
        self, resource: Resource, name: str, body: Any, content_type: str = MERGE, **options: Any
    ) -> Any:
        path = self.path(resource, name, options.pop("subresource", None))
        return await self.ok("PATCH", path, body, content_type=content_type, **options)

    async def apply(
        self,
        resource: Resource,
        body: Object,
        manager: str,
        *,
        subresource: str | None = None,
        **query: str,
    ) -> Any:
        path = self.path(resource, body["metadata"]["name"], subresource)
        return await self.ok(
            "PATCH", path, body, content_type=APPLY, query={"fieldManager": manager, **query}
        )

    async def apply_refused(
        self,
        resource: Resource,
        body: Object,
        manager: str,
        *,
        subresource: str | None = None,
        **query: str,
    ) -> Refusal:
        path = self.path(resource, body["metadata"]["name"], subresource)
        return await self.refused(
            "PATCH", path, body, content_type=APPLY, query={"fieldManager": manager, **query}
        )

    async def delete(self, resource: Resource, name: str, body: Any = None, **options: Any) -> Any:
        return await self.ok("DELETE", self.path(resource, name), body, **options)

    async def exists(self, resource: Resource, name: str) -> bool:
        answer = await self.call("GET", self.path(resource, name))
        assert answer.code in (200, 404), answer
        return answer.code == 200

    async def until(self, claim: Callable[[], Awaitable[bool]], seconds: float = ANSWER_SECONDS) -> None:
        """Return as soon as `claim` holds; fail when it never does."""
        async with asyncio.timeout(seconds):
            while not await claim():  # noqa: ASYNC110 - the server tells nobody
                await asyncio.sleep(TICK_SECONDS)

    @asynccontextmanager
    async def watch(self, resource: Resource, **query: str) -> AsyncIterator[Events]:
        """An open watch of the test's namespace."""
        url = self.server.config.server + self.path(resource)
        headers = {"Accept": "application/json", **self.server.authorization}
        async with (
            self._session.get(
                url, headers=headers, params={"watch": "true", **query}, ssl=self.server.tls
            ) as response,
        ):
            try:
                yield Events(response)
            finally:
                # A TLS goodbye takes longer than the test's loop lives.
                if response.connection is not None and response.connection.transport is not None:
                    response.connection.transport.abort()


class Events:
    """The lines of one watch."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.code = response.status
        self._response = response

    async def next(self) -> Object:
        """The next event; fails when the watch ends instead."""
        async with asyncio.timeout(ANSWER_SECONDS):
            line = await self._response.content.readline()
        assert line, "the watch has ended"
        event: Object = json.loads(line)
        return event

    async def take(self, count: int) -> list[Object]:
        """The next events that are no bookmarks."""
        taken: list[Object] = []
        while len(taken) < count:
            event = await self.next()
            if event["type"] != "BOOKMARK":
                taken.append(event)
        return taken

    async def rest(self) -> list[Object]:
        """Everything until the server ends the watch."""
        async with asyncio.timeout(ANSWER_SECONDS):
            return [json.loads(line) async for line in self._response.content]


def names(events: list[Object]) -> list[tuple[str, str]]:
    """(type, name) of each event."""
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in events]


def _warning(header: str) -> str:
    """The text of `299 - "text"`."""
    return header.split('"', 1)[1].rsplit('"', 1)[0].replace('\\"', '"').replace("\\\\", "\\")

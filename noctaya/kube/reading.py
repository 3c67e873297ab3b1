"""The verbs that change nothing: get, list, watch, and the doors for everything that has no type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypedDict, TypeVar, Unpack, overload

import msgspec

from noctaya.kube.errors import Call, Undecodable
from noctaya.kube.resources import Resource
from noctaya.kube.transport import Transport
from noctaya.kube.watching import MAX_EVENT_BYTES, WatchStream

T = TypeVar("T")

PAGE_SIZE = 500
_LIST_SECONDS = 30.0


class GetOptions(TypedDict, total=False):
    subresource: str | None
    timeout_seconds: float | None


class ListOptions(TypedDict, total=False):
    label_selector: str | None
    field_selector: str | None
    page_size: int
    """500 unless told; 0 asks for everything in one answer."""
    timeout_seconds: float | None
    """For each page."""


@dataclass(frozen=True, slots=True)
class ListResult(Generic[T]):
    """A consistent list and the version to watch from."""

    items: list[T]
    resource_version: str


class _ListMetadata(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class _Page(msgspec.Struct, Generic[T]):
    items: list[T] | None = None
    metadata: _ListMetadata = msgspec.field(default_factory=_ListMetadata)


class Reader:
    """Reads through a transport, decoding into dicts or into the type that is asked for."""

    def __init__(self, transport: Transport, *, timeout_seconds: float) -> None:
        self._transport = transport
        self._timeout_seconds = timeout_seconds
        self._decoders: dict[Any, msgspec.json.Decoder[Any]] = {}

    @overload
    async def get(
        self, resource: Resource, namespace: str | None, name: str, **options: Unpack[GetOptions]
    ) -> dict[str, Any]: ...
    @overload
    async def get(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        into: type[T],
        **options: Unpack[GetOptions],
    ) -> T: ...
    async def get(
        self,
        resource: Resource,
        namespace: str | None,
        name: str,
        into: Any = dict,
        **options: Unpack[GetOptions],
    ) -> Any:
        """One object. Raises NotFound, or KindNotServed when the kind itself is unknown."""
        subresource = options.get("subresource")
        call = Call("get", resource.describe(namespace, name, subresource))
        body = await self._transport.request(
            call,
            "GET",
            resource.path(namespace, name, subresource),
            timeout_seconds=self._limit(options.get("timeout_seconds")),
        )
        return self._decode(call, body, into)

    @overload
    async def list(
        self, resource: Resource, namespace: str | None = None, **options: Unpack[ListOptions]
    ) -> ListResult[dict[str, Any]]: ...
    @overload
    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        into: type[T],
        **options: Unpack[ListOptions],
    ) -> ListResult[T]: ...
    async def list(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        into: Any = dict,
        **options: Unpack[ListOptions],
    ) -> Any:
        """All objects (of one namespace or of all), read in pages of one consistent state.

        Raises Gone when the pages took so long that their state was compacted: list again, with `page_size=0` to have
        it in one piece.
        """
        call = Call("list", resource.describe(namespace))
        query = _selectors(options.get("label_selector"), options.get("field_selector"))
        page_size = options.get("page_size", PAGE_SIZE)
        if page_size:
            query["limit"] = str(page_size)
        timeout_seconds = options.get("timeout_seconds") or max(self._timeout_seconds, _LIST_SECONDS)
        items: list[Any] = []
        while True:
            body = await self._transport.request(
                call, "GET", resource.path(namespace), query=query, timeout_seconds=timeout_seconds
            )
            page = self._decode(call, body, _Page[into])
            items.extend(page.items or ())
            if not page.metadata.continue_:
                return ListResult(items, page.metadata.resource_version)
            query["continue"] = page.metadata.continue_

    def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        resource_version: str,
        label_selector: str | None = None,
        field_selector: str | None = None,
        timeout_seconds: int = 300,
        silence_seconds: float = 90.0,
        max_event_bytes: int = MAX_EVENT_BYTES,
    ) -> WatchStream:
        """Raw events after `resource_version`, bookmarks included, until the server ends it after `timeout_seconds`.

        `silence_seconds` must be longer than the server's time between bookmarks (about a minute). This is one
        connection: whoever wants to stay informed runs a `Store`.
        """
        call = Call("watch", resource.describe(namespace))
        path = resource.path(namespace)
        query = _selectors(label_selector, field_selector) | {
            "watch": "true",
            "resourceVersion": resource_version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(timeout_seconds),
        }
        return WatchStream(
            call,
            lambda: self._transport.open_stream(
                call, path, query, connect_seconds=self._timeout_seconds, silence_seconds=silence_seconds
            ),
            max_event_bytes=max_event_bytes,
        )

    @property
    def refusals(self) -> int:
        """How many calls were answered Forbidden so far: a reason to look at one's rights."""
        return self._transport.refusals

    async def version(self) -> dict[str, Any]:
        """The server's `/version`."""
        call = Call("get", "/version")
        body = await self._transport.request(call, "GET", "/version", timeout_seconds=self._timeout_seconds)
        answer: dict[str, Any] = self._decode(call, body, dict[str, Any])
        return answer

    async def raw(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str | None = None,
        accept: str = "application/json",
        timeout_seconds: float | None = None,
    ) -> bytes:
        """Any method on any path of the API server; the body of a 2xx answer."""
        return await self._transport.request(
            Call(method.lower(), path),
            method,
            path,
            query=query,
            body=body,
            content_type=content_type,
            accept=accept,
            timeout_seconds=self._limit(timeout_seconds),
        )

    def _limit(self, timeout_seconds: float | None) -> float:
        return self._timeout_seconds if timeout_seconds is None else timeout_seconds

    def _decode(self, call: Call, body: bytes, into: Any) -> Any:
        decoder = self._decoders.get(into)
        if decoder is None:
            decoder = self._decoders[into] = msgspec.json.Decoder(into)
        try:
            return decoder.decode(body)
        except msgspec.MsgspecError as cause:
            raise Undecodable(call, f"the answer is not what was expected: {cause}", status=200) from cause


def _selectors(label_selector: str | None, field_selector: str | None) -> dict[str, str]:
    given = {"labelSelector": label_selector, "fieldSelector": field_selector}
    return {key: value for key, value in given.items() if value}

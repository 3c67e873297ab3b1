"""A very small HTTP/1.1 server for the scripted engine: starts in milliseconds and tells a handler when its client leaves.

Keep-alive, no pipelining (a second request waits), bodies bounded. A handler is a coroutine that is cancelled when the
connection ends; it answers through `Exchange`.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any, cast

import httptools

BODY_LIMIT_BYTES = 8 * 1024 * 1024
REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    413: "Payload Too Large",
    503: "Service Unavailable",
}


class Exchange:
    """One request and its answer."""

    def __init__(
        self,
        transport: asyncio.Transport,
        writable: asyncio.Event,
        method: str,
        target: str,
        headers: dict[str, str],
        body: bytes,
    ) -> None:
        path, _, query = target.partition("?")
        self.method = method
        self.path = path
        self.query = dict(pair.partition("=")[::2] for pair in query.split("&") if pair)
        self.headers = headers
        self.body = body
        self._transport = transport
        self._writable = writable
        self.is_streaming = False

    def send_json(self, value: Any, status: int = 200, headers: dict[str, str] | None = None) -> None:
        """Answer with a JSON body."""
        self.send(json.dumps(value).encode(), "application/json", status, headers)

    def send(
        self, body: bytes, content_type: str, status: int = 200, headers: dict[str, str] | None = None
    ) -> None:
        """Answer with a whole body."""
        fields = {"content-type": content_type, "content-length": str(len(body)), **(headers or {})}
        self._transport.write(head(status, fields) + body)

    def start_events(self) -> None:
        """Answer with a stream of server-sent events."""
        self.is_streaming = True
        self._transport.write(
            head(
                200,
                {
                    "content-type": "text/event-stream",
                    "cache-control": "no-cache",
                    "transfer-encoding": "chunked",
                },
            )
        )

    async def send_event(self, data: str) -> None:
        """One event; waits while the client does not read."""
        body = f"data: {data}\n\n".encode()
        self._transport.write(f"{len(body):x}\r\n".encode() + body + b"\r\n")
        await self._writable.wait()

    def end_events(self) -> None:
        """The stream ends well."""
        self._transport.write(b"0\r\n\r\n")

    def cut(self) -> None:
        """Break the connection without an end."""
        self._transport.abort()


Handler = Callable[[Exchange], Awaitable[None]]


class Connection(asyncio.Protocol):
    """One client's connection."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self._transport: asyncio.Transport | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._parser: Any = None
        self._task: asyncio.Task[None] | None = None
        self._target = b""
        self._headers: dict[str, str] = {}
        self._body = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._parser = httptools.HttpRequestParser(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._writable.set()
        if self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            if self._transport is not None:
                self._transport.abort()

    # -- called by the parser --

    def on_message_begin(self) -> None:
        self._target = b""
        self._headers = {}
        self._body = bytearray()

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_body(self, body: bytes) -> None:
        self._body += body
        if len(self._body) > BODY_LIMIT_BYTES and self._transport is not None:
            self._transport.write(head(413, {"content-length": "0", "connection": "close"}))
            self._transport.close()

    def on_message_complete(self) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        transport.pause_reading() if self._task is not None else None
        method = self._parser.get_method().decode()
        keeps = self._parser.should_keep_alive()
        exchange = Exchange(
            transport, self._writable, method, self._target.decode(), self._headers, bytes(self._body)
        )
        self._task = asyncio.get_running_loop().create_task(self._serve(exchange, keeps, self._task))

    async def _serve(self, exchange: Exchange, keeps: bool, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait([before])
        await self._handler(exchange)
        if self._transport is None:
            return
        if keeps:
            self._transport.resume_reading()
        else:
            self._transport.close()


def head(status: int, fields: dict[str, str]) -> bytes:
    """Status line and header."""
    lines = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    return f"HTTP/1.1 {status} {REASONS.get(status, 'Unknown')}\r\n{lines}\r\n".encode()

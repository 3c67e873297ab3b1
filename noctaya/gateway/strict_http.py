"""Sanic's HTTP/1.1 server, held to the contract where it is too kind.

- A head has one deadline from its first byte; Sanic's own begins anew with every byte, so that a byte now and then pins a
  connection for ever.
- Heads and chunk sizes that another reader could read differently are 400 and a closed connection (`request_head`).
- What a refused request still sends is thrown away for a moment, so that the client can read its refusal, then cut off.
- HTTP/1.0 knows no chunks: its streams end with the connection.
- A client that sends more while it is being served is cut off once that fills the buffer: Sanic would stop reading, and with
  it stop noticing that the client has left.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from sanic.exceptions import BadRequest, PayloadTooLarge, RequestTimeout, SanicException
from sanic.headers import format_http1_response
from sanic.http import Http, Stage
from sanic.http.http1 import HTTP_CONTINUE
from sanic.server.protocols.http_protocol import HttpProtocol

from noctaya.gateway import request_head

END = b"\r\n\r\n"
BODILESS = frozenset({204, 304})
LEFTOVER_SECONDS = 5.0
"""For so long the rest of a refused body is read and dropped: a connection closed at once would take the refusal with it."""
SMALL_LEFTOVER_BYTES = 256 * 1024
"""With no more than this to come the connection may live on for the next request."""
CHUNK_LINE_BYTES = 1024


class StrictHttp(Http):
    """One connection's requests and answers, one after another."""

    __slots__ = ()

    async def http1_request_header(self) -> None:
        buffer: bytearray = self.recv_buffer
        while buffer.startswith(b"\r\n"):  # old clients send an empty line after a body
            del buffer[:2]
        if END not in buffer:
            await self._receive_head(buffer)
        if (end := buffer.find(END)) != -1 and (why := request_head.objection(bytes(buffer[:end]))):
            raise BadRequest(why)
        parse: Any = super().http1_request_header
        try:
            await parse()
        except Exception as error:
            self.url = None  # Sanic would parse it once more for its answer, and fail with nothing said
            if isinstance(error, SanicException):
                raise
            raise BadRequest("its URL is not valid") from error
        headers = [(name.lower(), value) for name, value in self.request.headers.items()]
        if why := request_head.framing_objection(self.request.version, headers):
            raise BadRequest(why)
        self.upgrade_websocket = False  # it would switch the connection's timeouts off

    async def _receive_head(self, buffer: bytearray) -> None:
        try:
            async with asyncio.timeout(self.protocol.request_timeout):
                while END not in buffer and len(buffer) < self.HEADER_MAX_SIZE + len(END):
                    await self._receive_more()
                    if buffer == b"\r\n":
                        buffer.clear()
        except TimeoutError as error:
            raise RequestTimeout("the request head did not arrive in time") from error

    async def read(self) -> bytes | None:
        body: Any = self.request_body
        if body == "chunked" and not self.request_bytes_left:
            await self._check_chunk_size()
        piece: bytes | None = await super().read()
        return piece

    async def _check_chunk_size(self) -> None:
        if self.expecting_continue:
            self.expecting_continue = False
            await self._send(HTTP_CONTINUE)
        buffer: bytearray = self.recv_buffer
        while (end := buffer.find(b"\r\n", 3)) == -1 and len(buffer) <= CHUNK_LINE_BYTES:
            await self._receive_more()
        if end == -1 or not request_head.is_chunk_size(bytes(buffer[:end])):
            self.keep_alive = False
            self.request_body = None  # where it ends cannot be known any more
            raise BadRequest("Bad chunked encoding")

    def __aiter__(self) -> AsyncIterator[bytes]:
        """What Sanic reads after an answer: the rest of a body that nobody wants."""
        return _Leftover(self)

    async def drop_rest(self) -> None:
        """The handler has answered without reading the whole body: read and drop what is left, within bounds."""
        try:
            async for _ in self:
                pass
        except (BadRequest, PayloadTooLarge):
            self.keep_alive, self.request_body = False, None

    async def http1_response_header(self, data: bytes, end_stream: bool) -> None:
        if self.request_body:
            self._decide_on_leftover()
        response: Any = self.response
        if (
            self.request.version == "1.0"
            and not end_stream
            and not self.head_only
            and "content-length" not in response.headers
            and response.status not in BODILESS
        ):
            self.keep_alive = False
            response.headers["connection"] = "close"
            self.response_func = self._until_close
            await self._send(format_http1_response(response.status, response.processed_headers) + data)
            self.stage = Stage.RESPONSE
            return
        await super().http1_response_header(data, end_stream)
        if self.head_only and end_stream:
            self._answered()  # Sanic would await the answer of a function that is no coroutine

    def _decide_on_leftover(self) -> None:
        """Say `Connection: close` when the rest of the body may be long, or may never come."""
        body: Any = self.request_body
        left: int = self.request_bytes_left or 0
        if self.expecting_continue:
            self.expecting_continue = False
            self.request_body = None
            self.keep_alive = False
        elif body == "chunked" or left > SMALL_LEFTOVER_BYTES:
            self.keep_alive = False

    async def _until_close(self, data: bytes, end_stream: bool) -> None:
        if data:
            await self._send(data)
        if end_stream:
            self._answered()
            self.stage = Stage.IDLE

    def _answered(self) -> None:
        nothing: Any = None  # as Sanic marks it
        self.response_func = nothing


class _Leftover(AsyncIterator[bytes]):
    """Reads what is left of a body and gives none of it."""

    def __init__(self, http: StrictHttp) -> None:
        self._http = http

    async def __anext__(self) -> bytes:
        http = self._http
        transport = http.protocol.transport
        if transport is None or transport.is_closing():
            http.request_body = None  # nobody is left to send it
        http.request_max_size = float("inf")
        try:
            async with asyncio.timeout(LEFTOVER_SECONDS):
                while http.request_body:
                    await http.read()
        except TimeoutError as error:
            http.request_body = None
            raise PayloadTooLarge(
                "the rest of the body did not come"
            ) from error  # Sanic closes the connection then
        raise StopAsyncIteration


class StrictProtocol(HttpProtocol):
    """A client's connection."""

    HTTP_CLASS = StrictHttp

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        http: Any = self.http
        if (
            http
            and not http.request_body
            and len(self.recv_buffer) >= self.app.config.REQUEST_BUFFER_SIZE
            and http.stage in (Stage.HANDLER, Stage.RESPONSE)
        ):
            self._cut()

    def _cut(self) -> None:
        abort: Any = self.abort
        abort()

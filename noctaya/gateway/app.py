"""The public port: Sanic, embedded in our own loop. Its handlers are thin; what they decide lives in `intake`.

Sanic's traps that are met here: a disconnect goes unnoticed after a body over 64 KiB unless reading is resumed; an exception
after the first chunk would look like a clean end (we abort instead); streaming handlers have no body limit (intake has one);
the response timeout is app-wide (a day here, and deadlines of our own). Where its HTTP is too kind, see `strict_http`.
"""

import asyncio
import logging
import socket
import struct
from collections.abc import AsyncIterator
from typing import Any

from sanic import Request, Sanic
from sanic.compat import Header
from sanic.exceptions import (
    BadRequest,
    MethodNotAllowed,
    NotFound,
    PayloadTooLarge,
    RequestCancelled,
    RequestTimeout,
    SanicException,
)
from sanic.http import Stage
from sanic.response import HTTPResponse, raw
from sanic.server.protocols.http_protocol import HttpProtocol

from noctaya.gateway import openai_errors
from noctaya.gateway.headers import Headers
from noctaya.gateway.inbound import Head
from noctaya.gateway.intake import Intake
from noctaya.gateway.openai_errors import Refusal
from noctaya.gateway.reply import ClientLeft
from noctaya.gateway.request_head import split_target
from noctaya.gateway.settings import HttpSettings

log = logging.getLogger(__name__)

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
A_DAY = 86_400.0
OCTETS = "application/octet-stream"
"""What a body is whose engine does not say (RFC 9110 section 8.3); without it Sanic would say `None`."""


def build(settings: HttpSettings, intake: Intake, name: str) -> "Sanic[Any, Any]":
    """The Sanic app; `name` is unique in the process (Sanic keeps a register of apps)."""
    app: Sanic[Any, Any] = Sanic(name, configure_logging=False)
    app.config.update(
        {
            "ACCESS_LOG": False,
            "AUTO_EXTEND": False,
            "MOTD": False,
            # Sanic rewrites its classes at start-up, which works once a process (a second time it cannot find their source).
            "TOUCHUP": not getattr(HttpProtocol, "__touched__", False),
            "KEEP_ALIVE_TIMEOUT": settings.keep_alive_seconds,
            "REQUEST_TIMEOUT": settings.head_timeout_seconds,
            "RESPONSE_TIMEOUT": A_DAY,
            "REQUEST_MAX_SIZE": settings.max_body_bytes,
            "REQUEST_MAX_HEADER_SIZE": settings.max_header_bytes,
            "GRACEFUL_TCP_CLOSE_TIMEOUT": 1.0,
        }
    )

    async def serve(request: Request, path: str = "") -> None:
        del path
        http: Any = request.stream
        if intake.is_draining:
            http.keep_alive = False  # the client's next request goes to another gateway
        await intake.serve(
            head_of(request), _Body(request, settings), SanicReply(request, settings.client_stall_seconds)
        )
        await http.drop_rest()

    app.add_route(serve, "/", methods=METHODS, stream=True, name="root")
    app.add_route(serve, "/<path:path>", methods=METHODS, stream=True, name="everything")

    def refuse(request: Request, error: Exception) -> HTTPResponse:
        refusal = _as_refusal(error, request, settings)
        intake.refused_before(refusal)
        return _as_response(refusal)

    app.exception(Exception)(refuse)
    return app


def head_of(request: Request) -> Head:
    """The head in our own words."""
    path, query = split_target(request.raw_url.decode("ascii", "replace"))
    pairs: Headers = list(request.headers.items())
    first: dict[str, str] = {}
    for header, value in pairs:
        first.setdefault(header.lower(), value)
    return Head(request.method, path, query, pairs, request.ip or "", "http", first)


class _Body(AsyncIterator[bytes]):
    """A request's body as Sanic reads it."""

    def __init__(self, request: Request, settings: HttpSettings) -> None:
        self._request, self._settings = request, settings

    def chunks(self) -> AsyncIterator[bytes]:
        return self

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        stream: Any = self._request.stream
        if stream is not None and stream.request_body:
            try:
                piece: bytes | None = await stream.read()
            except SanicException as error:
                raise _as_refusal(error, self._request, self._settings) from error
            if piece is not None:
                return piece
        # Sanic pauses reading at 64 KiB and resumes only for the next read; a paused transport notices no disconnect.
        transport: Any = self._request.transport
        if transport is not None:
            transport.resume_reading()
        raise StopAsyncIteration


class SanicReply:
    """`Reply` over a Sanic request."""

    def __init__(self, request: Request, stall_seconds: float) -> None:
        self._request, self._stall_seconds = request, stall_seconds
        self._response: HTTPResponse | None = None
        self.is_committed = False

    @property
    def is_writable(self) -> bool:
        stream: Any = self._request.stream
        transport = stream.protocol.transport if stream else None
        return transport is not None and not transport.is_closing() and stream.protocol._can_write.is_set()

    async def start(self, status: int, headers: Headers) -> None:
        content_type = next((value for name, value in headers if name == "content-type"), OCTETS)
        self._response = await self._request.respond(
            status=status, headers=_multi(headers), content_type=content_type
        )
        self.is_committed = True  # Sanic sends the head with the first piece, in one packet

    async def write(self, data: bytes) -> None:
        await self._deliver(data)

    async def finish(self) -> None:
        if self._response is not None:
            await self._deliver(b"", end_stream=True)

    async def whole(self, status: int, headers: Headers, body: bytes) -> None:
        response = HTTPResponse(body or None, status=status, headers=_multi(headers), content_type=None)
        self.is_committed = True
        self._response = await self._request.respond(response)
        await self._deliver(body, end_stream=True)

    def abort(self) -> None:
        # Not the transport's own abort: on uvloop it would drop an error event that was written a moment ago. This closes
        # after what is buffered, without an end of the body, and aborts a second later if the client does not read it.
        stream: Any = self._request.stream
        if stream is not None:
            stream.response_func, stream.stage = (
                None,
                Stage.FAILED,
            )  # Sanic has nothing more to say, nor to complain of
            if self._request.version == "1.0" and stream.protocol.transport is not None:
                # There the end of the connection is the end of the answer: only a reset says that it is not whole.
                reset = struct.pack("ii", 1, 0)
                stream.protocol.transport.get_extra_info("socket").setsockopt(
                    socket.SOL_SOCKET, socket.SO_LINGER, reset
                )
            stream.protocol.close()

    async def _deliver(self, data: bytes, *, end_stream: bool = False) -> None:
        if self._response is None:
            raise RuntimeError("start comes before write")
        try:
            if self.is_writable:
                await self._response.send(data, end_stream=end_stream)
                return
            async with asyncio.timeout(self._stall_seconds):
                await self._response.send(data, end_stream=end_stream)
        except RequestCancelled as error:
            raise ClientLeft("the client closed its connection") from error


def _multi(headers: Headers) -> Any:
    return Header(headers)


def _as_response(refusal: Refusal) -> HTTPResponse:
    """Sanic's own refusals (a head that it cannot parse, for one) in our shape."""
    return raw(
        refusal.body(),
        status=refusal.status,
        headers={**refusal.headers, "content-type": openai_errors.JSON},
        content_type=openai_errors.JSON,
    )


def _as_refusal(error: BaseException, request: Request, settings: HttpSettings) -> Refusal:
    if isinstance(error, Refusal):
        return error
    if isinstance(error, PayloadTooLarge):
        if "header" in str(error):
            return openai_errors.head_too_large(settings.max_header_bytes)
        return openai_errors.body_too_large(settings.max_body_bytes)
    if isinstance(error, RequestTimeout):
        return openai_errors.request_timeout()
    if isinstance(error, NotFound):
        return openai_errors.path_not_found(request.method, request.path)
    if isinstance(error, MethodNotAllowed):
        return openai_errors.method_not_allowed(request.method, request.path, "GET, POST")
    if isinstance(error, BadRequest):
        return openai_errors.bad_request(f"The request is malformed: {error}")
    if isinstance(error, RequestCancelled):
        return openai_errors.draining()
    if isinstance(error, SanicException) and error.status_code < 500:
        return openai_errors.bad_request(f"The request is not supported: {error}")
    log.error("request failed outside its handler", exc_info=error)
    return openai_errors.internal()

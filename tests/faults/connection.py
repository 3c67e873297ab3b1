"""One client's connection and the one behind it to the server: requests one after another, each treated as its plan says.

What was passed on to the server stays passed on, also when the client leaves meanwhile; only a watch ends with its client.
"""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import struct
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING

from tests.faults import http1
from tests.faults.http1 import BadMessage, Head
from tests.faults.past import PastRead, read_as_of
from tests.faults.rules import Plan, Request

if TYPE_CHECKING:
    from tests.faults.proxy import ProxiedClient

LOST = (ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, BadMessage, ssl.SSLError)
_RESET_AT_CLOSE = struct.pack("ii", 1, 0)
_HOP_BY_HOP = ("connection", "keep-alive", "content-length", "transfer-encoding", "expect", "host")


class _Swallowed(Exception):
    """What is under way has fallen into a black hole."""


class Connection:
    """Runs until either side ends it."""

    def __init__(
        self, client: ProxiedClient, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._client = client
        self._reader = reader
        self._writer = writer
        self._upstream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        self.request: Request | None = None
        """What is under way."""

    async def run(self) -> None:
        """Serve the connection. Its loss, on either side, is its end and no error."""
        watcher = asyncio.ensure_future(self._end_with_client())
        try:
            while (head := await http1.read_head(self._reader)) is not None:
                if head.get("expect"):
                    self._writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
                body = await http1.read_body(self._reader, head)
                method, target, _ = head.first.split(" ", 2)
                self.request = Request(method, target)
                if not await self._exchange(self.request, head, body):
                    break
                self.request = None
        except _Swallowed:
            await self._silence()
        except LOST:
            pass  # what one side lost, the other one loses too
        finally:
            watcher.cancel()
            self.abort()

    def abort(self) -> None:
        """Cut both sides at once, the client's with a reset."""
        raw = self._writer.get_extra_info("socket")
        if raw is not None and not self._writer.transport.is_closing():
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_AT_CLOSE)
        self._writer.transport.abort()
        if self._upstream is not None:
            self._upstream[1].transport.abort()

    async def _end_with_client(self) -> None:
        """Nobody would notice that the reader of a silent watch is gone."""
        await self._silence()
        if self.request is not None and self.request.is_watch:
            self.abort()

    async def _silence(self) -> None:
        """Until the client leaves."""
        try:
            await self._writer.wait_closed()
        except (OSError, ssl.SSLError):
            return

    async def _exchange(self, request: Request, head: Head, body: bytes) -> bool:
        """One request; whether the connection goes on."""
        client = self._client
        await client.thawed()
        plan = client.faults.plan(request)
        client.planned(request, plan)
        if plan.is_swallowed:
            raise _Swallowed
        if plan.is_reset:
            return False
        if plan.status:
            await self._send(_refusal(plan.status))
            return True
        if plan.delay_seconds or plan.late_seconds:
            await asyncio.sleep(plan.delay_seconds + plan.late_seconds)
        past = read_as_of(plan.past, request, head.get("accept")) if plan.past else None
        reader, writer = await self._server(head)
        writer.write(self._passed_on(head, body, past))
        await writer.drain()
        answer = await http1.read_head(reader)
        if answer is None:
            return False
        return await self._answer(request, plan, past, reader, answer)

    async def _answer(
        self, request: Request, plan: Plan, past: PastRead | None, reader: asyncio.StreamReader, answer: Head
    ) -> bool:
        rewrites_version = bool(plan.minor) and request.path == "/version"
        if plan.loses_response or rewrites_version or (past is not None and past.name):
            content = b"".join([piece async for piece in http1.pieces(reader, answer, request.method)])
            if plan.loses_response:
                return False
            code, content = int(answer.first.split()[1]), http1.unframed(answer, content)
            if past is not None:
                code, content = past.answer(code, content)
            if rewrites_version:
                content = _of_minor(plan.minor, content)
            await self._hold(request)
            await self._send(http1.answer(code, content))
            return True
        await self._hold(request)
        head = answer.encode()
        if request.is_watch:
            # Its client waits for the head, and its first event may be a long time coming.
            await self._send(head)
            head = b""
        pieces = http1.pieces(reader, answer, request.method)
        if request.is_watch and plan.delay_seconds:
            pieces = _later(pieces, plan.delay_seconds)
        async for piece in pieces:
            await self._hold(request)
            await self._send(head + piece)
            head = b""
        if head:
            await self._send(head)
        return "close" not in answer.get("connection").lower()

    async def _hold(self, request: Request) -> None:
        """Let nothing pass while the client is frozen, and nothing of a watch while its server lags behind."""
        client = self._client
        await client.thawed()
        if client.faults.swallows(request):
            raise _Swallowed
        while client.faults.stands_still(request):
            await client.changed.wait()
            await client.thawed()

    async def _send(self, content: bytes) -> None:
        self._writer.write(content)
        await self._writer.drain()

    async def _server(self, head: Head) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """The connection behind; with our own certificate unless the client says itself who it is."""
        if self._upstream is not None:
            reader, writer = self._upstream
            if not writer.transport.is_closing() and not reader.at_eof():
                return self._upstream
            writer.transport.abort()
        self._upstream = await self._client.connect(is_anonymous=bool(head.get("authorization")))
        return self._upstream

    def _passed_on(self, head: Head, body: bytes, past: PastRead | None) -> bytes:
        method, target, protocol = head.first.split(" ", 2)
        first = f"{method} {past.target if past is not None else target} {protocol}"
        headers = [("host", self._client.server), *head.without(*_HOP_BY_HOP).headers]
        if body or method in ("POST", "PUT", "PATCH"):
            headers.append(("content-length", str(len(body))))
        return Head(first, tuple(headers)).encode() + body


async def _later(pieces: AsyncIterator[bytes], seconds: float) -> AsyncIterator[bytes]:
    """Each piece so much later than it came, however many are on their way at once."""
    loop = asyncio.get_running_loop()
    under_way: asyncio.Queue[tuple[float, bytes | None]] = (
        asyncio.Queue()
    )  # holds what comes within `seconds`

    async def take_in() -> None:
        async for piece in pieces:
            under_way.put_nowait((loop.time() + seconds, piece))

    taking = asyncio.create_task(take_in())
    taking.add_done_callback(lambda _: under_way.put_nowait((0.0, None)))
    try:
        while True:
            due, piece = await under_way.get()
            if piece is None:
                break
            await asyncio.sleep(due - loop.time())
            yield piece
        await taking  # for its error
    finally:
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)


def _refusal(code: int) -> bytes:
    reasons = {
        401: "Unauthorized",
        403: "Forbidden",
        409: "Conflict",
        410: "Expired",
        429: "TooManyRequests",
        500: "InternalError",
        503: "ServiceUnavailable",
        504: "Timeout",
    }
    body = {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "a fault was asked for",
        "reason": reasons.get(code, ""),
        "code": code,
    }
    more = (("retry-after", "1"),) if code == 429 else ()
    return http1.answer(code, json.dumps(body).encode(), *more)


def _of_minor(minor: str, content: bytes) -> bytes:
    version = json.loads(content)
    return json.dumps({**version, "major": "1", "minor": minor, "gitVersion": f"v1.{minor}.0"}).encode()

"""The way to an engine: one request out, an answer back as it comes. At most once, always.

A request is sent again only when no byte of it can have reached an engine, that is when no connection was made
(`ConnectFailed`). A pooled connection that dies under a request tells nothing, so a POST travels on a pooled connection only
when its service says that its engine keeps connections alive (`runtime.http.keepAlive`), and never for a stream: llama.cpp's
server closes a connection right after a streamed answer without announcing it, and one in three requests on such a
connection was lost. Everything else dials anew: 0.8 instead of 0.3 ms of CPU a request, measured on loopback, and nothing is
lost. A client that looks at its socket before it writes (this module's successor) can have both.

aiohttp is replaceable: nothing of it leaves this module.
"""

import asyncio
import contextlib
import io
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

import aiohttp
import yarl

from noctaya.gateway.connector import EngineConnector
from noctaya.gateway.errors import ConnectFailed, UpstreamBroken
from noctaya.gateway.headers import Headers
from noctaya.gateway.service import Endpoint
from noctaya.gateway.settings import UpstreamSettings

HEAD_LIMIT_BYTES = 32 * 1024
LARGE_BODY_BYTES = 256 * 1024
STATUSES = range(200, 600)
"""What may end a request; 101 was never asked for, and the rest is no HTTP."""


@dataclass(slots=True)
class Outbound:
    """A request as the engine gets it; `path` carries the query."""

    method: str
    path: str
    headers: Headers
    body: bytes
    may_reuse: bool
    """True when a pooled connection may carry it."""


class Silent(UpstreamBroken):
    """The engine sent nothing for longer than allowed."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"nothing came for {seconds:g} s")
        self.seconds = seconds


class Answer(Protocol):
    """What an engine answers."""

    status: int
    headers: Headers

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes; the next piece is read only when the last one was taken.

        Raises:
            UpstreamBroken: the engine broke off before the end.
        """
        ...

    def close(self) -> None:
        """Cut the connection if the body has not ended: the engine sees it and stops working."""
        ...


class Upstream:
    """Connections to all engines of this process."""

    def __init__(self, settings: UpstreamSettings) -> None:
        self._settings = settings
        self._fresh = self._session(force_close=True)
        self._pooled = self._session(force_close=False)

    async def open(self, endpoint: Endpoint, request: Outbound) -> Answer:
        """Send the request and wait for the head of its answer.

        Raises:
            ConnectFailed: nothing was sent.
            UpstreamBroken: something may have been sent, and no head came.
        """
        session = self._pooled if request.may_reuse else self._fresh
        try:
            url = yarl.URL(f"http://{endpoint.authority}{request.path}", encoded=True)
        except ValueError as error:
            raise ConnectFailed(f"{endpoint.pod} has no usable address") from error
        # A long body goes out piece by piece, as the engine takes it; BytesIO shares the memory.
        body = request.body if len(request.body) <= LARGE_BODY_BYTES else io.BytesIO(request.body)
        settings = self._settings
        try:
            # aiohttp's own timeout begins when the body is written and anew with every byte; this one is for the whole head.
            async with asyncio.timeout(settings.connect_seconds + settings.idle_seconds):
                response = await session.request(
                    request.method, url, headers=request.headers, data=body, allow_redirects=False
                )
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError) as error:
            raise ConnectFailed(
                f"{endpoint.pod or endpoint.authority} cannot be reached: {_say(error)}"
            ) from error
        except TimeoutError as error:
            raise Silent(settings.idle_seconds) from error
        except (aiohttp.ClientError, OSError) as error:
            raise UpstreamBroken(f"the connection broke before the answer began ({_say(error)})") from error
        if response.status not in STATUSES:
            response.close()
            raise UpstreamBroken(f"it answered with status {response.status}")
        return _Answer(response, settings.idle_seconds)

    async def close(self) -> None:
        """Close every connection."""
        await self._fresh.close()
        await self._pooled.close()

    def _session(self, *, force_close: bool) -> aiohttp.ClientSession:
        limits = (
            {"force_close": True} if force_close else {"keepalive_timeout": self._settings.keepalive_seconds}
        )
        return aiohttp.ClientSession(
            connector=EngineConnector(**limits),
            timeout=aiohttp.ClientTimeout(
                total=None, sock_connect=self._settings.connect_seconds, sock_read=self._settings.idle_seconds
            ),
            auto_decompress=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            skip_auto_headers=("User-Agent", "Accept", "Accept-Encoding", "Content-Type"),
            max_field_size=HEAD_LIMIT_BYTES,
            max_line_size=HEAD_LIMIT_BYTES,
        )


class _Answer(AsyncIterator[bytes]):
    def __init__(self, response: aiohttp.ClientResponse, idle_seconds: float) -> None:
        self._response, self._idle_seconds = response, idle_seconds
        self.status = response.status
        self.headers = [
            (name.decode("latin-1"), value.decode("utf-8", "surrogateescape"))
            for name, value in response.raw_headers
        ]

    def chunks(self) -> AsyncIterator[bytes]:
        return self

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        # Not an async generator: one that is left early is finished by the garbage collector, some time.
        try:
            async with asyncio.timeout(self._idle_seconds):
                chunk = await self._response.content.readany()
        except TimeoutError as error:
            raise Silent(self._idle_seconds) from error
        except (aiohttp.ClientError, OSError) as error:
            raise UpstreamBroken(f"the answer broke off ({_say(error)})") from error
        if not chunk:
            raise StopAsyncIteration
        return chunk

    def close(self) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is gone: so is the connection
            self._response.close()


def _say(error: BaseException) -> str:
    """What happened, for a client's eyes: the libraries' own words hold the pod's address and bytes of the answer."""
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "the engine closed the connection"
    if isinstance(error, aiohttp.ClientResponseError):
        return "the answer is not valid HTTP"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "the body is not whole"
    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno).lower()
    return type(error).__name__

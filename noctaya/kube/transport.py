"""The aiohttp session to one API server: deadlines, headers, status check, and the errors of the wire turned into types.

Every exchange ends with a body, a typed error or a cancellation; a status is looked at before any body is believed. What
aiohttp would do by itself and must not is off: environment proxies and netrc (`trust_env` costs 260 µs a request and can
break on a netrc entry), redirects (they would carry the token elsewhere), its connection limit (every open watch holds a
connection). A call is repeated here only where the server cannot have acted: after a 401 with a new token, and after a
certificate was refused and a new one could be loaded.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import weakref
from collections.abc import Mapping
from types import TracebackType
from typing import Any
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from noctaya.kube.config import ClusterConfig
from noctaya.kube.credentials import Credentials, credentials_for
from noctaya.kube.errors import (
    Call,
    ConfigError,
    Forbidden,
    KubeError,
    Unauthorized,
    Unavailable,
    from_response,
)
from noctaya.kube.tls import Tls

_CONNECT_SECONDS = 5.0
_KEEP_ALIVE_SECONDS = 30.0
_UNACKNOWLEDGED_MS = 20_000
_RETIRED_SESSIONS = 2
_GOODBYE_SECONDS = 0.5
"""For connections that were given up in the middle of a call: the session closes those that it keeps, and forgets these, which
still say goodbye in TLS (aiohttp#1925). Whoever ends the loop in that moment leaves sockets open."""
_MAX_ERROR_BODY_BYTES = 64 * 1024
MAX_BODY_BYTES = 256 * 1024 * 1024
"""A page of 500 objects is a few MiB; more than this is not an answer but an accident."""

Query = Mapping[str, str]


class Transport:
    """The session and what every request carries. Use as an async context manager, in one event loop."""

    def __init__(self, config: ClusterConfig, *, user_agent: str) -> None:
        self._config = config
        self._user_agent = user_agent
        self._session: aiohttp.ClientSession | None = None
        self._retired: list[aiohttp.ClientSession] = []
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()
        self._generation = 0
        self.refusals = 0
        """Calls that were answered Forbidden."""
        self._tls: Tls | None = None
        self._credentials: Credentials | None = None

    async def __aenter__(self) -> Transport:
        if self._session is not None:
            raise RuntimeError("this client is already open")
        self._tls = Tls(self._config)
        self._credentials = credentials_for(self._config.token, self._tls)
        self._session = self._new_session(self._tls)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        sessions = [*self._retired, self._session]
        self._session = None
        self._retired.clear()
        for session in sessions:
            if session is not None:
                await session.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_GOODBYE_SECONDS):
                while any(one.fileno() >= 0 for one in self._sockets):  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.001)

    def _socket(self, address: tuple[Any, ...]) -> socket.socket:
        made = _patient_for_20_seconds(address)
        self._sockets.add(made)
        return made

    def _new_session(self, tls: Tls) -> aiohttp.ClientSession:
        self._generation = tls.generation
        connector = aiohttp.TCPConnector(
            ssl=tls.context or True,
            limit=0,
            keepalive_timeout=_KEEP_ALIVE_SECONDS,
            socket_factory=self._socket,
        )
        return aiohttp.ClientSession(
            connector=connector,
            trust_env=False,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS),
            # Compressing a list costs the server more than sending it over a cluster's network.
            headers={"User-Agent": self._user_agent, "Accept-Encoding": "identity"},
        )

    async def _session_of_now(self, tls: Tls) -> aiohttp.ClientSession:
        """The session, or a new one when certificates have changed since: kept connections speak with the old ones."""
        if self._session is None:
            raise RuntimeError("the client is not open: use it as `async with Client(…) as client`")
        if self._generation != tls.generation:
            # What is under way on the old one may end in peace; a watch asks for a new connection within minutes.
            self._retired.append(self._session)
            self._session = self._new_session(tls)
            if len(self._retired) > _RETIRED_SESSIONS:
                await self._retired.pop(0).close()
        return self._session

    async def request(
        self,
        call: Call,
        method: str,
        path: str,
        *,
        timeout_seconds: float,
        query: Query | None = None,
        body: bytes | None = None,
        content_type: str | None = None,
        accept: str = "application/json",
    ) -> bytes:
        """Send, and return the body of a 2xx answer. Raises KubeError; `timeout_seconds` covers all of it."""
        try:
            async with asyncio.timeout(timeout_seconds):
                response = await self._send(call, method, path, query, body, content_type, accept, None)
                async with response:
                    return await _read(call, response)
        except aiohttp.ClientError as cause:
            raise _lost(call, cause) from cause
        except TimeoutError as cause:
            raise Unavailable(call, f"no complete answer within {timeout_seconds:g} s") from cause
        except OSError as cause:
            raise _lost(call, cause) from cause

    async def open_stream(
        self, call: Call, path: str, query: Query, *, connect_seconds: float, silence_seconds: float
    ) -> aiohttp.ClientResponse:
        """Open a response that is read for as long as it lasts; a silence of `silence_seconds` breaks it.

        Returns after a 200 and its headers, within `connect_seconds`. The caller closes the response.
        """
        try:
            async with asyncio.timeout(connect_seconds):
                return await self._send(
                    call, "GET", path, query, None, None, "application/json", silence_seconds
                )
        except aiohttp.ClientError as cause:
            raise _lost(call, cause) from cause
        except TimeoutError as cause:
            raise Unavailable(call, f"no answer within {connect_seconds:g} s") from cause
        except OSError as cause:
            raise _lost(call, cause) from cause

    async def _send(
        self,
        call: Call,
        method: str,
        path: str,
        query: Query | None,
        body: bytes | None,
        content_type: str | None,
        accept: str,
        silence_seconds: float | None,
    ) -> aiohttp.ClientResponse:
        """A response with status 2xx whose body is unread; anything else is raised."""
        try:
            return await self._attempt(call, method, path, query, body, content_type, accept, silence_seconds)
        except ConfigError as cause:
            # A token file or a plugin that fails for a moment is met like refused credentials: reported and retried.
            raise Unauthorized(call, f"no usable credentials: {cause}") from cause

    async def _attempt(
        self,
        call: Call,
        method: str,
        path: str,
        query: Query | None,
        body: bytes | None,
        content_type: str | None,
        accept: str,
        silence_seconds: float | None,
    ) -> aiohttp.ClientResponse:
        tls, credentials = self._tls, self._credentials
        if tls is None or credentials is None:
            raise RuntimeError("the client is not open: use it as `async with Client(…) as client`")
        headers = {"Accept": accept}
        if content_type is not None:
            headers["Content-Type"] = content_type
        options: dict[str, Any] = {}
        if silence_seconds is not None:
            options["timeout"] = aiohttp.ClientTimeout(
                total=None, sock_connect=_CONNECT_SECONDS, sock_read=silence_seconds
            )
        url = URL(self._config.server + path + (f"?{urlencode(query)}" if query else ""), encoded=True)
        may_refresh = True
        while True:
            authorization = await credentials.authorization()
            if authorization is not None:
                headers["Authorization"] = authorization
            session = await self._session_of_now(tls)
            generation = tls.generation
            try:
                response = await session.request(
                    method,
                    url,
                    data=body,
                    headers=headers,
                    allow_redirects=False,
                    proxy=self._config.proxy_url,
                    server_hostname=self._config.tls_server_name,
                    **options,
                )
            except aiohttp.ClientConnectorCertificateError:
                tls.refresh()
                if may_refresh and tls.generation != generation:
                    may_refresh = False
                    continue
                raise
            if response.status < 300:
                return response
            async with response:
                error = await _error(call, response)
            if may_refresh and isinstance(error, Unauthorized):
                may_refresh = False
                # Both: a rotation may have replaced the token and the certificate together.
                has_new_header = await credentials.refresh()
                tls.refresh()
                if has_new_header or tls.generation != generation:
                    continue
            self.refusals += isinstance(error, Forbidden)
            raise error


async def _read(call: Call, response: aiohttp.ClientResponse) -> bytes:
    declared = response.content_length
    if declared is not None and declared > MAX_BODY_BYTES:
        raise Unavailable(call, f"an answer of {declared} bytes is more than {MAX_BODY_BYTES}")
    chunks: list[bytes] = []
    size = 0
    async for chunk in response.content.iter_any():
        chunks.append(chunk)
        size += len(chunk)
        if size > MAX_BODY_BYTES:
            raise Unavailable(call, f"an answer of more than {MAX_BODY_BYTES} bytes")
    return b"".join(chunks)


async def _error(call: Call, response: aiohttp.ClientResponse) -> KubeError:
    body = bytearray()
    try:
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) >= _MAX_ERROR_BODY_BYTES:
                break
    except aiohttp.ClientError:
        # The status alone classifies it; the words were cut off.
        body += b" (the rest was lost)"
    return from_response(call, response.status, response.headers, bytes(body))


def _lost(call: Call, cause: BaseException) -> Unavailable:
    detail = str(cause) or type(cause).__name__
    return Unavailable(call, f"connection failed: {detail}")


def _patient_for_20_seconds(address: tuple[Any, ...]) -> socket.socket:
    """A socket on which a dead peer is noticed by the kernel in about 20 s, not in the default quarter of an hour."""
    family, kind, protocol = address[0], address[1], address[2]
    made = socket.socket(family=family, type=kind, proto=protocol)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (
        ("TCP_KEEPIDLE", 10),
        ("TCP_KEEPINTVL", 5),
        ("TCP_KEEPCNT", 3),
        ("TCP_USER_TIMEOUT", _UNACKNOWLEDGED_MS),
    ):
        option = getattr(socket, name, None)
        if option is not None:
            made.setsockopt(socket.IPPROTO_TCP, option, value)
    return made

"""What the gateway needs of a client's connection, whichever server holds it."""

from typing import Protocol

from noctaya.errors import NoctayaError
from noctaya.gateway.headers import Headers

EVENT_STREAM = "text/event-stream"


class ClientLeft(NoctayaError):
    """The client's connection is closed: there is nobody to answer."""


class Reply(Protocol):
    """The answer to one request. Nothing is sent before `start`; after it the status cannot change any more."""

    @property
    def is_committed(self) -> bool:
        """True once the head was sent, or is about to be."""
        ...

    @property
    def is_writable(self) -> bool:
        """False while the client reads too slowly: writing would wait."""
        ...

    async def start(self, status: int, headers: Headers) -> None:
        """Commit to this head; it goes out with the first piece of the body, or with its end. With a Content-Length among the
        headers the body is sent as it is, else chunked."""
        ...

    async def write(self, data: bytes) -> None:
        """Send a piece of the body; waits while the client reads slowly, and cuts one off that reads nothing."""
        ...

    async def finish(self) -> None:
        """The body is whole."""
        ...

    async def whole(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a complete answer."""
        ...

    def abort(self) -> None:
        """Cut the connection after what was written, without an end, so that the client cannot take what it has for the whole."""
        ...


class CountedReply:
    """A reply that remembers what was sent, and adds the CORS headers."""

    def __init__(self, reply: Reply, headers: Headers) -> None:
        self._reply, self._headers = reply, headers
        self.status = 0
        self.is_stream = False

    @property
    def is_committed(self) -> bool:
        return self._reply.is_committed

    @property
    def is_writable(self) -> bool:
        return self._reply.is_writable

    async def start(self, status: int, headers: Headers) -> None:
        self.status = status
        self.is_stream = any(
            name == "content-type" and value.startswith(EVENT_STREAM) for name, value in headers
        )
        await self._reply.start(status, [*headers, *self._headers])

    async def write(self, data: bytes) -> None:
        await self._reply.write(data)

    async def finish(self) -> None:
        await self._reply.finish()

    async def whole(self, status: int, headers: Headers, body: bytes) -> None:
        self.status = status
        await self._reply.whole(status, [*headers, *self._headers], body)

    def abort(self) -> None:
        self._reply.abort()

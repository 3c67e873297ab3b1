"""One watch stream: bytes into lines into raw events, with a limit on what a single event may cost.

`WatchStream` is one connection and ends with it; who wants to stay informed runs a `Store`. Use it as an async context
manager, so that leaving it early closes the connection at once. It ends normally when the server ends it and raises a
KubeError otherwise: what an ERROR event says (410 is `Gone`), silence longer than the limit, a lost connection, a line that
is not an event. A last line without its newline was cut off and is dropped: resuming from the last version brings it again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple

import aiohttp
import msgspec

from noctaya.kube.errors import Call, Silent, Unavailable, Undecodable, from_stream

MAX_EVENT_BYTES = 8 * 1024 * 1024
"""Five times what etcd stores by default; aiohttp's own line limit is far below what a ConfigMap may hold."""


class RawEvent(NamedTuple):
    """`type` is ADDED, MODIFIED, DELETED or BOOKMARK; a bookmark's object has a resourceVersion and nothing else."""

    type: str
    object: msgspec.Raw


class _Envelope(msgspec.Struct, gc=False):
    type: str
    object: msgspec.Raw


class EventTooLarge(Undecodable):
    """One event is larger than the limit; listing again skips it."""


class LineSplitter:
    """Chunks in, whole lines out, never more than `limit_bytes` held for a line that does not end."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit_bytes = limit_bytes
        self._pending = bytearray()

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that this chunk completes, without their newlines. Raises OverflowError past the limit."""
        head, separator, rest = chunk.partition(b"\n")
        if len(self._pending) + len(head) > self._limit_bytes:
            raise OverflowError
        self._pending += head
        if not separator:
            return []
        lines = [bytes(self._pending), *rest.split(b"\n")]
        self._pending = bytearray(lines.pop())
        if len(self._pending) > self._limit_bytes or any(len(line) > self._limit_bytes for line in lines):
            raise OverflowError
        return [line for line in lines if line.strip()]


class WatchStream:
    """An async iterator of `RawEvent`; opened by `open` or by the first step."""

    def __init__(
        self,
        call: Call,
        connect: Callable[[], Awaitable[aiohttp.ClientResponse]],
        *,
        max_event_bytes: int = MAX_EVENT_BYTES,
    ) -> None:
        self._call = call
        self._connect = connect
        self._splitter = LineSplitter(max_event_bytes)
        self._max_event_bytes = max_event_bytes
        self._lines: deque[bytes] = deque()
        self._response: aiohttp.ClientResponse | None = None
        self._decoder = msgspec.json.Decoder(_Envelope)
        self._ended = False

    async def __aenter__(self) -> WatchStream:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.close()

    def __aiter__(self) -> WatchStream:
        return self

    async def open(self) -> None:
        """Connect; returns once the server has accepted the watch."""
        if self._response is None and not self._ended:
            self._response = await self._connect()

    def close(self) -> None:
        """Drop the connection; the iteration ends."""
        self._ended = True
        self._lines.clear()
        if self._response is not None:
            self._response.close()
            self._response = None

    async def __anext__(self) -> RawEvent:
        try:
            line = await self._line()
            if line is not None:
                return self._parse(line)
        except BaseException:
            self.close()
            raise
        self.close()
        raise StopAsyncIteration

    async def _line(self) -> bytes | None:
        await self.open()
        while not self._lines:
            chunk = b"" if self._response is None else await self._read(self._response)
            if not chunk:
                return None
            try:
                self._lines.extend(self._splitter.feed(chunk))
            except OverflowError as cause:
                raise EventTooLarge(
                    self._call, f"an event of more than {self._max_event_bytes} bytes"
                ) from cause
        return self._lines.popleft()

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        try:
            return await response.content.readany()
        except TimeoutError as cause:
            raise Silent(self._call, "the stream fell silent: no event and no bookmark") from cause
        except (aiohttp.ClientError, OSError) as cause:
            raise Unavailable(
                self._call, f"the stream broke: {str(cause) or type(cause).__name__}"
            ) from cause

    def _parse(self, line: bytes) -> RawEvent:
        try:
            envelope = self._decoder.decode(line)
        except msgspec.MsgspecError as cause:
            raise Undecodable(self._call, f"a line of the stream is not an event: {line[:100]!r}") from cause
        if envelope.type == "ERROR":
            raise from_stream(self._call, envelope.object)
        return RawEvent(envelope.type, envelope.object)

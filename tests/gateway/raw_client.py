"""A client that speaks bytes, for requests that no HTTP library would send."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Heard:
    """What came back on a connection, and how it ended."""

    data: bytes
    end: str
    """`closed`, `reset`, or `open` when nothing more came in time."""

    @property
    def status(self) -> int:
        """Of the first answer; 0 without one."""
        return int(self.data.split(b" ", 2)[1]) if self.data.startswith(b"HTTP/1.1 ") else 0

    @property
    def head(self) -> bytes:
        return self.data.partition(b"\r\n\r\n")[0].lower()

    @property
    def body(self) -> bytes:
        return self.data.partition(b"\r\n\r\n")[2]

    @property
    def code(self) -> Any:
        """The error's `code`."""
        return json.loads(self.body)["error"]["code"]


@contextlib.asynccontextmanager
async def connection(port: int) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A TCP connection that is closed at the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def listen(reader: asyncio.StreamReader, seconds: float) -> Heard:
    """Everything that comes until the end, or for so long."""
    data = b""
    try:
        async with asyncio.timeout(seconds):
            while piece := await reader.read(65_536):
                data += piece
            return Heard(data, "closed")
    except TimeoutError:
        return Heard(data, "open")
    except ConnectionError:
        return Heard(data, "reset")


async def one_answer(reader: asyncio.StreamReader) -> Heard:
    """One answer with a Content-Length; the connection's fate is not looked at."""
    async with asyncio.timeout(5):
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            (
                int(line.split(b":")[1])
                for line in head.lower().split(b"\r\n")
                if line.startswith(b"content-length")
            ),
            0,
        )
        return Heard(head + await reader.readexactly(length), "open")


async def ask(port: int, data: bytes) -> Heard:
    """Send and hear one answer."""
    async with connection(port) as (reader, writer):
        writer.write(data)
        return await one_answer(reader)


def request(
    body: bytes = b'{"model": "ai/tiny"}',
    *,
    more: bytes = b"",
    path: bytes = b"/v1/chat/completions",
    method: bytes = b"POST",
    host: bytes = b"host: x\r\n",
    version: bytes = b"1.1",
    length: bytes | None = None,
) -> bytes:
    """A chat request; `more` are whole header lines."""
    told = b"" if length == b"" else b"content-length: %b\r\n" % (length or b"%d" % len(body))
    return (
        b"%b %b HTTP/%b\r\n%bcontent-type: application/json\r\n%b%b\r\n"
        % (method, path, version, host, told, more)
        + body
    )


def chunked(*pieces: bytes, end: bytes = b"0\r\n\r\n", **more: Any) -> bytes:
    """The same with a body in chunks."""
    body = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + end
    return request(body, more=b"transfer-encoding: chunked\r\n", length=b"", **more)

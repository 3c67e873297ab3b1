"""HTTP/1.1 as it is on the wire: heads read and written, bodies in bounded pieces with their framing kept."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

HEAD_BYTES = 64 * 1024
BODY_BYTES = 16 * 1024 * 1024
PIECE_BYTES = 64 * 1024


class BadMessage(Exception):
    """Not HTTP, or more of it than a test has any reason to send."""


@dataclass(frozen=True, slots=True)
class Head:
    """The first line and the headers; names are in lower case."""

    first: str
    headers: tuple[tuple[str, str], ...]

    def get(self, name: str) -> str:
        """A header's value, or nothing."""
        return next((value for key, value in self.headers if key == name), "")

    def encode(self) -> bytes:
        lines = [self.first, *(f"{key}: {value}" for key, value in self.headers), "", ""]
        return "\r\n".join(lines).encode("latin-1")

    def without(self, *names: str) -> Head:
        """The same head without some headers."""
        return Head(self.first, tuple(pair for pair in self.headers if pair[0] not in names))

    @property
    def is_chunked(self) -> bool:
        return "chunked" in self.get("transfer-encoding").lower()


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """The next head, or None when the other side has ended."""
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as cut:
        if cut.partial:
            raise BadMessage("a head was cut short") from cut
        return None
    except asyncio.LimitOverrunError as overrun:
        raise BadMessage("a head that does not end") from overrun
    first, *lines = raw[:-4].decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return Head(first, tuple((name.strip().lower(), value.strip()) for name, _, value in pairs))


async def read_body(reader: asyncio.StreamReader, head: Head) -> bytes:
    """A request's whole body, without its framing."""
    if not head.is_chunked:
        size = int(head.get("content-length") or 0)
        if size > BODY_BYTES:
            raise BadMessage(f"a body of {size} bytes")
        return await reader.readexactly(size)
    parts: list[bytes] = []
    total = 0
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        total += size
        if total > BODY_BYTES:
            raise BadMessage(f"a body of more than {BODY_BYTES} bytes")
        parts.append((await reader.readexactly(size + 2))[:-2])
    await reader.readuntil(b"\r\n")
    return b"".join(parts)


async def pieces(reader: asyncio.StreamReader, head: Head, method: str) -> AsyncIterator[bytes]:
    """An answer's body as it is on the wire, piece by piece; a chunk of a stream is one piece as long as it is small."""
    code = int(head.first.split()[1])
    if method == "HEAD" or code in (204, 304):
        return
    if head.is_chunked:
        async for piece in _chunks(reader):
            yield piece
    elif head.get("content-length"):
        left = int(head.get("content-length"))
        while left:
            piece = await reader.read(min(left, PIECE_BYTES))
            if not piece:
                raise BadMessage("an answer was cut short")
            left -= len(piece)
            yield piece
    else:
        while piece := await reader.read(PIECE_BYTES):
            yield piece


async def _chunks(reader: asyncio.StreamReader) -> AsyncIterator[bytes]:
    while True:
        line = await reader.readuntil(b"\r\n")
        left = int(line.split(b";")[0], 16)
        if left == 0:
            yield line + await reader.readuntil(b"\r\n")
            return
        left += 2
        while left:
            part = await reader.readexactly(min(left, PIECE_BYTES))
            left -= len(part)
            yield line + part
            line = b""


def unframed(head: Head, raw: bytes) -> bytes:
    """The content of a whole body that was collected from `pieces`."""
    if not head.is_chunked:
        return raw
    content = bytearray()
    while raw:
        line, _, raw = raw.partition(b"\r\n")
        size = int(line.split(b";")[0], 16)
        content += raw[:size]
        raw = raw[size + 2 :]
    return bytes(content)


def answer(code: int, content: bytes, *more: tuple[str, str]) -> bytes:
    """A whole answer in JSON."""
    headers = (("content-type", "application/json"), ("content-length", str(len(content))), *more)
    return Head(f"HTTP/1.1 {code} Status", headers).encode() + content

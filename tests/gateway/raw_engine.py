"""An engine that speaks bytes, for answers that no HTTP server would give."""

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator, Awaitable, Callable

Script = Callable[["Heard", asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Heard:
    """One request as it came."""

    def __init__(self, head: bytes) -> None:
        self.head = head
        found = re.search(rb"\r\ncontent-length: (\d+)", head, re.IGNORECASE)
        self.length = int(found[1]) if found else 0
        told = re.search(rb"\r\nx-request-id: (\S+)", head, re.IGNORECASE)
        self.request_id = told[1].decode() if told else ""


class RawEngine:
    """`ids` are the request ids that arrived, one entry an arrival."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.ids: list[str] = []
        self.heads: list[bytes] = []
        self.connections = 0
        self.port = 0
        self.gone = 0
        """Connections that the gateway ended while the script still ran."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                heard = Heard(await reader.readuntil(b"\r\n\r\n"))
                self.ids.append(heard.request_id)
                self.heads.append(heard.head)
                await self.script(heard, reader, writer)
                await writer.drain()
        except (
            ConnectionError,
            asyncio.IncompleteReadError,
            RuntimeError,
        ):  # RuntimeError: uvloop's, on a closed transport
            self.gone += 1
        except asyncio.CancelledError:
            pass  # the test is over
        finally:
            writer.close()


@contextlib.asynccontextmanager
async def raw_engine(script: Script) -> AsyncIterator[RawEngine]:
    """Runs while the body runs."""
    engine = RawEngine(script)
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(engine.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0, backlog=1024)
    engine.port = server.sockets[0].getsockname()[1]
    try:
        yield engine
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


class Close(ConnectionError):
    """Raised by a script: the connection ends here."""


def saying(answer: bytes, *, reads: bool = True, closes: bool = True) -> Script:
    """Read the body (or not), say this, and close (or not)."""

    async def script(heard: Heard, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if reads:
            await reader.readexactly(heard.length)
        writer.write(answer)
        await writer.drain()
        if closes:
            raise Close

    return script


def resetting(after: bytes = b"", *, then: bytes = b"", reads: bool = True) -> Script:
    """Say this, a moment later the rest, then reset the connection."""

    async def script(heard: Heard, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if reads:
            await reader.readexactly(heard.length)
        if after:
            writer.write(after)
            await writer.drain()
            await asyncio.sleep(0.02)
        if then:
            writer.write(then)
            await writer.drain()
            await asyncio.sleep(0.02)
        writer.transport.abort()
        raise Close

    return script


def silent(*, reads: bool = True) -> Script:
    """Take the request and say nothing until the gateway leaves."""

    async def script(heard: Heard, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if not reads:
            await asyncio.Event().wait()
        await reader.readexactly(heard.length)
        await reader.readexactly(1)

    return script


def dripping(answer: bytes, seconds: float, *, first: bytes = b"") -> Script:
    """Say `first` at once and the rest byte by byte."""

    async def script(heard: Heard, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(heard.length)
        writer.write(first)
        for byte in answer:
            writer.write(bytes([byte]))
            await writer.drain()
            await asyncio.sleep(seconds)

    return script

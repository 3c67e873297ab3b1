"""Forwards TCP connections from one local port to endpoints, round robin; a refused one is passed over for the next."""

import asyncio
import contextlib
from collections.abc import Sequence

CONNECT_SECONDS = 2.0
CHUNK_BYTES = 64 * 1024

Endpoint = tuple[str, int]


class Forwarder:
    """One listening port. `endpoints` may be replaced at any time; open connections stay where they are."""

    def __init__(self, host: str, port: int) -> None:
        self.host = host
        self.port = port
        self.endpoints: Sequence[Endpoint] = ()
        self._next = 0
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Listen.

        Raises:
            OSError: the port is taken.
        """
        self._server = await asyncio.start_server(self._accept, self.host, self.port, limit=CHUNK_BYTES)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Stop listening and cut what is open."""
        if self._server is not None:
            self._server.close()
        for task in list(self._connections):
            task.cancel()
        if self._connections:
            await asyncio.wait(self._connections, timeout=CONNECT_SECONDS)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)
        try:
            upstream = await self._connect()
            if upstream is None:
                return
            upstream_reader, upstream_writer = upstream
            try:
                async with asyncio.TaskGroup() as both:
                    both.create_task(copy(reader, upstream_writer))
                    both.create_task(copy(upstream_reader, writer))
            finally:
                upstream_writer.transport.abort()
        except* (OSError, asyncio.CancelledError):
            pass  # one side is gone, or we are being closed: the other side is cut below
        finally:
            writer.transport.abort()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        endpoints = list(self.endpoints)
        for _ in endpoints:
            self._next = (self._next + 1) % len(endpoints)
            host, port = endpoints[self._next]
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(CONNECT_SECONDS):
                    return await asyncio.open_connection(host, port, limit=CHUNK_BYTES)
        return None


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copy one direction to its end, then close that half."""
    while chunk := await reader.read(CHUNK_BYTES):
        writer.write(chunk)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()

"""A TCP way to a port of this machine that can be frozen or cut: gRPC between workers and gateways goes through such ways.

Frozen, bytes wait in the kernel's buffers and in here, as when packets are lost; after `thaw` they go on. Cut, connections are
reset and new ones refused.
"""

from __future__ import annotations

import asyncio
from types import TracebackType

HOST = "127.0.0.1"
PIECE = 64 * 1024


class TcpWay:
    """`async with TcpWay(port) as way: dial(way.address)`."""

    def __init__(self, target: int) -> None:
        self.target = target
        self.port = 0
        self._open = asyncio.Event()
        self._open.set()
        self._is_cut = False
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listener: asyncio.Server | None = None

    @property
    def address(self) -> str:
        """Where to dial."""
        return f"{HOST}:{self.port}"

    async def start(self) -> TcpWay:
        """Listen."""
        self._listener = await asyncio.start_server(self._accept, HOST, 0)
        self.port = self._listener.sockets[0].getsockname()[1]
        return self

    async def __aenter__(self) -> TcpWay:
        return await self.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def freeze(self) -> None:
        """Nothing passes until `mend`."""
        self._open.clear()

    def cut(self) -> None:
        """Reset what there is, refuse what comes, until `mend`."""
        self._is_cut = True
        self._open.set()
        self._abort()

    def mend(self) -> None:
        """Let everything pass."""
        self._is_cut = False
        self._open.set()

    async def close(self) -> None:
        """End it."""
        if self._listener is not None:
            self._listener.close()
        self._abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _abort(self) -> None:
        for writer in list(self._writers):
            writer.transport.abort()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            await self._open.wait()
            if not self._is_cut:
                await self._relay(reader, writer)
        except (OSError, TimeoutError):
            pass  # what one side lost the other loses too
        finally:
            self._writers.discard(writer)
            writer.transport.abort()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(5.0):
            behind_reader, behind_writer = await asyncio.open_connection(HOST, self.target)
        self._writers.add(behind_writer)
        try:
            pumps = [
                asyncio.ensure_future(self._pump(reader, behind_writer)),
                asyncio.ensure_future(self._pump(behind_reader, writer)),
            ]
            try:
                await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
            finally:
                for pump in pumps:
                    pump.cancel()
                await asyncio.gather(*pumps, return_exceptions=True)
        finally:
            self._writers.discard(behind_writer)
            behind_writer.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while piece := await reader.read(PIECE):
            await self._open.wait()
            writer.write(piece)
            await writer.drain()

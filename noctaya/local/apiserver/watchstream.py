"""The HTTP side of a watch: initial events, then changes as they come, bookmarks, and a clean end at its time limit.

A watch ends when its time is up, when the client or the server goes, or with an ERROR line when the client is too slow for
its bounded buffer. Writing to a client that does not read has a deadline.
"""

from __future__ import annotations

import asyncio

from aiohttp import web

from noctaya.local.apiserver.status import ApiError
from noctaya.local.apiserver.storage import Watch
from noctaya.local.apiserver.watching import WatchView

WRITE_DEADLINE_SECONDS = 30.0
_CHUNK_BYTES = 64 * 1024


class WatchStream:
    """Writes one watch's lines to one response."""

    def __init__(
        self, response: web.StreamResponse, view: WatchView, watch: Watch, bookmark_seconds: float | None
    ) -> None:
        self._response = response
        self._view = view
        self._watch = watch
        self._bookmark_seconds = bookmark_seconds

    async def run(
        self, initial: list[bytes], revision: int, timeout_seconds: float, bookmark_initial: bool
    ) -> None:
        """Send `initial`, then follow until the time is up. `revision` is what the initial lines show."""
        if bookmark_initial:
            initial = [*initial, self._view.bookmark(revision, initial_events_end=True)]
        try:
            await self._send(initial)
            revision = await self._follow(revision, timeout_seconds)
            if self._bookmark_seconds is not None and not self._watch.closed:
                await self._send([self._view.bookmark(revision)])
        except ApiError as problem:
            await self._send([self._view.error(problem)])
        finally:
            self._watch.close()

    async def _follow(self, revision: int, timeout_seconds: float) -> int:
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout_seconds
        while not self._watch.closed and (left := end - loop.time()) > 0:
            wait = left if self._bookmark_seconds is None else min(left, self._bookmark_seconds)
            try:
                async with asyncio.timeout(wait):
                    changes = await self._watch.changes()
            except TimeoutError:
                # The buffer is empty now, so this watch has seen every write that there is.
                revision = self._watch.seen_revision()
                if self._bookmark_seconds is not None and end - loop.time() > 0:
                    await self._send([self._view.bookmark(revision)])
                continue
            lines = [line for change in changes if (line := self._view.event(change)) is not None]
            if changes:
                revision = changes[-1].revision
            await self._send(lines)
        return revision

    async def _send(self, lines: list[bytes]) -> None:
        """Write lines in pieces of bounded size, each within the deadline."""
        piece: list[bytes] = []
        size = 0
        for line in lines:
            piece.append(line)
            size += len(line)
            if size >= _CHUNK_BYTES:
                await self._write(b"".join(piece))
                piece, size = [], 0
        if piece:
            await self._write(b"".join(piece))

    async def _write(self, content: bytes) -> None:
        async with asyncio.timeout(WRITE_DEADLINE_SECONDS):
            await self._response.write(content)

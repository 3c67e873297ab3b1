"""aiohttp's connections to engines, with two of its holes closed. Nothing else knows of its insides.

- A connection on which something came unasked is not given out again: what an engine sent after its answer would be read as
  the answer to the next request, which is another client's. aiohttp looks only when a connection comes back.
- A body whose framing is garbled ends with an error. aiohttp closes the connection, stops its own timer, and tells the reader
  nothing, who then waits for ever.

The tests that would notice their end are in `tests/gateway/test_bad_engines.py`.
"""

import asyncio
import functools
from typing import Any

import aiohttp
from aiohttp.client_proto import ResponseHandler


class EngineConnector(aiohttp.TCPConnector):
    """Connections to all engines, without a limit: admission is the limit."""

    def __init__(self, **more: Any) -> None:
        super().__init__(limit=0, limit_per_host=0, **more)
        factory: Any = functools.partial(_Connection, loop=asyncio.get_running_loop())
        self._factory = factory

    async def _get(self, key: Any, traces: Any) -> Any:
        while (kept := await super()._get(key, traces)) is not None:
            if kept.protocol is not None and not kept.protocol.should_close:
                return kept
            kept.close()
        return None


class _Connection(ResponseHandler):
    def connection_lost(self, exc: BaseException | None) -> None:
        body = self._payload
        super().connection_lost(exc)
        if body is not None and not body.is_eof() and body.exception() is None:
            body.set_exception(aiohttp.ClientPayloadError("the connection ended before the body"))

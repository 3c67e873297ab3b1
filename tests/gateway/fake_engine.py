"""A scripted engine: an OpenAI-shaped server that counts every request and misbehaves as it is told."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web

WORDS = ("Good", " night", "!")


class FakeEngine:
    """`requests` are the bodies that arrived; `gone` counts clients that left before their answer ended."""

    def __init__(self) -> None:
        self.port = 0
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.gone = 0
        self.is_healthy = True
        self.probes = 0
        self.refuse_with: int | None = None
        """Answer every request with this status and an error object."""
        self.dies_after: int | None = None
        """Cut the connection after so many chunks of a stream (-1: before the head)."""
        self.pause = asyncio.Event()
        """Cleared: a stream stops after its first chunk, until it is set."""
        self.pause.set()
        self.think = asyncio.Event()
        """Cleared: no answer begins until it is set."""
        self.think.set()
        self._runner: web.AppRunner | None = None

    async def start(self, port: int = 0) -> None:
        app = web.Application(client_max_size=64 * 1024 * 1024)
        app.router.add_get("/health", self._health)
        app.router.add_post("/v1/{rest:.*}", self._complete)
        self._runner = web.AppRunner(
            app, access_log=None, handle_signals=False, shutdown_timeout=0.1, handler_cancellation=True
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port)
        await site.start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None

    async def _health(self, request: web.Request) -> web.Response:
        del request
        self.probes += 1
        return web.Response(status=200 if self.is_healthy else 503)

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        body = (
            json.loads(raw) if request.content_type == "application/json" else {"raw": raw.decode("latin-1")}
        )
        self.requests.append(body)
        self.headers.append({name.lower(): value for name, value in request.headers.items()})
        self.paths.append(request.raw_path)
        try:
            await self.think.wait()
            if self.dies_after == -1:
                self._cut(request)
            if self.refuse_with is not None:
                error = {"message": "too many tokens", "type": "BadRequestError", "param": None, "code": 400}
                return web.json_response({"error": error}, status=self.refuse_with)
            if not body.get("stream"):
                return web.json_response(answer(), headers={"x-engine": "fake"})
            return await self._stream(request)
        except (asyncio.CancelledError, ConnectionResetError):
            self.gone += 1
            raise

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream", "x-engine": "fake"})
        await response.prepare(request)
        for number, word in enumerate(WORDS):
            if number == self.dies_after:
                self._cut(request)
            await response.write(b"data: " + json.dumps(chunk(word)).encode() + b"\n\n")
            await self.pause.wait()
        await response.write(b"data: [DONE]\n\n")
        await response.write_eof()
        return response

    @staticmethod
    def _cut(request: web.Request) -> None:
        if request.transport is not None:
            request.transport.abort()
        raise ConnectionResetError("as the test wants it")


def answer() -> dict[str, Any]:
    message = {"role": "assistant", "content": "".join(WORDS)}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "tiny",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
    }


def chunk(word: str) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion.chunk",
        "created": 1,
        "model": "tiny",
        "choices": [{"index": 0, "delta": {"content": word}, "finish_reason": None}],
    }


@contextlib.asynccontextmanager
async def fake_engine() -> AsyncIterator[FakeEngine]:
    """A scripted engine that listens while the body runs."""
    engine = FakeEngine()
    await engine.start()
    try:
        yield engine
    finally:
        engine.pause.set()
        engine.think.set()
        await engine.stop()

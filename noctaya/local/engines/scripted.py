"""Plays a model server exactly as told: start-up delay, number of tokens, delay per token. For tests, here and on clusters.

    python -m noctaya.local.engines.scripted [--startup-delay 5s] [--token-count 5] [--token-delay 150ms] …

| path | what it does |
| --- | --- |
| `GET /health` | 503 until the start-up delay is over, then 200; 503 again after `POST /control {"healthy": false}` |
| `POST /v1/chat/completions`, `/v1/completions` | answers with "token0 token1 …"; streams when asked; `?tokens=N` overrides the number |
| `GET /v1/models` | the one model |
| `GET /metrics` | `vllm:` gauges that `/control` sets |
| `POST /control` | `waiting`, `running`, `kv_cache` (0..1), `healthy`, `cut_after` (break streams after N tokens; null: off), `finish` (streams end well with their next token) |
| `GET /stats` | completions `started`, `completed`, `aborted`, `running`, `authorized` (came with an Authorization header), and `seconds` since the start |

After SIGTERM it takes no new connection and ends when its running answers have, `--drain` later at the latest: at once by
default, as engines do that know no grace. Every flag can be an environment variable: `SCRIPTED_TOKEN_COUNT` for `--token-count`.
"""

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TextIO

from noctaya.api.durations import Duration
from noctaya.local.engines.http_server import Connection, Exchange

POD_IP_VARIABLE = "NOCTAYA_LOCAL_POD_IP"


@dataclass(slots=True)
class Script:
    """How to behave, and what happened."""

    model: str
    ready_at: float
    token_count: int
    token_delay_seconds: float
    started_at: float
    waiting: float = 0
    running_gauge: float | None = None
    kv_cache: float = 0
    is_healthy: bool = True
    cut_after: int | None = None
    is_finishing: bool = False
    started: int = 0
    completed: int = 0
    aborted: int = 0
    authorized: int = 0

    @property
    def running(self) -> int:
        """Completions in work."""
        return self.started - self.completed - self.aborted


class ScriptedEngine:
    """The handlers."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.idle = asyncio.Event()
        """No completion is in work."""
        self.idle.set()

    async def __call__(self, exchange: Exchange) -> None:
        """Answer one request."""
        routes = {
            "/health": ("GET", self._health),
            "/metrics": ("GET", self._metrics),
            "/stats": ("GET", self._stats),
            "/v1/models": ("GET", self._models),
            "/control": ("POST", self._control),
            "/v1/chat/completions": ("POST", self._complete),
            "/v1/completions": ("POST", self._complete),
        }
        if exchange.path not in routes:
            exchange.send_json(error(f"no such path: {exchange.path}"), 404)
            return
        method, handler = routes[exchange.path]
        if exchange.method not in {method, "HEAD" if method == "GET" else method}:
            exchange.send_json(error(f"use {method}"), 405, {"allow": method})
            return
        await handler(exchange)

    async def _health(self, exchange: Exchange) -> None:
        is_ready = self.script.is_healthy and time.monotonic() >= self.script.ready_at
        exchange.send_json({"status": "ok" if is_ready else "loading"}, 200 if is_ready else 503)

    async def _metrics(self, exchange: Exchange) -> None:
        script = self.script
        running = script.running if script.running_gauge is None else script.running_gauge
        lines = [
            f"vllm:num_requests_waiting {script.waiting}",
            f"vllm:num_requests_running {running}",
            f"vllm:kv_cache_usage_perc {script.kv_cache}",
        ]
        exchange.send("".join(f"{line}\n" for line in lines).encode(), "text/plain; version=0.0.4")

    async def _stats(self, exchange: Exchange) -> None:
        script = self.script
        exchange.send_json(
            {
                "started": script.started,
                "completed": script.completed,
                "aborted": script.aborted,
                "running": script.running,
                "authorized": script.authorized,
                "seconds": round(time.monotonic() - script.started_at, 3),
                "pid": os.getpid(),
            }
        )

    async def _models(self, exchange: Exchange) -> None:
        exchange.send_json({"object": "list", "data": [{"id": self.script.model, "object": "model"}]})

    async def _control(self, exchange: Exchange) -> None:
        wanted = parse_object(exchange.body)
        if wanted is None:
            exchange.send_json(error("the body is not a JSON object"), 400)
            return
        script = self.script
        script.waiting = wanted.get("waiting", script.waiting)
        script.running_gauge = wanted.get("running", script.running_gauge)
        script.kv_cache = min(1, max(0, wanted.get("kv_cache", script.kv_cache)))
        script.is_healthy = wanted.get("healthy", script.is_healthy)
        script.cut_after = wanted.get("cut_after", script.cut_after)
        script.is_finishing = wanted.get("finish", script.is_finishing)
        exchange.send_json({"ok": True})

    async def _complete(self, exchange: Exchange) -> None:
        request = parse_object(exchange.body)
        count = exchange.query.get("tokens", str(self.script.token_count))
        if request is None or not count.isdigit():
            exchange.send_json(
                error("the body is not a JSON object" if request is None else "tokens is not a number"), 400
            )
            return
        if time.monotonic() < self.script.ready_at:
            exchange.send_json(error("loading model"), 503)
            return
        self.script.started += 1
        self.idle.clear()
        self.script.authorized += "authorization" in exchange.headers
        is_done = False
        try:
            if request.get("stream"):
                is_done = await self._stream(exchange, request, int(count))
            else:
                await asyncio.sleep(int(count) * self.script.token_delay_seconds)
                exchange.send_json(self._whole(exchange.path, request, int(count)))
                is_done = True
        finally:
            if is_done:
                self.script.completed += 1
            else:
                self.script.aborted += 1
            if not self.script.running:
                self.idle.set()

    async def _stream(self, exchange: Exchange, request: dict[str, Any], count: int) -> bool:
        exchange.start_events()
        for number in range(count):
            if number == self.script.cut_after:
                exchange.cut()
                return False
            await asyncio.sleep(self.script.token_delay_seconds)
            is_last = number == count - 1 or self.script.is_finishing
            await exchange.send_event(json.dumps(self._chunk(exchange.path, request, number, is_last)))
            if is_last:
                break
        if (request.get("stream_options") or {}).get("include_usage"):
            usage = {**self._frame(exchange.path, request, ".chunk"), "choices": [], "usage": usage_of(count)}
            await exchange.send_event(json.dumps(usage))
        await exchange.send_event("[DONE]")
        exchange.end_events()
        return True

    def _frame(self, path: str, request: dict[str, Any], suffix: str = "") -> dict[str, Any]:
        kind = f"chat.completion{suffix}" if "chat" in path else "text_completion"
        model = request.get("model") or self.script.model
        return {"id": "scripted-completion", "object": kind, "created": int(time.time()), "model": model}

    def _chunk(self, path: str, request: dict[str, Any], number: int, is_last: bool) -> dict[str, Any]:
        text = f"token{number} "
        choice: dict[str, Any] = {"index": 0, "finish_reason": "stop" if is_last else None}
        if "chat" in path:
            choice["delta"] = {"role": "assistant", "content": text} if number == 0 else {"content": text}
        else:
            choice["text"] = text
        return {**self._frame(path, request, ".chunk"), "choices": [choice]}

    def _whole(self, path: str, request: dict[str, Any], count: int) -> dict[str, Any]:
        text = "".join(f"token{number} " for number in range(count))
        choice: dict[str, Any] = {"index": 0, "finish_reason": "stop"}
        if "chat" in path:
            choice["message"] = {"role": "assistant", "content": text}
        else:
            choice["text"] = text
        return {**self._frame(path, request), "choices": [choice], "usage": usage_of(count)}


def usage_of(count: int) -> dict[str, int]:
    """One prompt token and as many completion tokens as were played."""
    return {"prompt_tokens": 1, "completion_tokens": count, "total_tokens": count + 1}


def error(message: str) -> dict[str, Any]:
    """An OpenAI error object."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}


def parse_object(body: bytes) -> dict[str, Any] | None:
    """The JSON object in `body`, or None."""
    try:
        value = json.loads(body)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def parser() -> argparse.ArgumentParser:
    """The command line."""
    arguments = argparse.ArgumentParser(
        prog="noctaya.local.engines.scripted", description="Play a model server."
    )

    def add(flag: str, default: str, help_text: str) -> None:
        variable = "SCRIPTED_" + flag.removeprefix("--").replace("-", "_").upper()
        arguments.add_argument(
            flag, default=os.environ.get(variable, default), help=f"{help_text} (default: {default})"
        )

    add("--host", os.environ.get(POD_IP_VARIABLE, "0.0.0.0"), "address to listen on")
    add("--port", "8000", "port to listen on")
    add("--model", "scripted", "model name in answers")
    add("--startup-delay", "0s", "until /health is good")
    add("--token-count", "1", "tokens of an answer")
    add("--token-delay", "50ms", "before each token")
    add("--drain", "0s", "how long running answers may go on after SIGTERM")
    return arguments


async def serve(options: argparse.Namespace) -> None:
    """Until SIGTERM or SIGINT."""
    loop = asyncio.get_running_loop()
    now = time.monotonic()
    drain_seconds = Duration.parse(options.drain).seconds
    script = Script(
        model=options.model,
        ready_at=now + Duration.parse(options.startup_delay).seconds,
        token_count=int(options.token_count),
        token_delay_seconds=Duration.parse(options.token_delay).seconds,
        started_at=now,
    )
    engine = ScriptedEngine(script)
    server = await loop.create_server(lambda: Connection(engine), options.host, int(options.port))
    ended = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, ended.set)
    host, port = server.sockets[0].getsockname()[:2]
    say(f"listening on http://{host}:{port}")
    await ended.wait()
    server.close()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(drain_seconds):
            await engine.idle.wait()


def say(text: str, stream: TextIO = sys.stdout) -> None:
    """A line for whoever reads the container's log."""
    stream.write(f"{text}\n")
    stream.flush()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the engine; exit 2 for a mistake in the arguments, 1 when the port is taken."""
    options = parser().parse_args(argv)
    try:
        asyncio.run(serve(options))
    except ValueError as problem:
        say(f"scripted: {problem}", sys.stderr)
        return 2
    except OSError as problem:
        say(f"scripted: cannot listen on {options.host}:{options.port}: {problem.strerror}", sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())

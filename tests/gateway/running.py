"""A whole gateway in this process and loop, on free ports, for component tests."""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable
from typing import Any

import aiohttp
import openai

from noctaya.gateway.main import Started, serve
from noctaya.gateway.settings import AdminSettings, DrainSettings, GatewaySettings, HttpSettings, LinkSettings

CHAT: list[Any] = [{"role": "user", "content": "hello"}]


class RunningGateway:
    """Where a running gateway is, and how to end it."""

    def __init__(self, started: Started, stop: asyncio.Event, hurry: asyncio.Event) -> None:
        self.stop, self.hurry = stop, hurry
        self.url = f"http://127.0.0.1:{started.http_port}"
        self.admin_url = f"http://127.0.0.1:{started.admin_port}"
        self.port = started.http_port
        self.task: asyncio.Task[None] | None = None

    def openai(self, path: str = "/v1", key: str = "unused") -> openai.AsyncOpenAI:
        """The real client; it does not retry, so that a test sees what happened."""
        # Without a store of certificates, which takes a tenth of a second to load.
        transport = openai.DefaultAsyncHttpxClient(verify=False)
        return openai.AsyncOpenAI(
            base_url=self.url + path, api_key=key, max_retries=0, timeout=20.0, http_client=transport
        )

    async def admin(self, path: str) -> tuple[int, Any]:
        """GET on the admin port: status, and the body as JSON or text."""
        async with aiohttp.ClientSession() as session, session.get(self.admin_url + path) as response:
            is_json = response.content_type == "application/json"
            return response.status, await (response.json() if is_json else response.text())

    async def queue(self, key: str) -> dict[str, Any]:
        """What the gateway says of one service on its admin port; empty when nothing is asked of it."""
        _, told = await self.admin("/debug/queue")
        found: dict[str, Any] = told["services"].get(key, {})
        return found

    def post(self, session: aiohttp.ClientSession, **more: Any) -> Any:
        """A raw streaming chat request, to see every byte."""
        body = {"model": "ai/tiny", "messages": CHAT, "stream": True} | more.pop("body", {})
        return session.post(self.url + "/v1/chat/completions", json=body, **more)

    async def until_ready(self) -> None:
        await until_async(self._is_ready)

    async def _is_ready(self) -> bool:
        return (await self.admin("/readyz"))[0] == 200


def settings(*workers: str, **groups: Any) -> GatewaySettings:
    """Free ports on the loopback, quick timers."""
    chosen: dict[str, Any] = {
        "http": HttpSettings(host="127.0.0.1", port=0),
        "admin": AdminSettings(host="127.0.0.1", port=0),
        "link": LinkSettings(
            workers=workers,
            full_report_seconds=0.5,
            settle_seconds=0.05,
            reconnect_min_seconds=0.02,
            wake_ack_seconds=0.1,
        ),
        "drain": DrainSettings(propagation_seconds=0.0, limit_seconds=1.0),
    }
    return GatewaySettings(**(chosen | groups))


@contextlib.asynccontextmanager
async def gateway(*workers: str, ready: bool = True, **groups: Any) -> AsyncIterator[RunningGateway]:
    """A gateway that runs while the body runs, then ends in a hurry; its end must be clean."""
    started, stop, hurry = Started(), asyncio.Event(), asyncio.Event()
    task = asyncio.create_task(serve(settings(*workers, **groups), started=started, stop=stop, hurry=hurry))
    waiting = asyncio.create_task(started.wait())
    await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
    waiting.cancel()
    if task.done():
        task.result()
    running = RunningGateway(started, stop, hurry)
    running.task = task
    try:
        if ready:
            await running.until_ready()
        yield running
    finally:
        stop.set()
        hurry.set()
        async with asyncio.timeout(10):
            await task


async def until(claim: Callable[[], bool], seconds: float = 5.0) -> None:
    """Wait for a condition, a tick at a time."""
    end = time.monotonic() + seconds
    while not claim():
        if time.monotonic() > end:
            raise TimeoutError("the condition did not come true")
        await asyncio.sleep(0.005)


async def until_async(claim: Any, seconds: float = 5.0) -> None:
    """The same for a condition that must be asked for."""
    end = time.monotonic() + seconds
    while not await claim():
        if time.monotonic() > end:
            raise TimeoutError("the condition did not come true")
        await asyncio.sleep(0.005)


async def words(client: openai.AsyncOpenAI, model: str, **more: Any) -> str:
    """Ask for a stream with the real client and put its pieces together."""
    stream = await client.chat.completions.create(model=model, messages=CHAT, stream=True, **more)
    return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])


async def until_cut(response: aiohttp.ClientResponse) -> bytes:
    """Everything that came before the connection was cut; fails when the answer ended as if it were whole."""
    received = b""
    try:
        async for piece in response.content.iter_any():
            received += piece
    except aiohttp.ClientPayloadError:
        return received
    raise AssertionError(f"the answer looks whole: {received!r}")

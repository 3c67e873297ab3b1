"""The load: clients that ask one request after the other, and a record of every request.

A warm client keeps a model busy; a cold client asks a model, lets it fall asleep and asks again. Every request has a
connection of its own and an end: `LONGEST_SECONDS` after its start it counts as broken. Every client is bounded in count.
How it fails: never by itself; what goes wrong stands in the records.
"""

import asyncio
import json
import time
from collections.abc import Callable

import httpx2

from tests.acceptance.failures.outcomes import Ending, Request

LONGEST_SECONDS = 400.0
CONNECT_SECONDS = 5.0
MOST_REQUESTS = 2_000
"""Of one client: far more than any test makes."""
CALM_SECONDS = 0.05
"""Between two requests of a warm client: what fails at once must not become a flood."""
LOOK_SECONDS = 0.2


class Traffic:
    """Makes requests and records them. `bases` gives the addresses by the names that records carry."""

    def __init__(self, bases: dict[str, str], record: list[Request]) -> None:
        self.bases = bases
        self.record = record
        self.is_over = asyncio.Event()
        """Set: clients finish the request that they are at, and end."""
        self._client = httpx2.AsyncClient(
            trust_env=False,
            timeout=httpx2.Timeout(LONGEST_SECONDS, connect=CONNECT_SECONDS),
            limits=httpx2.Limits(max_keepalive_connections=0),
        )

    async def close(self) -> None:
        """Close what connections are left."""
        await self._client.aclose()

    def begin(self, model: str, *, via: str = "fleet", is_stream: bool = True) -> Request:
        """A record of a request that begins now."""
        request = Request(model=model, via=via, is_stream=is_stream, began=time.monotonic())
        self.record.append(request)
        return request

    async def ask(
        self, model: str, *, via: str = "fleet", is_stream: bool = True, tokens: int | None = None
    ) -> Request:
        """One request, from its start to its end; `tokens` overrides the runtime's number."""
        request = self.begin(model, via=via, is_stream=is_stream)
        await self.carry(request, tokens=tokens)
        return request

    async def carry(self, request: Request, *, tokens: int | None = None) -> None:
        """Carry a request through that was begun; its record says how it ended."""
        try:
            async with asyncio.timeout(LONGEST_SECONDS):
                await self._exchange(request, tokens)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as nobody:
            request.ending, request.detail = Ending.UNREACHED, repr(nobody)
        except (httpx2.HTTPError, TimeoutError, ValueError) as problem:
            request.ending, request.detail = Ending.BROKEN, repr(problem)
        finally:
            if request.ending is not Ending.OPEN:
                request.ended = time.monotonic()

    async def keep_busy(self, model: str, *, via: str = "fleet", is_stream: bool = True) -> None:
        """A warm client: one request after the other, until the load is to end."""
        for _ in range(MOST_REQUESTS):
            if self.is_over.is_set():
                return
            await self.ask(model, via=via, is_stream=is_stream)
            await self._pause(CALM_SECONDS)

    async def keep_waking(self, model: str, is_asleep: Callable[[], bool], *, via: str = "fleet") -> None:
        """A cold client: ask, wait until the model sleeps, ask again, until the load is to end."""
        for number in range(MOST_REQUESTS):
            await self.ask(model, via=via, is_stream=number % 2 == 0)
            await self._pause(LOOK_SECONDS)
            while not is_asleep() and not self.is_over.is_set():
                await self._pause(LOOK_SECONDS)
            if self.is_over.is_set():
                return

    async def _pause(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self.is_over.wait()
        except TimeoutError:
            return

    async def _exchange(self, request: Request, tokens: int | None) -> None:
        namespace, _, name = request.model.partition("/")
        body = {"stream": request.is_stream, "messages": [{"role": "user", "content": "hi"}]}
        parameters = {} if tokens is None else {"tokens": str(tokens)}
        async with self._client.stream(
            "POST",
            f"{self.bases[request.via]}/{namespace}/{name}/v1/chat/completions",
            json=body,
            params=parameters,
        ) as answer:
            request.status = answer.status_code
            if answer.status_code != 200:
                request.detail = (await answer.aread()).decode(errors="replace")[:300]
                request.ending = Ending.REFUSED
            elif request.is_stream:
                await _read_events(answer, request)
            else:
                content = await answer.aread()
                request.first_byte = time.monotonic()
                request.tokens = len(json.loads(content)["choices"][0]["message"]["content"].split())
                request.ending = Ending.ANSWERED


async def _read_events(answer: httpx2.Response, request: Request) -> None:
    is_done = False
    async for line in answer.aiter_lines():
        if not line.startswith("data: "):
            continue
        request.first_byte = request.first_byte or time.monotonic()
        data = line.removeprefix("data: ")
        is_done = data == "[DONE]"
        if is_done:
            continue
        event = json.loads(data)
        if "error" in event:
            request.detail = data[:300]
            break
        request.tokens += 1
    request.ending = Ending.ANSWERED if is_done else Ending.BROKEN
    request.detail = request.detail or ("" if is_done else "the stream ended without [DONE]")

"""Clients of the gateways: the real OpenAI SDK, and bare requests where status, headers and every frame matter.

They go to a pod's or a Service's address inside the cluster's network (fixture `network`), with no proxy and no retry: a
lost request has to be seen. How they fail: as their library does; a bare request notes how it broke off.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import httpx2
import openai

ANSWER_SECONDS = 180.0
CONNECT_SECONDS = 10.0
MESSAGES: list[Any] = [{"role": "user", "content": "Hello"}]


@asynccontextmanager
async def openai_client(
    base_url: str, *, key: str = "unused", host: str | None = None, seconds: float = ANSWER_SECONDS
) -> AsyncIterator[openai.AsyncOpenAI]:
    """The SDK. `base_url` is a gateway's, without `/v1`; `host` plays a client that came by a model's own name."""
    timeout = httpx2.Timeout(seconds, connect=CONNECT_SECONDS)
    async with openai.AsyncOpenAI(
        base_url=f"{base_url}/v1",
        api_key=key,
        max_retries=0,
        default_headers={"host": host} if host else None,
        http_client=openai.DefaultAsyncHttpxClient(trust_env=False, timeout=timeout),
    ) as client:
        yield client


async def chat(
    client: openai.AsyncOpenAI, model: str, *, tokens: int | None = None, text: str = "Hello"
) -> str:
    """Stream one answer to its end and give its text. `tokens` is for the scripted engine: how many it shall play."""
    stream = await client.chat.completions.create(
        model=model,
        stream=True,
        messages=[{"role": "user", "content": text}],
        extra_query=None if tokens is None else {"tokens": str(tokens)},
    )
    said, ending = [], None
    async for chunk in stream:
        for choice in chunk.choices:
            said.append(choice.delta.content or "")
            ending = choice.finish_reason or ending
    assert ending in {"stop", "length"}, (
        f"the stream of {model} ended without a finish reason: {''.join(said)!r}"
    )
    return "".join(said)


def played(tokens: int) -> str:
    """What the scripted engine says in so many tokens."""
    return "".join(f"token{number} " for number in range(tokens))


@dataclass(slots=True, repr=False)
class Asked:
    """One bare request and all that came back, while it comes."""

    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    """Of an answer that is no stream of events."""
    frames: list[str] = field(default_factory=list)
    """What stood behind `data: `."""
    comments: list[str] = field(default_factory=list)
    """Heartbeats and the like."""
    broken: Exception | None = None
    """How it broke off, if it did."""
    began_at: float = 0.0
    first_frame_at: float | None = None
    ended_at: float | None = None
    _moved: asyncio.Condition = field(default_factory=asyncio.Condition)

    def __repr__(self) -> str:
        """Short, since pytest shortens what is long and leaves out what matters."""
        seconds = (self.ended_at or time.monotonic()) - self.began_at
        state = "ended" if self.ended_at else "open"
        body = f", body {self.body[:200]!r}" if self.body else ""
        return (
            f"<{self.status}, {state} after {seconds:.1f} s, {len(self.frames)} frames, last {self.frames[-1:]}, "
            f"{len(self.comments)} comments{body}, broken: {self.broken!r}>"
        )

    @property
    def is_whole(self) -> bool:
        """A stream that came to its end as the engine meant it."""
        return self.status == 200 and self.broken is None and self.frames[-1:] == ["[DONE]"]

    @property
    def text(self) -> str:
        """What the engine said, in either form."""
        if not self.frames:
            return str(self.json()["choices"][0]["message"]["content"])
        chunks = [json.loads(frame) for frame in self.frames if frame != "[DONE]"]
        return "".join(choice["delta"].get("content", "") for chunk in chunks for choice in chunk["choices"])

    def json(self) -> Any:
        """The body of an answer that is no stream."""
        return json.loads(self.body)

    @property
    def error_code(self) -> str | None:
        """`error.code` of a refusal."""
        code: str | None = self.json().get("error", {}).get("code")
        return code

    async def has_begun(self, seconds: float) -> None:
        """Return when the first frame with an answer is there; fail when the request ends before."""
        await self._until(lambda: self.first_frame_at is not None or self.ended_at is not None, seconds)
        assert self.first_frame_at is not None, f"ended before its first frame: {self}"

    async def has_ended(self, seconds: float) -> "Asked":
        """Return when everything has come."""
        await self._until(lambda: self.ended_at is not None, seconds)
        return self

    async def _until(self, claim: Any, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds), self._moved:
                await self._moved.wait_for(claim)
        except TimeoutError:
            raise AssertionError(f"no further within {seconds:g} s: {self}") from None

    async def run(self, client: httpx2.AsyncClient, method: str, url: str, arguments: dict[str, Any]) -> None:
        """Send the request and read the answer to its end."""
        self.began_at = time.monotonic()
        try:
            async with client.stream(method, url, **arguments) as answer:
                self.status, self.headers = answer.status_code, answer.headers
                if answer.headers.get("content-type", "").startswith("text/event-stream"):
                    async for line in answer.aiter_lines():
                        await self._line(line)
                else:
                    self.body = await answer.aread()
        except httpx2.HTTPError as problem:
            self.broken = problem
        finally:
            self.ended_at = time.monotonic()
            async with self._moved:
                self._moved.notify_all()

    async def _line(self, line: str) -> None:
        if line.startswith(":"):
            self.comments.append(line.removeprefix(":").strip())
        elif line.startswith("data:"):
            self.frames.append(line.removeprefix("data:").strip())
            if self.first_frame_at is None:
                self.first_frame_at = time.monotonic()
                async with self._moved:
                    self._moved.notify_all()


@asynccontextmanager
async def asked(
    base_url: str,
    model: str,
    *,
    stream: bool = True,
    tokens: int | None = None,
    key: str | None = None,
    host: str | None = None,
    seconds: float = ANSWER_SECONDS,
    method: str = "POST",
    path: str = "/v1/chat/completions",
    headers: Mapping[str, str] | None = None,
    body: Mapping[str, Any] | None = None,
) -> AsyncIterator[Asked]:
    """Ask in the background of the body, which ends when the answer has come to its end."""
    sent = {**(headers or {}), **({"host": host} if host else {})}
    if key is not None:
        sent["authorization"] = f"Bearer {key}"
    arguments: dict[str, Any] = {"headers": sent, "params": {} if tokens is None else {"tokens": str(tokens)}}
    if method == "POST":
        arguments["json"] = {"model": model, "stream": stream, "messages": MESSAGES, **(body or {})}
    timeout = httpx2.Timeout(seconds, connect=CONNECT_SECONDS)
    async with httpx2.AsyncClient(timeout=timeout, trust_env=False) as client:
        request = Asked()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(request.run(client, method, base_url + path, arguments))
                yield request
        except BaseExceptionGroup as group:
            if len(group.exceptions) > 1:
                raise
            raise group.exceptions[0] from None  # the body's own failure, as if there were no group


async def ask(base_url: str, model: str, **arguments: Any) -> Asked:
    """Ask and wait for the whole answer; takes what `asked` takes."""
    async with asked(base_url, model, **arguments) as request:
        pass
    return request

"""Holding a request until its model is there: nothing is sent before the first heartbeat is due, so that a quick wake keeps
its real status and headers; after that the answer is a 200 event stream and every failure an event, followed by a cut.

Heartbeats, by the service's mode: `comment` (`: heartbeat`), `chunk` (an empty chunk that every SDK takes), `progress` (a
comment with phase and elapsed time), `off`. Requests that are no streams are held in silence.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import msgspec

from noctaya.gateway.headers import Headers
from noctaya.gateway.reply import EVENT_STREAM, Reply
from noctaya.gateway.service import Service
from noctaya.gateway.trace import Trace
from noctaya.wire import control

T = TypeVar("T")

COMMENT = b": heartbeat\n\n"
STREAM_HEADERS: Headers = [
    ("content-type", EVENT_STREAM),
    ("cache-control", "no-cache"),
    ("x-accel-buffering", "no"),
]
"""The last one tells nginx not to gather what must arrive now."""

CHAT_PATH = "/v1/chat/completions"
COMPLETIONS_PATH = "/v1/completions"


def empty_chunk(path: str, model: str, request_id: str) -> bytes:
    """An event that says nothing, in the format of this path; a comment where the format is not known."""
    choice: dict[str, Any] = {"index": 0, "finish_reason": None}
    if path == CHAT_PATH:
        kind, choice["delta"] = "chat.completion.chunk", {}
    elif path == COMPLETIONS_PATH:
        kind, choice["text"] = "text_completion", ""
    else:
        return COMMENT
    chunk = {"id": request_id, "object": kind, "created": 0, "model": model, "choices": [choice]}
    return b"data: " + msgspec.json.encode(chunk) + b"\n\n"


def progress(phase: str, elapsed_seconds: float) -> bytes:
    """A comment for people who watch the stream."""
    return (
        b": progress "
        + msgspec.json.encode({"phase": phase, "elapsed_ms": round(elapsed_seconds * 1000)})
        + b"\n\n"
    )


class Heartbeat:
    """The heartbeats of one held stream. The first is due one interval after the request's arrival."""

    def __init__(
        self,
        reply: Reply,
        service: Service,
        trace: Trace,
        clock: Callable[[], float],
        *,
        path: str,
        model: str,
        request_id: str,
        phase: Callable[[], str],
    ) -> None:
        self._reply, self._service, self._trace, self._clock = reply, service, trace, clock
        self._path, self._model, self._request_id, self._phase = path, model, request_id, phase
        self.due = trace.start + service.heartbeat_seconds

    async def beat_if_due(self) -> None:
        """Send one heartbeat if its time has come, and the head before the first one."""
        now = self._clock()
        if now < self.due:
            return
        # From the time when it was due, not from now: late beats must not add up.
        missed = int((now - self.due) // self._service.heartbeat_seconds)
        self.due += (missed + 1) * self._service.heartbeat_seconds
        if not self._reply.is_committed:
            await self._reply.start(200, [*STREAM_HEADERS, ("x-request-id", self._request_id)])
        if self._reply.is_writable:
            await self._reply.write(self._beat())

    async def beside(self, work: Coroutine[Any, Any, T], discard: Callable[[T], None] = lambda _: None) -> T:
        """Do `work`, sending heartbeats as they are due; cancelled together with us. A result that came in the very moment in
        which we are cancelled goes to `discard`."""
        task = asyncio.ensure_future(work)
        try:
            while True:
                done, _ = await asyncio.wait({task}, timeout=max(0.0, self.due - self._clock()))
                if done:
                    break
                await self.beat_if_due()
        except BaseException:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            if not task.cancelled() and task.exception() is None:
                discard(task.result())
            raise
        return task.result()

    def _beat(self) -> bytes:
        mode = self._service.heartbeat_mode
        if mode == control.CHUNK:
            return empty_chunk(self._path, self._model, self._request_id)
        if mode == control.PROGRESS:
            return progress(self._phase(), self._trace.elapsed)
        return COMMENT

"""One link to one worker: a bidirectional stream, one reader, one writer.

The writer takes from an outbox in which only the latest matters: at most one answer per shard, one wake per service, one
report. So it is bounded by what exists, and a slow worker costs memory for nothing else. A call that ends in any way is
cancelled: grpc.aio never collects an abandoned one (grpc/grpc#43462).
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import grpc

from noctaya.gateway.errors import LinkBroken
from noctaya.gateway.settings import LinkSettings
from noctaya.telemetry import context
from noctaya.wire import control, control_grpc
from noctaya.wire.errors import MaterialMissing
from noctaya.wire.mutual_tls import ChannelMaker, open_plaintext

log = logging.getLogger(__name__)

Call = Any
"""grpc.aio's stream call; its type stubs do not carry our messages."""


@dataclass(slots=True)
class Outbox:
    """What waits to be written on one link, in order of recency: what is put again moves to the end.

    The order matters: a report that was built before a wake must not be written after it, since what it leaves out counts
    as zero. Nor may it outrank one that goes over another link: both get their place in the sequence here, when they are put.
    """

    next_sequence: Callable[[], int]
    """Rises with every call, over all links of this gateway."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    says_bye: bool = False
    _entries: "dict[object, control.GatewayMessage]" = field(default_factory=dict)

    def put_wake(self, wake: "control.Wake", key: str) -> None:
        """A wake; a newer one of the same service replaces it."""
        wake.sequence = self.next_sequence()
        self._put(("wake", key), control.GatewayMessage(wake=wake))

    def put_answer(self, shard: int, message: "control.GatewayMessage") -> None:
        """An Ack or Nack; a newer one of the same shard replaces it."""
        self._put(("answer", shard), message)

    def put_report(self, services: "list[control.ServiceDemand]") -> None:
        """The demand of now; it replaces one that was not written yet."""
        report = control.DemandReport(services=services, sequence=self.next_sequence())
        self._put("report", control.GatewayMessage(demand=report))

    def put_bye(self) -> None:
        """The last word: after everything else."""
        self.says_bye = True
        self.changed.set()

    def take(self) -> "control.GatewayMessage | None":
        """The next message to write; None when there is none."""
        if not self._entries:
            return None
        return self._entries.pop(next(iter(self._entries)))

    def _put(self, slot: object, message: "control.GatewayMessage") -> None:
        self._entries.pop(slot, None)
        self._entries[slot] = message
        self.changed.set()


class Listener(Protocol):
    """Who decides what a worker's messages mean."""

    def welcomed(self, address: str, welcome: "control.Welcome", outbox: Outbox) -> None: ...
    def told(self, address: str, message: "control.WorkerMessage", outbox: Outbox) -> None: ...
    def closed(self, address: str) -> None: ...
    def hello(self) -> "control.Hello": ...
    def next_sequence(self) -> int: ...
    def reported(self) -> None: ...


class Link:
    """A link that is dialled once; `run` returns when it is over and says nothing about why but in the log."""

    def __init__(
        self,
        address: str,
        settings: LinkSettings,
        listener: Listener,
        open_channel: ChannelMaker = open_plaintext,
    ) -> None:
        self.address, self._settings, self._listener = address, settings, listener
        self._open_channel = open_channel
        self.outbox = Outbox(listener.next_sequence)
        self.was_welcomed = False

    async def run(self) -> None:
        """Dial, introduce, then read and write until the stream ends."""
        try:
            dialled = self._open_channel(self.address)
        except MaterialMissing as error:
            log.debug("not dialled", extra=context(worker=self.address, reason=error))
            return
        async with dialled as channel:
            stub: Any = control_grpc.ControlStub(channel)
            call: Call = stub.Link()
            try:
                await self._introduce(call)
                await self._talk(call)
            except (grpc.aio.AioRpcError, TimeoutError, LinkBroken) as error:
                level = logging.WARNING if self.was_welcomed else logging.DEBUG
                log.log(level, "link ended", extra=context(worker=self.address, reason=_say(error)))
            except asyncio.InvalidStateError as error:  # grpc.aio: a write on a call that has just ended
                log.warning("link ended", extra=context(worker=self.address, reason=_say(error)))
            finally:
                call.cancel()
                if self.was_welcomed:
                    self._listener.closed(self.address)

    async def _introduce(self, call: Call) -> None:
        async with asyncio.timeout(self._settings.welcome_seconds):
            await call.write(control.GatewayMessage(hello=self._listener.hello()))
            first = await call.read()
        if not isinstance(first, control.WorkerMessage) or first.WhichOneof("kind") != "welcome":
            raise LinkBroken(
                f"{self.address} did not say Welcome first; is it a Noctaya worker's control port?"
            )
        self.was_welcomed = True
        log.info("linked", extra=context(worker=first.welcome.worker, address=self.address))
        self._listener.welcomed(self.address, first.welcome, self.outbox)

    async def _talk(self, call: Call) -> None:
        reader = asyncio.create_task(self._read(call), name=f"link reader {self.address}")
        writer = asyncio.create_task(self._write(call), name=f"link writer {self.address}")
        try:
            done, _ = await asyncio.wait({reader, writer}, return_when=asyncio.FIRST_COMPLETED)
            if writer in done and reader not in done and writer.exception() is None:
                async with asyncio.timeout(self._settings.bye_seconds):
                    await reader  # the worker has read Bye when it ends the stream
            for task in done:
                task.result()
        finally:
            for task in (reader, writer):
                task.cancel()
            await asyncio.gather(reader, writer, return_exceptions=True)

    async def _read(self, call: Call) -> None:
        while True:
            message = await call.read()  # no deadline: silence is normal, keepalive pings find a dead peer
            if message is grpc.aio.EOF:
                return
            if not isinstance(
                message, control.WorkerMessage
            ):  # grpc.aio gives None for bytes that are no message
                raise LinkBroken(f"{self.address} sent bytes that are no message of ours")
            self._listener.told(self.address, message, self.outbox)

    async def _write(self, call: Call) -> None:
        outbox = self.outbox
        while True:
            await outbox.changed.wait()
            outbox.changed.clear()
            while (message := outbox.take()) is not None:
                await self._put(call, message)
                if message.HasField("demand"):
                    self._listener.reported()
            if outbox.says_bye and not outbox.changed.is_set():
                await self._put(call, control.GatewayMessage(bye=control.Bye()))
                await call.done_writing()
                return

    async def _put(self, call: Call, message: "control.GatewayMessage") -> None:
        async with asyncio.timeout(self._settings.write_seconds):
            await call.write(message)


def _say(error: BaseException) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        return f"{error.code().name}: {error.details()}"
    return str(error) or type(error).__name__

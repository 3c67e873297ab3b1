"""The workers' side of the control link (`control.proto`): routes down, demand up, one stream a gateway process and worker.

One reader and one writer a stream. Every write has a deadline; a gateway that does not read is cut off and comes back with
what it holds. A stream that ends without `Bye` keeps its gateway's demand in the sum. Nothing of a shard is sent unless we
may act for it, or have sent exactly that before (GROW).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio

from noctaya.api.names import HASH_NAME, SHARD_COUNT
from noctaya.telemetry import context as values
from noctaya.wire import control, control_grpc
from noctaya.workers.audit import OFF, Audit
from noctaya.workers.intake import Authority, Intake
from noctaya.workers.permission import Permission
from noctaya.workers.route_book import RouteBook
from noctaya.workers.session import Session

log = logging.getLogger(__name__)

Context = grpc.aio.ServicerContext[Any, Any]
Messages = AsyncIterator[control.GatewayMessage]

HELLO_SECONDS = 5.0
WRITE_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class FleetFacts:
    """What every Welcome says."""

    worker: str
    key_digest_secret: bytes
    open_namespaces: tuple[str, ...]

    def __repr__(self) -> str:
        return f"FleetFacts(worker={self.worker!r})"  # never the secret


class ControlLink(control_grpc.ControlServicer):
    """Serves every gateway of the fleet. `is_ready()`: the route book is whole."""

    def __init__(
        self,
        facts: FleetFacts,
        book: RouteBook,
        intake: Intake,
        authority: Authority,
        *,
        is_ready: Callable[[], bool],
        audit: Audit = OFF,
    ) -> None:
        self._audit = audit
        self._facts = facts
        self._book = book
        self._intake = intake
        self._authority = authority
        self._is_ready = is_ready
        self._workers: tuple[tuple[str, str], ...] = ()
        self._sessions: dict[int, Session] = {}
        self._serial = 0
        self._published: dict[int, tuple[int, int]] = {}
        self.nacks: dict[str, int] = {}
        self._closed = asyncio.Event()

    @property
    def sessions(self) -> Iterable[Session]:
        """Every open link; read only."""
        return self._sessions.values()

    def routes_changed(self, shards: Iterable[int]) -> None:
        """The book has a newer version of these shards."""
        shards = list(shards)
        for session in self._sessions.values():
            session.mark(shards)

    def ownership_changed(self) -> None:
        """What we may do has changed: look at every shard again."""
        self.routes_changed(range(SHARD_COUNT))

    def workers_changed(self, workers: tuple[tuple[str, str], ...]) -> None:
        """(name, host:port) of every worker, where known; empty: gateways go on with their first contacts."""
        self._workers = workers
        for session in self._sessions.values():
            session.tell_workers()

    def refounded(self) -> None:
        """The fleet has another id: every gateway has to come anew."""
        self._published.clear()
        for session in self._sessions.values():
            session.drain()

    async def drain(self, patience_seconds: float) -> None:
        """Say Drain on every link, and give gateways a moment to hang up."""
        for session in self._sessions.values():
            session.drain()
        if self._sessions:
            self._closed.clear()
            try:
                async with asyncio.timeout(patience_seconds):
                    await self._closed.wait()
            except TimeoutError:
                return

    # -- the RPC -----------------------------------------------------------------------------------------------------

    async def Link(self, request_iterator: Messages, context: Context) -> None:  # noqa: N802
        """One gateway process, for as long as it stays."""
        session = await self._greet(request_iterator, context)
        self._sessions[session.number] = session
        self._intake.hello(session.pod, session.boot_id, session.number)
        pod = "/".join(session.pod)
        log.info("gateway linked", extra=values(gateway=pod, boot=session.boot_id))
        reader = asyncio.create_task(self._read(session, request_iterator), name=f"link reader {pod}")
        writer = asyncio.create_task(self._write(session, context), name=f"link writer {pod}")
        try:
            done, _ = await asyncio.wait({reader, writer}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        except (TimeoutError, grpc.aio.UsageError, asyncio.InvalidStateError) as error:
            log.warning(
                "gateway does not read, cutting it off", extra=values(gateway=pod, reason=repr(error))
            )
        finally:
            for task in (reader, writer):
                task.cancel()
            await asyncio.gather(reader, writer, return_exceptions=True)
            del self._sessions[session.number]
            self._intake.closed(session.pod, session.boot_id, session.number)
            log.info("gateway unlinked", extra=values(gateway=pod, boot=session.boot_id))
            if not self._sessions:
                self._closed.set()

    async def _greet(self, messages: Messages, context: Context) -> Session:
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                first = await anext(messages, None)
        except TimeoutError:
            first = None
        if first is None or first.WhichOneof("kind") != "hello" or not first.hello.boot_id:
            await context.abort(
                grpc.StatusCode.INVALID_ARGUMENT, "the first message must be Hello with pod and boot_id"
            )
        hello, facts = first.hello, self._facts
        self._serial += 1
        session = Session(self._serial, (hello.namespace, hello.pod), hello.boot_id)
        if hello.fleet == self._authority.fleet:
            session.sent = {held.shard: (held.epoch, held.version) for held in hello.known}
        async with asyncio.timeout(WRITE_SECONDS):
            await context.write(
                control.WorkerMessage(
                    welcome=control.Welcome(
                        fleet=self._authority.fleet,
                        worker=facts.worker,
                        shard_count=SHARD_COUNT,
                        hash=HASH_NAME,
                        key_digest_secret=facts.key_digest_secret,
                        policy=control.FleetPolicy(open_namespaces=facts.open_namespaces),
                    )
                )
            )
        if self._workers:
            session.tell_workers()
        session.mark(range(SHARD_COUNT))
        return session

    # -- up ----------------------------------------------------------------------------------------------------------

    async def _read(self, session: Session, messages: Messages) -> None:
        async for message in messages:  # no deadline: silence is normal, keepalive pings find a dead peer
            match message.WhichOneof("kind"):
                case "demand":
                    self._intake.report(session.pod, session.boot_id, message.demand)
                case "wake":
                    is_owner = self._intake.wake(session.pod, session.boot_id, message.wake)
                    session.acknowledge(message.wake.wake_id, is_owner=is_owner)
                case "ack" if message.ack.shard < SHARD_COUNT:
                    session.acknowledged[message.ack.shard] = (message.ack.epoch, message.ack.version)
                case "nack":
                    self._refused(session, message.nack)
                case "bye":
                    self._intake.bye(session.pod, session.boot_id)
                    return
                case _:
                    log.debug("message that says nothing to us", extra=values(gateway=session.pod))

    def _refused(self, session: Session, nack: control.Nack) -> None:
        reason = (
            control.Nack.Reason.Name(nack.reason)
            if nack.reason in control.Nack.Reason.values()
            else "UNKNOWN"
        )
        self.nacks[reason] = self.nacks.get(reason, 0) + 1
        log.warning(
            "gateway refused an update",
            extra=values(
                gateway="/".join(session.pod), shard=nack.shard, holds=(nack.epoch, nack.version), reason=reason,
                detail=nack.detail,
            ),
        )  # fmt: skip
        if nack.shard >= SHARD_COUNT:
            return
        if nack.reason == control.Nack.VERSION_GAP:
            session.forget(nack.shard)
        elif nack.reason == control.Nack.STALE_EPOCH:
            self._authority.see_epoch(nack.shard, nack.epoch)
        # An invalid one is not sent again: the gateway keeps what it has until the shard moves on.

    # -- down --------------------------------------------------------------------------------------------------------

    async def _write(self, session: Session, context: Context) -> None:
        while True:
            await session.changed.wait()
            session.changed.clear()
            while (message := self._next(session)) is not None:
                async with asyncio.timeout(WRITE_SECONDS):
                    await context.write(message)
            if session.is_draining:
                async with asyncio.timeout(WRITE_SECONDS):
                    await context.write(control.WorkerMessage(drain=control.Drain()))
                return

    def _next(self, session: Session) -> control.WorkerMessage | None:
        while True:
            ack = session.take_ack()
            if ack is not None:
                return ack
            if session.take_workers():
                return self._worker_list()
            shard = session.take_shard()
            if shard is None:
                return None
            update = self._update(session, shard)
            if update is not None:
                session.sent[shard] = (update.epoch, update.version)
                self._audit.sent(update, session.boot_id, self._authority.permission(shard))
                return control.WorkerMessage(shard=update)

    def _worker_list(self) -> control.WorkerMessage:
        addresses = [control.WorkerAddress(name=name, address=where) for name, where in self._workers]
        return control.WorkerMessage(workers=control.Workers(workers=addresses))

    def _update(self, session: Session, shard: int) -> control.ShardUpdate | None:
        permission, epoch = self._authority.permission(shard), self._authority.epoch(shard)
        current = (epoch, self._book.version(shard))
        if permission is Permission.NONE or not self._is_ready():
            return None
        if permission is Permission.GROW and self._published.get(shard) != current:
            return None
        update = self._book.update(
            shard, fleet=self._authority.fleet, epoch=epoch, base=session.base(shard, epoch)
        )
        if permission is Permission.ACT:
            self._published[shard] = current
        return update

"""A worker's control port for tests: a real grpc.aio server that records what gateways say and sends what a test tells it."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import grpc

from noctaya.wire import SERVER_OPTIONS, control, control_grpc
from noctaya.wire.material import Source
from noctaya.wire.mutual_tls import add_port
from tests.gateway.services import FLEET, SECRET, update


class FakeWorker(control_grpc.ControlServicer):
    """Owns every shard; `acks` says how it answers a wake (None: not at all). With `tls` its port is secure."""

    def __init__(
        self,
        name: str = "worker-0",
        open_namespaces: tuple[str, ...] = ("*",),
        *,
        tls: Source | None = None,
        interceptors: tuple[grpc.aio.ServerInterceptor, ...] = (),
    ) -> None:
        self._tls, self._interceptors = tls, interceptors
        self.name, self.open_namespaces = name, open_namespaces
        self.fleet = FLEET
        self.acks: bool | None = True
        self.acts = True
        """Whether it owns its shard from the start, and so tells it with its Welcome."""
        self.port = 0
        self.hellos: list[control.Hello] = []
        self.reports: list[control.DemandReport] = []
        self.wakes: list[control.Wake] = []
        self.answers: list[control.GatewayMessage] = []
        self.byes = 0
        self.workers: dict[str, str] = {}
        self.version = 0
        self.epoch = 1
        self._services: dict[str, control.Service] = {}
        self._streams: set[asyncio.Queue[control.WorkerMessage]] = set()
        self._news = asyncio.Condition()
        self._server: grpc.aio.Server | None = None
        self.on_wake: Callable[[control.Wake], None] = lambda wake: None

    # Running

    async def start(self, port: int = 0) -> None:
        server = grpc.aio.server(options=SERVER_OPTIONS, interceptors=self._interceptors)
        control_grpc.add_ControlServicer_to_server(self, server)
        address = f"127.0.0.1:{port}"
        self.port = add_port(server, address, self._tls) if self._tls else server.add_insecure_port(address)
        await server.start()
        self._server = server

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(0)
            self._server = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    # What it says

    def serve(self, *services: "control.Service") -> None:
        """These services exist from now on (a snapshot of shard 7)."""
        self._services |= {f"{service.namespace}/{service.name}": service for service in services}
        self.version += 1
        self.send(control.WorkerMessage(shard=self.snapshot()))

    def remove(self, key: str) -> None:
        del self._services[key]
        self.serve()

    def snapshot(self) -> "control.ShardUpdate":
        return update(
            *self._services.values(), fleet=self.fleet, epoch=self.epoch, version=max(1, self.version)
        )

    def send(self, message: "control.WorkerMessage") -> None:
        for stream in self._streams:
            stream.put_nowait(message)

    # What it hears

    async def until(self, claim: Callable[[], bool], seconds: float = 5.0) -> None:
        """Wait for a claim about what gateways said."""
        async with asyncio.timeout(seconds), self._news:
            await self._news.wait_for(claim)

    async def until_applied(self) -> None:
        """Wait until the gateway has confirmed the newest version."""
        await self.until(lambda: any(answer.ack.version >= self.version for answer in self.answers))

    def demand(self, key: str) -> int:
        """Pending of a service in the latest report; 0 when it is left out."""
        if not self.reports:
            return 0
        found = [s for s in self.reports[-1].services if f"{s.namespace}/{s.name}" == key]
        return found[0].pending if found else 0

    def is_wanted(self, key: str) -> bool:
        """Whether the latest report lists the service at all."""
        return bool(self.reports) and any(f"{s.namespace}/{s.name}" == key for s in self.reports[-1].services)

    async def Link(self, request_iterator: AsyncIterator[Any], context: Any) -> None:  # noqa: N802 - gRPC's name
        first = await anext(request_iterator)
        self.hellos.append(first.hello)
        stream: asyncio.Queue[control.WorkerMessage] = asyncio.Queue()
        policy = control.FleetPolicy(open_namespaces=self.open_namespaces)
        await context.write(
            control.WorkerMessage(
                welcome=control.Welcome(
                    fleet=self.fleet,
                    worker=self.name,
                    shard_count=1,
                    hash="xxh3-64/ns-name/v1",
                    key_digest_secret=SECRET,
                    policy=policy,
                )
            )
        )
        if self.workers:
            listed = [
                control.WorkerAddress(name=name, address=address) for address, name in self.workers.items()
            ]
            await context.write(control.WorkerMessage(workers=control.Workers(workers=listed)))
        if self.acts:
            await context.write(control.WorkerMessage(shard=self.snapshot()))
        self._streams.add(stream)
        writer = asyncio.create_task(self._write(context, stream))
        try:
            await self._tell()
            async for heard in request_iterator:
                self._hear(heard, stream)
                await self._tell()
                if heard.WhichOneof("kind") == "bye":
                    return
        finally:
            self._streams.discard(stream)
            writer.cancel()
            await asyncio.gather(writer, return_exceptions=True)

    def _hear(self, heard: "control.GatewayMessage", stream: "asyncio.Queue[control.WorkerMessage]") -> None:
        kind = heard.WhichOneof("kind")
        if kind == "demand":
            self.reports.append(heard.demand)
        elif kind == "wake":
            self.wakes.append(heard.wake)
            if self.acks is not None:
                ack = control.WakeAck(wake_id=heard.wake.wake_id, is_owner=self.acks)
                stream.put_nowait(control.WorkerMessage(wake_ack=ack))
            self.on_wake(heard.wake)
        elif kind in {"ack", "nack"}:
            self.answers.append(heard)
        elif kind == "bye":
            self.byes += 1

    async def _tell(self) -> None:
        async with self._news:
            self._news.notify_all()

    @staticmethod
    async def _write(context: Any, stream: "asyncio.Queue[control.WorkerMessage]") -> None:
        while True:
            await context.write(await stream.get())


@contextlib.asynccontextmanager
async def fake_worker(name: str = "worker-0", **more: Any) -> AsyncIterator[FakeWorker]:
    """A fake worker that listens while the body runs."""
    worker = FakeWorker(name, **more)
    await worker.start()
    try:
        yield worker
    finally:
        await worker.stop()

"""A gateway's and KEDA's side of a worker's ports, as clients that tests turn by hand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio

from noctaya.wire import CLIENT_OPTIONS, control, control_grpc, externalscaler, externalscaler_grpc
from noctaya.wire.mutual_tls import ChannelMaker, open_plaintext

WAIT_SECONDS = 10.0


async def until(claim: Callable[[], Any], seconds: float = WAIT_SECONDS) -> Any:
    """The first truthy answer of `claim`."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                if answer := claim():
                    return answer
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"never true within {seconds} s") from None


class Gateway:
    """One gateway process on one stream; it takes every update and answers none unless told to."""

    def __init__(self, call: Any, pod: str, boot: str) -> None:
        self._call = call
        self.pod, self.boot = pod, boot
        self.sequence = 0
        self.received: list[control.WorkerMessage] = []
        self.is_ended = False
        self.acks = True

    async def hello(self, *, fleet: str = "", known: list[control.ShardVersion] | None = None) -> None:
        hello = control.Hello(
            namespace="noctaya-system", pod=self.pod, boot_id=self.boot, fleet=fleet, known=known or []
        )
        await self.send(control.GatewayMessage(hello=hello))

    async def send(self, message: control.GatewayMessage) -> None:
        await self._call.write(message)

    async def report(self, **pending: int) -> None:
        """`qwen=2` is two requests for ai/qwen."""
        self.sequence += 1
        services = [
            control.ServiceDemand(namespace="ai", name=name, pending=count) for name, count in pending.items()
        ]
        await self.send(
            control.GatewayMessage(demand=control.DemandReport(sequence=self.sequence, services=services))
        )

    async def wake(self, name: str, wake_id: int = 1, *, epoch_known: int = 0) -> None:
        self.sequence += 1
        demand = control.ServiceDemand(
            namespace="ai", name=name, pending=1, lease_remaining_ms=5000, epoch_known=epoch_known
        )
        await self.send(
            control.GatewayMessage(wake=control.Wake(sequence=self.sequence, service=demand, wake_id=wake_id))
        )

    async def nack(self, shard: int, reason: Any, *, epoch: int = 0, version: int = 0) -> None:
        nack = control.Nack(shard=shard, epoch=epoch, version=version, reason=reason, detail="test")
        await self.send(control.GatewayMessage(nack=nack))

    async def bye(self) -> None:
        await self.send(control.GatewayMessage(bye=control.Bye()))

    def workers(self) -> dict[str, str]:
        """The last list of workers that was told, name → address."""
        lists = [message.workers for message in self.received if message.WhichOneof("kind") == "workers"]
        return {worker.name: worker.address for worker in lists[-1].workers} if lists else {}

    async def read(self) -> None:
        """Until the stream ends."""
        while (message := await self._call.read()) is not grpc.aio.EOF:
            self.received.append(message)
        self.is_ended = True

    @property
    def welcome(self) -> control.Welcome | None:
        return next((message.welcome for message in self.received if message.HasField("welcome")), None)

    def updates(self, shard: int | None = None) -> list[control.ShardUpdate]:
        found = [message.shard for message in self.received if message.HasField("shard")]
        return [update for update in found if shard is None or update.shard == shard]

    def wake_acks(self) -> dict[int, bool]:
        found = [message.wake_ack for message in self.received if message.HasField("wake_ack")]
        return {ack.wake_id: ack.is_owner for ack in found}

    def service(self, key: str) -> control.Service | None:
        """The service as the newest update has it."""
        for update in reversed(self.updates()):
            for service in update.services:
                if f"{service.namespace}/{service.name}" == key:
                    return service
        return None


@asynccontextmanager
async def gateway(
    port: int, pod: str = "g0", boot: str = "b0", *, open_channel: ChannelMaker = open_plaintext
) -> AsyncIterator[Gateway]:
    """A stream that has not said Hello yet; it ends without Bye."""
    async with open_channel(f"127.0.0.1:{port}") as channel:
        stub: Any = control_grpc.ControlStub(channel)
        call = stub.Link()
        made = Gateway(call, pod, boot)
        reading = asyncio.create_task(made.read())
        try:
            yield made
        finally:
            call.cancel()
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


class Keda:
    """The three unary calls, and streams that are read."""

    def __init__(self, stub: Any) -> None:
        self._stub = stub

    async def spec(self, name: str = "qwen", **metadata: str) -> externalscaler.MetricSpec:
        answer: externalscaler.GetMetricSpecResponse = await self._stub.GetMetricSpec(
            reference(name, **metadata), timeout=5
        )
        return answer.metricSpecs[0]

    async def is_active(self, name: str = "qwen", **metadata: str) -> bool:
        answer: externalscaler.IsActiveResponse = await self._stub.IsActive(
            reference(name, **metadata), timeout=5
        )
        return answer.result

    async def metric(self, name: str = "qwen", metric: str = "pending") -> externalscaler.MetricValue:
        request = externalscaler.GetMetricsRequest(scaledObjectRef=reference(name), metricName=metric)
        answer: externalscaler.GetMetricsResponse = await self._stub.GetMetrics(request, timeout=5)
        assert len(answer.metricValues) == 1
        return answer.metricValues[0]

    @asynccontextmanager
    async def stream(self, name: str = "qwen") -> AsyncIterator[Stream]:
        call = self._stub.StreamIsActive(reference(name))
        stream = Stream(call)
        reading = asyncio.create_task(stream.read())
        try:
            yield stream
        finally:
            call.cancel()
            reading.cancel()
            await asyncio.gather(reading, return_exceptions=True)


class Stream:
    """What came on one StreamIsActive, and how it ended."""

    def __init__(self, call: Any) -> None:
        self._call = call
        self.values: list[bool] = []
        self.ended: grpc.StatusCode | None = None

    async def read(self) -> None:
        try:
            while (message := await self._call.read()) is not grpc.aio.EOF:
                self.values.append(message.result)
        except grpc.aio.AioRpcError:
            pass  # the code says it
        self.ended = await self._call.code()


def reference(name: str = "qwen", **metadata: str) -> externalscaler.ScaledObjectRef:
    """As KEDA sends it."""
    return externalscaler.ScaledObjectRef(
        name=name, namespace="ai", scalerMetadata={"metricName": "pending", "targetValue": "10", **metadata}
    )


@asynccontextmanager
async def keda(port: int) -> AsyncIterator[Keda]:
    """One connection."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=CLIENT_OPTIONS) as channel:
        stub: Any = externalscaler_grpc.ExternalScalerStub(channel)
        yield Keda(stub)

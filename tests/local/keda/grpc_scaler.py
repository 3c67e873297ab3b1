"""An ExternalScaler over real gRPC on a loopback address, that counts connections and can hang."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio

from noctaya.wire import externalscaler, externalscaler_grpc


class GrpcScaler(externalscaler_grpc.ExternalScalerServicer):
    """Answers from its fields. `peers` holds one entry per TCP connection that was used."""

    def __init__(self) -> None:
        self.active = False
        self.value = 0.0
        self.peers: set[str] = set()
        self.calls: list[str] = []
        self.metadata: list[dict[str, str]] = []
        self.hangs = False
        self.stream_ends = False
        self.pushes: asyncio.Queue[bool] = asyncio.Queue()
        self.cancelled_streams = 0
        self.open_streams = 0
        self._server: grpc.aio.Server | None = None
        self.port = 0

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        self._server = grpc.aio.server(options=(("grpc.so_reuseport", 0),))
        externalscaler_grpc.add_ExternalScalerServicer_to_server(self, self._server)
        self.port = self._server.add_insecure_port(f"{host}:{port}")
        await self._server.start()

    async def stop(self) -> None:
        if self._server is not None:
            await self._server.stop(0)
            self._server = None

    async def GetMetricSpec(self, request: Any, context: Any) -> Any:  # noqa: N802
        await self._called("GetMetricSpec", request, context)
        spec = externalscaler.MetricSpec(metricName="pending", targetSize=2, targetSizeFloat=1.5)
        return externalscaler.GetMetricSpecResponse(metricSpecs=[spec])

    async def GetMetrics(self, request: Any, context: Any) -> Any:  # noqa: N802
        await self._called("GetMetrics", request.scaledObjectRef, context)
        value = externalscaler.MetricValue(metricName="ignored", metricValue=7, metricValueFloat=self.value)
        return externalscaler.GetMetricsResponse(metricValues=[value])

    async def IsActive(self, request: Any, context: Any) -> Any:  # noqa: N802
        await self._called("IsActive", request, context)
        return externalscaler.IsActiveResponse(result=self.active)

    async def StreamIsActive(self, request: Any, context: Any) -> AsyncIterator[Any]:  # noqa: N802
        self.open_streams += 1
        try:
            await self._called("StreamIsActive", request, context)
            while not self.stream_ends:
                yield externalscaler.IsActiveResponse(result=await self.pushes.get())
        except asyncio.CancelledError:
            self.cancelled_streams += 1
            raise
        finally:
            self.open_streams -= 1

    async def _called(self, rpc: str, request: Any, context: Any) -> None:
        self.calls.append(rpc)
        self.peers.add(context.peer())
        self.metadata.append(dict(request.scalerMetadata))
        if self.hangs:
            await asyncio.Event().wait()

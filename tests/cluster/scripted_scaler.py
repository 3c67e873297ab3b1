"""An external scaler that does what a test says: KEDA's contract, with the state set by hand.

It counts what KEDA asks, so that a test can wait for KEDA's next move instead of for time to pass.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio

from noctaya.wire import SERVER_OPTIONS, externalscaler, externalscaler_grpc

METRIC = "pending"
TARGET = 10
STOP_SECONDS = 1.0

# grpc's stubs leave the context's type parameters to the caller; nothing here depends on them.
Context = grpc.aio.ServicerContext[Any, Any]


class ScriptedScaler(externalscaler_grpc.ExternalScalerServicer):
    """Answers polls with `active` and `value`; `push` tells every stream, and changes no answer."""

    def __init__(self) -> None:
        self.active = False
        self.value = 0
        self.calls: Counter[str] = Counter()
        self.streams = 0
        self.address = ""
        self._changed = asyncio.Condition()
        self._pushes = 0
        self._pushed = False
        self._is_closing = False

    async def push(self, active: bool) -> None:
        """Send this over every open stream."""
        async with self._changed:
            self._pushes, self._pushed = self._pushes + 1, active
            self._changed.notify_all()

    async def close(self) -> None:
        """End every stream as KEDA likes it best: with OK."""
        self._is_closing = True
        async with self._changed:
            self._changed.notify_all()

    async def has_stream(self, seconds: float) -> None:
        """Return when KEDA holds a stream open.

        Raises:
            TimeoutError: it does not.
        """
        async with asyncio.timeout(seconds), self._changed:
            await self._changed.wait_for(lambda: self.streams > 0)

    async def IsActive(  # noqa: N802 - the contract's names
        self, request: externalscaler.ScaledObjectRef, context: Context
    ) -> externalscaler.IsActiveResponse:
        """The poll."""
        self.calls["IsActive"] += 1
        return externalscaler.IsActiveResponse(result=self.active)

    async def StreamIsActive(  # noqa: N802
        self, request: externalscaler.ScaledObjectRef, context: Context
    ) -> AsyncIterator[externalscaler.IsActiveResponse]:
        """The push: the state at once, then after each `push`."""
        self.calls["StreamIsActive"] += 1
        await self._count_stream(1)
        try:
            seen, state = self._pushes, self.active
            while not self._is_closing:
                yield externalscaler.IsActiveResponse(result=state)
                async with self._changed:
                    while self._pushes == seen and not self._is_closing:
                        await self._changed.wait()
                    seen, state = self._pushes, self._pushed
        finally:
            await self._count_stream(-1)

    async def GetMetricSpec(  # noqa: N802
        self, request: externalscaler.ScaledObjectRef, context: Context
    ) -> externalscaler.GetMetricSpecResponse:
        """One metric."""
        self.calls["GetMetricSpec"] += 1
        spec = externalscaler.MetricSpec(metricName=METRIC, targetSize=TARGET, targetSizeFloat=TARGET)
        return externalscaler.GetMetricSpecResponse(metricSpecs=[spec])

    async def GetMetrics(  # noqa: N802
        self, request: externalscaler.GetMetricsRequest, context: Context
    ) -> externalscaler.GetMetricsResponse:
        """Its value."""
        self.calls["GetMetrics"] += 1
        value = externalscaler.MetricValue(
            metricName=METRIC, metricValue=self.value, metricValueFloat=self.value
        )
        return externalscaler.GetMetricsResponse(metricValues=[value])

    async def _count_stream(self, change: int) -> None:
        async with self._changed:
            self.streams += change
            self._changed.notify_all()


@asynccontextmanager
async def scripted_scaler(host: str) -> AsyncIterator[ScriptedScaler]:
    """A scaler that listens on a port of `host`; it listens before the body runs, as KEDA wants."""
    scaler = ScriptedScaler()
    server = grpc.aio.server(options=SERVER_OPTIONS)
    externalscaler_grpc.add_ExternalScalerServicer_to_server(scaler, server)
    scaler.address = f"{host}:{server.add_insecure_port(f'{host}:0')}"
    await server.start()
    try:
        yield scaler
    finally:
        await scaler.close()
        await server.stop(STOP_SECONDS)

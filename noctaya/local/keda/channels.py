"""The connections to scalers: one set of channels per distinct `scalerAddress`, shared by every ScaledObject (C1 to C3).

KEDA's Go client keeps one round-robin connection per address string for ever, with a sub-connection per resolved address.
Here each resolved address is a channel of its own and this module takes turns between those that are ready, so that an
address that vanishes breaks only its own calls, and one that appears is dialled at once without back-off. No call has a
deadline and none waits for readiness: while all are broken a call fails at once with UNAVAILABLE. Dialled at the first call,
never closed when a ScaledObject goes.
"""

import asyncio
import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any

import grpc.aio

from noctaya.errors import NoctayaError
from noctaya.local.keda.addresses import Direct, Named, parse
from noctaya.local.keda.endpoint import FAILING, READY, Endpoint
from noctaya.local.keda.errors import ScalerFailed
from noctaya.local.keda.ports import MetricSpec, Reference
from noctaya.local.keda.resolving import Resolution
from noctaya.local.keda.settings import KedaSettings
from noctaya.local.keda.values import chosen, milli
from noctaya.wire import externalscaler

Resolve = Callable[[str], Sequence[str] | Awaitable[Sequence[str]]]
"""From a host name to its addresses (a headless Service: those of its ready pods); may be a coroutine function."""

LOOK_UP_DEADLINE_SECONDS = 5.0


class ScalerAt:
    """The ExternalScaler contract at one address string (`ports.Scaler`)."""

    def __init__(
        self, address: str, resolve: Resolve, settings: KedaSettings, tasks: asyncio.TaskGroup
    ) -> None:
        self._address = address
        self._resolve = resolve
        self._settings = settings
        self._tasks = tasks
        self._endpoints: dict[str, Endpoint] = {}
        self._turn = 0
        self._is_open = False
        self._was_resolved = asyncio.Event()
        self._look_up_wanted = asyncio.Event()
        self._resolution = Resolution(
            settings.resolve_apart_seconds, settings.reconnect_first_seconds, settings.reconnect_most_seconds
        )

    async def metric_specs(self, reference: Reference) -> list[MetricSpec]:
        """GetMetricSpec."""
        answer = await self._unary("GetMetricSpec", _wire(reference))
        return [
            MetricSpec(spec.metricName, milli(chosen(spec.targetSizeFloat, spec.targetSize)))
            for spec in answer.metricSpecs
        ]

    async def metrics(self, reference: Reference, metric: str) -> list[int]:
        """GetMetrics; the names in the answer are ignored, as KEDA ignores them."""
        request = externalscaler.GetMetricsRequest(scaledObjectRef=_wire(reference), metricName=metric)
        answer = await self._unary("GetMetrics", request)
        return [milli(chosen(value.metricValueFloat, value.metricValue)) for value in answer.metricValues]

    async def is_active(self, reference: Reference) -> bool:
        """IsActive."""
        return bool((await self._unary("IsActive", _wire(reference))).result)

    async def stream(self, reference: Reference) -> AsyncGenerator[bool, None]:
        """StreamIsActive, until the server ends it or the generator is closed."""
        endpoint = await self._pick("StreamIsActive")
        async with endpoint.call() as stub:
            call = stub.StreamIsActive(_wire(reference))
            try:
                async for answer in call:
                    yield bool(answer.result)
            except grpc.aio.AioRpcError as error:
                raise self._failure("StreamIsActive", error) from error
            finally:
                # A call that is dropped without this stays alive in gRPC until the channel closes (grpc/grpc#43462).
                call.cancel()

    def ready_targets(self) -> list[str]:
        """The gRPC targets that are connected right now."""
        return [target for target, endpoint in self._endpoints.items() if endpoint.state is READY]

    async def _unary(self, rpc: str, request: object) -> Any:
        endpoint = await self._pick(rpc)
        async with endpoint.call() as stub:
            try:
                return await getattr(stub, rpc)(request)
            except grpc.aio.AioRpcError as error:
                raise self._failure(rpc, error) from error

    def _failure(self, rpc: str, error: grpc.aio.AioRpcError) -> ScalerFailed:
        return ScalerFailed(self._address, rpc, error.code().name, error.details() or "")

    async def _pick(self, rpc: str) -> Endpoint:
        await self._open(rpc)
        if not self._endpoints:
            raise ScalerFailed(self._address, rpc, "UNAVAILABLE", "the name has no addresses")
        endpoints = list(self._endpoints.values())
        states = [(endpoint, endpoint.state) for endpoint in endpoints]
        ready = [endpoint for endpoint, state in states if state is READY]
        pending = [endpoint for endpoint, state in states if state is not FAILING]
        candidates = ready or pending or endpoints
        self._turn += 1
        return candidates[self._turn % len(candidates)]

    async def _open(self, rpc: str) -> None:
        if not self._is_open:
            try:
                where = parse(self._address)
            except ValueError as error:
                raise ScalerFailed(self._address, rpc, "UNAVAILABLE", str(error)) from error
            self._is_open = True
            if isinstance(where, Direct):
                self._point_to([where.target])
                self._was_resolved.set()
            else:
                self._tasks.create_task(self._stay_resolved(where))
        await self._was_resolved.wait()

    async def _stay_resolved(self, where: Named) -> None:
        now = asyncio.get_running_loop().time
        while True:
            delay = self._resolution.due(now())
            if delay is None:
                await self._look_up_wanted.wait()
            elif delay > 0:
                await asyncio.sleep(delay)
            else:
                self._look_up_wanted.clear()
                self._resolution.started()
                ips = await self._look_up(where.host)
                if ips:
                    self._resolution.succeeded(now())
                    self._point_to([where.target(ip) for ip in ips])
                else:
                    self._resolution.failed(now())
                self._was_resolved.set()

    async def _look_up(self, host: str) -> Sequence[str]:
        try:
            found = self._resolve(host)
            if inspect.isawaitable(found):
                return await asyncio.wait_for(found, LOOK_UP_DEADLINE_SECONDS)
        except (NoctayaError, OSError):
            return []
        return found

    def _point_to(self, targets: Sequence[str]) -> None:
        for target in self._endpoints.keys() - set(targets):
            self._endpoints.pop(target).retire()
        for target in targets:
            if target not in self._endpoints:
                endpoint = self._endpoints[target] = Endpoint(target, self._settings, self.connection_lost)
                endpoint.start(self._tasks)

    def connection_lost(self) -> None:
        """A connection of this name broke, or could not be made."""
        self._resolution.connection_lost()
        self._look_up_wanted.set()


class Channels:
    """Every scaler by its address string (`ports.Scalers`); its tasks live in the caller's TaskGroup."""

    def __init__(self, resolve: Resolve, settings: KedaSettings, tasks: asyncio.TaskGroup) -> None:
        self._resolve = resolve
        self._settings = settings
        self._tasks = tasks
        self._scalers: dict[str, ScalerAt] = {}

    def at(self, address: str) -> ScalerAt:
        """The scaler at `address`; dialled at its first call."""
        if address not in self._scalers:
            self._scalers[address] = ScalerAt(address, self._resolve, self._settings, self._tasks)
        return self._scalers[address]


def _wire(reference: Reference) -> externalscaler.ScaledObjectRef:
    return externalscaler.ScaledObjectRef(
        name=reference.name, namespace=reference.namespace, scalerMetadata=dict(reference.metadata)
    )

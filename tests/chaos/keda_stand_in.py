"""KEDA's side, all the time: every worker is asked about every model, streams are held, replicas follow what was heard.

Like KEDA it sets replicas from 0 to 1 on a yes, and back when it has heard nothing but no for a cooldown. Errors change nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import grpc
import grpc.aio

from noctaya.kube import Client
from noctaya.kube.errors import KubeError
from noctaya.kube.resources import DEPLOYMENTS
from noctaya.wire import CLIENT_OPTIONS, externalscaler, externalscaler_grpc
from tests.chaos.history import Heard, Notebook, Slept

ASK_SECONDS = 3.0
STREAM_PAUSE_SECONDS = 0.5
HOLD = "noctayaHoldSeconds"
NAMESPACE = "ai"


@dataclass
class _Model:
    replicas: int = 0
    yes_at: float = 0.0
    no_at: float = 0.0
    pushes: int = 0


@dataclass
class KedaStandIn:
    """See the module. `workers()` gives (pod, scaler port) of every process that runs, stopped or not."""

    client: Client
    notes: Notebook
    services: tuple[str, ...]
    workers: Callable[[], Iterable[tuple[str, int]]]
    every_seconds: float = 1.5
    cooldown_seconds: float = 6.0
    heard: int = 0
    models: dict[str, _Model] = field(default_factory=dict)

    async def run(self) -> None:
        """Until cancelled."""
        self.models = {service: _Model() for service in self.services}
        asking: dict[tuple[str, int], asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as tasks:
            for service in self.services:
                tasks.create_task(self._listen(service))
            tasks.create_task(self._scale())
            while True:
                wanted = set(self.workers())
                for worker in wanted - asking.keys():
                    asking[worker] = tasks.create_task(self._ask_worker(*worker))
                for worker in asking.keys() - wanted:
                    asking.pop(worker).cancel()
                await asyncio.sleep(0.25)

    # -- asking ------------------------------------------------------------------------------------------------------

    async def _ask_worker(self, pod: str, port: int) -> None:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=CLIENT_OPTIONS) as channel:
            stub: Any = externalscaler_grpc.ExternalScalerStub(channel)
            while True:
                async with asyncio.TaskGroup() as tasks:
                    for service in self.services:
                        tasks.create_task(self._ask_both(stub, pod, service))
                await asyncio.sleep(self.every_seconds)

    async def _ask_both(self, stub: Any, pod: str, service: str) -> None:
        reference = _reference(service)
        await self._ask(
            pod, service, "active", lambda: stub.IsActive(reference, timeout=ASK_SECONDS), _activity
        )
        request = externalscaler.GetMetricsRequest(scaledObjectRef=reference, metricName="pending")
        await self._ask(pod, service, "demand", lambda: stub.GetMetrics(request, timeout=ASK_SECONDS), _value)

    async def _ask(
        self, pod: str, service: str, about: str, call: Callable[[], Any], read: Callable[[Any], int]
    ) -> None:
        asked_at = self.notes.now
        value, code = None, ""
        try:
            value = read(await call())
        except grpc.aio.AioRpcError as error:
            code = error.code().name
        self.heard += 1
        self.notes.write(
            Heard(
                at=self.notes.now, asked_at=asked_at, worker=pod, service=service, about=about, value=value,
                code=code,
            )
        )  # fmt: skip
        if value:
            self._yes(service)
        elif value == 0 and about == "active":
            self.models[service].no_at = self.notes.now

    async def _listen(self, service: str) -> None:
        """One stream, to whichever worker is there; a new one when it ends."""
        number = 0
        while True:
            there = sorted(self.workers())
            if there:
                number += 1
                _, port = there[(crc32(service.encode()) + number) % len(there)]
                async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=CLIENT_OPTIONS) as channel:
                    call = externalscaler_grpc.ExternalScalerStub(channel).StreamIsActive(_reference(service))
                    try:
                        async for answer in call:
                            if answer.result:
                                self.models[service].pushes += 1
                                self._yes(service)
                    except grpc.aio.AioRpcError:
                        pass  # as its worker ends
                    finally:
                        call.cancel()
            await asyncio.sleep(STREAM_PAUSE_SECONDS)

    # -- scaling -----------------------------------------------------------------------------------------------------

    def _yes(self, service: str) -> None:
        self.models[service].yes_at = self.notes.now

    async def _scale(self) -> None:
        while True:
            for service, model in self.models.items():
                is_wanted = self.notes.now - model.yes_at < self.cooldown_seconds
                if is_wanted and not model.replicas:
                    await self._set(service, model, 1)
                elif not is_wanted and model.replicas and model.no_at > model.yes_at:
                    self.notes.write(Slept(at=self.notes.now, service=service))
                    await self._set(service, model, 0)
            await asyncio.sleep(0.2)

    async def _set(self, service: str, model: _Model, replicas: int) -> None:
        with contextlib.suppress(KubeError):
            await self.client.patch(
                DEPLOYMENTS, NAMESPACE, service.partition("/")[2], {"spec": {"replicas": replicas}},
                subresource="scale", field_manager="keda",
            )  # fmt: skip
            model.replicas = replicas


def _activity(answer: externalscaler.IsActiveResponse) -> int:
    return int(answer.result)


def _value(answer: externalscaler.GetMetricsResponse) -> int:
    return answer.metricValues[0].metricValue


def _reference(service: str) -> externalscaler.ScaledObjectRef:
    namespace, _, name = service.partition("/")
    metadata = {"metricName": "pending", "targetValue": "10", HOLD: "1"}
    return externalscaler.ScaledObjectRef(name=name, namespace=namespace, scalerMetadata=metadata)

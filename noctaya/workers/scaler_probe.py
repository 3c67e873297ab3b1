"""Whether KEDA would reach the scaler: GetMetricSpec, called through the address that ScaledObjects carry.

A ScaledObject that is created while its scaler cannot be reached gets an HPA without our metric from older KEDAs, and a
back-off of minutes from newer ones (keda.md 0.9): none is created before this probe has had an answer once, nor while it has
none.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

import grpc
import grpc.aio

from noctaya.telemetry import context
from noctaya.wire import CLIENT_OPTIONS, externalscaler, externalscaler_grpc
from noctaya.workers.metric import METRIC_NAME

log = logging.getLogger(__name__)

CALL_SECONDS: Final = 2.0
FAILURES_UNTIL_LOST: Final = 3


class ScalerProbe:
    """Asks every second until there is an answer, then now and then. `run` belongs to the caller's TaskGroup."""

    def __init__(self, address: str, *, retry_seconds: float = 1.0, repeat_seconds: float = 30.0) -> None:
        self.address = address
        self.problem: str | None = f"the scaler has not been asked yet through {address}"
        self._retry_seconds = retry_seconds
        self._repeat_seconds = repeat_seconds
        self._is_reachable = False
        self._failures = 0
        self._subscribers: list[Callable[[], None]] = []

    def ready_to_autoscale(self) -> bool:
        """Whether a ScaledObject may be created now."""
        return self._is_reachable

    def subscribe(self, callback: Callable[[], None]) -> None:
        """Call `callback` whenever the answer changed."""
        self._subscribers.append(callback)

    async def run(self) -> None:
        """Probe until cancelled."""
        async with grpc.aio.insecure_channel(self.address, options=CLIENT_OPTIONS) as channel:
            stub: Any = externalscaler_grpc.ExternalScalerStub(channel)
            while True:
                is_fine = await self._ask(stub)
                await asyncio.sleep(self._repeat_seconds if is_fine else self._retry_seconds)

    async def _ask(self, stub: Any) -> bool:
        reference = externalscaler.ScaledObjectRef(
            name="noctaya-probe", scalerMetadata={"metricName": METRIC_NAME, "targetValue": "1"}
        )
        try:
            await stub.GetMetricSpec(reference, timeout=CALL_SECONDS)
        except grpc.aio.AioRpcError as error:
            self._failures += 1
            self.problem = (
                f"the scaler cannot be reached through {self.address} ({error.code().name}: {error.details()}); KEDA could "
                "not either, so no ScaledObject is made. Check the Service, the network policy and scaler.address."
            )
            if self._failures >= FAILURES_UNTIL_LOST:
                self._settle(is_reachable=False)
            return False
        self._failures = 0
        self.problem = None
        self._settle(is_reachable=True)
        return True

    def _settle(self, *, is_reachable: bool) -> None:
        if is_reachable == self._is_reachable:
            return
        self._is_reachable = is_reachable
        if is_reachable:
            log.info("scaler reachable", extra=context(address=self.address))
        else:
            log.warning("scaler unreachable", extra=context(problem=self.problem))
        for callback in self._subscribers:
            callback()

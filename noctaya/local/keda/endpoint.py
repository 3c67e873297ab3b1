"""One resolved address of a scaler: a gRPC channel that is kept connected, with Go's back-off (behaviour C2).

It tells its owner when the connection breaks or cannot be made, and closes itself when it was retired and its last call has
ended. Its task belongs to the owner's TaskGroup.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import grpc
import grpc.aio

from noctaya.local.keda.settings import KedaSettings
from noctaya.wire import externalscaler_grpc

READY = grpc.ChannelConnectivity.READY
FAILING = grpc.ChannelConnectivity.TRANSIENT_FAILURE
IDLE_TIMEOUT_MS = 30 * 60 * 1000


class Endpoint:
    """One resolved address and its channel."""

    def __init__(self, target: str, settings: KedaSettings, on_lost: Callable[[], None]) -> None:
        first_ms = int(settings.reconnect_first_seconds * 1000)
        self._channel = grpc.aio.insecure_channel(
            target,
            options=(
                ("grpc.initial_reconnect_backoff_ms", first_ms),
                ("grpc.max_reconnect_backoff_ms", int(settings.reconnect_most_seconds * 1000)),
                ("grpc.client_idle_timeout_ms", IDLE_TIMEOUT_MS),
                # Without it channels of two address strings to the same peer would share a connection and its back-off.
                ("grpc.use_local_subchannel_pool", 1),
                ("grpc.enable_http_proxy", 0),
            ),
        )
        self.stub: Any = externalscaler_grpc.ExternalScalerStub(self._channel)
        self._on_lost = on_lost
        self._calls = 0
        self._is_retired = False
        self._task: asyncio.Task[None] | None = None

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Dial, and keep dialling whenever the connection breaks."""
        self._task = tasks.create_task(self._stay_connected())

    @property
    def state(self) -> grpc.ChannelConnectivity:
        """What the connection is at right now."""
        return self._channel.get_state(try_to_connect=True)

    def retire(self) -> None:
        """The name no longer points here: no new calls; the channel is closed when the last one is over."""
        self._is_retired = True
        self._end_if_unused()

    @asynccontextmanager
    async def call(self) -> AsyncIterator[Any]:
        """The stub, for the length of one call."""
        self._calls += 1
        try:
            yield self.stub
        finally:
            self._calls -= 1
            self._end_if_unused()

    def _end_if_unused(self) -> None:
        if self._is_retired and not self._calls and self._task is not None:
            self._task.cancel()

    async def _stay_connected(self) -> None:
        try:
            state = self.state
            while True:
                await self._channel.wait_for_state_change(state)
                before, state = state, self.state
                was_lost = before is READY and state is not READY
                if was_lost or state is FAILING:
                    self._on_lost()
        finally:
            await self._channel.close()

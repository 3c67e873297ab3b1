"""Starts a gateway, keeps it running, and ends it: the one place where its parts meet."""

import asyncio
import contextlib
import logging
import signal
import socket
import uuid
from collections.abc import AsyncIterator, Callable
from typing import Any

import uvloop
from aiohttp import web
from sanic import Sanic

from noctaya.gateway import admin, app
from noctaya.gateway.demand import DemandLedger
from noctaya.gateway.drain import drain
from noctaya.gateway.exchange import Exchange
from noctaya.gateway.inside import Inside
from noctaya.gateway.intake import Intake
from noctaya.gateway.links import Links
from noctaya.gateway.listen import listening_socket
from noctaya.gateway.metrics import Metrics
from noctaya.gateway.probes import Probes
from noctaya.gateway.settings import GatewaySettings
from noctaya.gateway.snapshot import Snapshot
from noctaya.gateway.state import GatewayState
from noctaya.gateway.strict_http import StrictProtocol
from noctaya.gateway.upstream import Upstream
from noctaya.telemetry import context
from noctaya.wire.mutual_tls import SecureChannels, open_plaintext
from noctaya.wire.tls_settings import mounted, problem_of

log = logging.getLogger(__name__)


class Started(asyncio.Event):
    """Set when both ports listen; says where."""

    http_port: int = 0
    admin_port: int = 0


def run(settings: GatewaySettings) -> int:
    """Run until SIGTERM or SIGINT and return the exit code, 0 after a drain; a second signal ends at once.

    Raises:
        PortInUse, CannotListen: user errors; the message is one sentence for a person.
    """
    return uvloop.run(_until_signal(settings))


async def _until_signal(settings: GatewaySettings) -> int:
    stop, hurry = asyncio.Event(), asyncio.Event()

    def on_signal() -> None:
        (hurry if stop.is_set() else stop).set()

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, on_signal)
    await serve(settings, started=Started(), stop=stop, hurry=hurry)
    return 0


async def serve(
    settings: GatewaySettings, *, started: Started, stop: asyncio.Event, hurry: asyncio.Event | None = None
) -> None:
    """Serve until `stop` is set, then drain; `hurry` skips the drain's waits.

    Raises:
        PortInUse, CannotListen: nothing was started.
    """
    hurry = hurry or asyncio.Event()
    clock = asyncio.get_running_loop().time
    with contextlib.ExitStack() as sockets:
        public = _listen(sockets, settings.http.host, settings.http.port, "NOCTAYA_HTTP__PORT")
        private = _listen(sockets, settings.admin.host, settings.admin.port, "NOCTAYA_ADMIN__PORT")
        metrics = Metrics(clock)
        state = GatewayState(settings, clock)
        demand = DemandLedger(settings.hold.lease_linger_seconds, clock)
        async with contextlib.AsyncExitStack() as stack:
            tasks = await stack.enter_async_context(asyncio.TaskGroup())
            stack.callback(demand.close)
            upstream = Upstream(settings.upstream)
            stack.push_async_callback(upstream.close)
            probes = Probes(settings.hold, state.balance, _health_path(state), clock, tasks)
            stack.push_async_callback(probes.close)
            probes.on_usable = state.notify
            state.on_endpoints_changed = probes.endpoints_changed
            state.on_service_gone = demand.forget
            material = mounted(settings.tls)
            open_channel = SecureChannels(material) if material is not None else open_plaintext
            links = Links(settings.link, settings.pod, state, demand, metrics, clock, open_channel)
            snapshot = Snapshot(settings.snapshot_dir, state)
            inside = Inside(
                settings.link,
                state,
                demand,
                links,
                clock,
                had_routes=snapshot.load(),
                certificate_problem=lambda: problem_of(material),
            )
            metrics.gauges(lambda: inside.gauges(metrics))
            exchange = Exchange(state, demand, probes, upstream, metrics, clock)
            intake = Intake(settings.http, state, demand, exchange, metrics, clock)
            await stack.enter_async_context(
                _admin_port(private, admin.build(metrics, inside.readiness, inside.queue))
            )
            server = await stack.enter_async_context(
                _public_port(public, app.build(settings.http, intake, _app_name()))
            )
            background = [tasks.create_task(links.run(), name="links")]
            if settings.snapshot_dir:
                background.append(tasks.create_task(snapshot.run(), name="snapshot"))
            started.http_port, started.admin_port = public.getsockname()[1], private.getsockname()[1]
            log.info("gateway started", extra=context(http=started.http_port, admin=started.admin_port))
            started.set()
            try:
                await stop.wait()
                inside.is_draining = intake.is_draining = True
                await drain(
                    settings.drain, intake, lambda: server.connections, lambda: _close(server, public), hurry
                )
                await links.say_bye()
                log.info("gateway ended")
            finally:
                for task in background:
                    task.cancel()


def _listen(sockets: contextlib.ExitStack, host: str, port: int, setting: str) -> socket.socket:
    listener = listening_socket(host, port, setting)
    sockets.callback(listener.close)
    return listener


def _health_path(state: GatewayState) -> Callable[[str], str]:
    def of(key: str) -> str:
        service = state.routes.get(key)
        return service.health_path if service else ""

    return of


def _app_name() -> str:
    # Sanic keeps every app of a process in a register by name; tests run several gateways in one process.
    return f"gateway-{uuid.uuid4().hex}"


@contextlib.asynccontextmanager
async def _admin_port(listener: socket.socket, application: web.Application) -> AsyncIterator[None]:
    runner = web.AppRunner(application, access_log=None, handle_signals=False, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.SockSite(runner, listener).start()
        yield
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def _public_port(listener: socket.socket, application: "Sanic[Any, Any]") -> AsyncIterator[Any]:
    server: Any = await application.create_server(
        sock=listener, return_asyncio_server=True, access_log=False, protocol=StrictProtocol
    )
    if server is None:
        raise RuntimeError("Sanic gave no server")
    await server.startup()
    try:
        await server.before_start()
        await server.start_serving()
        await server.after_start()
        yield server
    finally:
        _close(server, listener)
        for connection in list(server.connections):
            connection.abort()
        await server.before_stop()
        await server.after_stop()
        Sanic.unregister_app(application)


def _close(server: Any, listener: socket.socket) -> None:
    # The asyncio server, not Sanic's wrapper: that one would also wait for every connection (Python 3.12 and later).
    if server.server is not None:
        server.server.close()
    listener.close()

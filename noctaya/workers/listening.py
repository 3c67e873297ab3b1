"""Opening a port, with one sentence for the case that it is taken."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import AsyncIterator, Callable

from aiohttp import web

from noctaya.errors import UserError

CLOSE_SECONDS = 1.0


class PortInUse(UserError):
    """Another process listens where we should."""

    def __init__(self, what: str, host: str, port: int, setting: str) -> None:
        super().__init__(
            f"the {what} cannot listen on {host}:{port}: the port is in use, or the address is not this machine's. Stop what "
            f"listens there, or set {setting}."
        )


def refuse_taken(what: str, host: str, port: int, setting: str) -> None:
    """Find out before anything is started. Raises PortInUse."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise PortInUse(what, host, port, setting) from error


def bind(add_port: Callable[[str], int], what: str, host: str, port: int, setting: str) -> int:
    """Let a gRPC server listen, by its own `add_port(address)`; returns its port. Raises PortInUse."""
    address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    try:
        return add_port(address)
    except RuntimeError as error:
        raise PortInUse(what, host, port, setting) from error


@contextlib.asynccontextmanager
async def listening(
    app: web.Application, what: str, host: str, port: int, setting: str
) -> AsyncIterator[int]:
    """Serve `app` while the context lasts; gives the port. Raises PortInUse."""
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=CLOSE_SECONDS)
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        try:
            await site.start()
        except OSError as error:
            raise PortInUse(what, host, port, setting) from error
        yield int(runner.addresses[0][1])
    finally:
        await runner.cleanup()

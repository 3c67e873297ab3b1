"""What holds for every test of the gateway."""

import asyncio
from collections.abc import Callable

import uvloop


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Production runs on uvloop, whose transports differ from asyncio's exactly where a stream is cut."""
    return {"uvloop": uvloop.new_event_loop}

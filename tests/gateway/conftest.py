"""What holds for every test of the gateway."""

import asyncio
from collections.abc import Callable

import pytest
import uvloop


def pytest_asyncio_loop_factories() -> dict[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Production runs on uvloop, whose transports differ from asyncio's exactly where a stream is cut."""
    return {"uvloop": uvloop.new_event_loop}


@pytest.fixture(autouse=True)
def no_current_loop_outside_of_coroutines(request: pytest.FixtureRequest) -> None:
    """looptime asks for the current loop before every test, and for a plain function asyncio would make one that nobody closes."""
    if request.node.get_closest_marker("asyncio") is None:
        asyncio.set_event_loop(None)

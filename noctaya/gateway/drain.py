"""How a gateway ends, step by step, with nothing left behind.

Readiness off → keep accepting while load balancers notice → close the listener → let answers finish → at the limit, an error
to the rest → demand withdrawn last (that is the caller's step). A second signal skips every wait.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Protocol

from noctaya.gateway import openai_errors
from noctaya.gateway.intake import Intake
from noctaya.gateway.settings import DrainSettings
from noctaya.telemetry import context

log = logging.getLogger(__name__)

TICK_SECONDS = 0.05
LAST_WORD_SECONDS = 1.0
"""How long the error frames to the rest may take."""


class Connection(Protocol):
    """A client's connection, as Sanic's protocol has it."""

    def close_if_idle(self) -> bool: ...
    def abort(self) -> None: ...


async def drain(
    settings: DrainSettings,
    intake: Intake,
    connections: Callable[[], Iterable[Connection]],
    close_listener: Callable[[], None],
    hurry: asyncio.Event,
) -> None:
    """Bring the public port to its end. Readiness is off already."""
    log.info(
        "draining", extra=context(inside=intake.inside, propagation_seconds=settings.propagation_seconds)
    )
    await _pause(settings.propagation_seconds, hurry)
    close_listener()
    deadline = asyncio.get_running_loop().time() + settings.limit_seconds
    while not hurry.is_set() and _any_busy(connections()):
        left = deadline - asyncio.get_running_loop().time()
        if left <= 0:
            break
        await _pause(min(TICK_SECONDS, left), hurry)
    if intake.inside:
        log.warning("drain limit reached", extra=context(cut=intake.inside))
        intake.cut_short(openai_errors.draining())
        await _wait_until_empty(intake)
    for connection in list(connections()):
        connection.abort()


def _any_busy(connections: Iterable[Connection]) -> bool:
    # All of them are asked each time: a connection whose answer has ended since is idle now and must be closed.
    return len([None for connection in list(connections) if not connection.close_if_idle()]) > 0


async def _pause(seconds: float, hurry: asyncio.Event) -> None:
    try:
        async with asyncio.timeout(seconds):
            await hurry.wait()
    except TimeoutError:
        return


async def _wait_until_empty(intake: Intake) -> None:
    deadline = asyncio.get_running_loop().time() + LAST_WORD_SECONDS
    while intake.inside and asyncio.get_running_loop().time() < deadline:  # noqa: ASYNC110 - there is no event for it
        await asyncio.sleep(TICK_SECONDS / 5)

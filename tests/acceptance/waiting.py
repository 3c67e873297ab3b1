"""Waiting until something holds, with a word about what was seen instead when it never does.

A claim is asked again every tick. An API server or gateway that is away for a moment (tests kill them) means "not yet".
How it fails: AssertionError that names the claim and the last thing seen.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TypeVar

import httpx2

from tests.acceptance.api import Refused

T = TypeVar("T")
TICK_SECONDS = 0.05


async def until(claim: Callable[[], Awaitable[T | None]], seconds: float, what: str) -> T:
    """Return the first thing that `claim` gives and that is true; `what` finishes the sentence "it never happened that …"."""
    deadline = time.monotonic() + seconds
    seen: object = None
    while True:
        try:
            found = await claim()
        except httpx2.TransportError as away:
            seen = away
        except Refused as refused:
            if refused.status < HTTPStatus.INTERNAL_SERVER_ERROR:
                raise
            seen = refused  # an API server that has just started, or whose store has
        else:
            if found:
                return found
            seen = found
        if time.monotonic() > deadline:
            raise AssertionError(
                f"it never happened within {seconds:g} s that {what}; seen at last: {seen!r}"
            )
        await asyncio.sleep(TICK_SECONDS)


async def until_equal(
    look: Callable[[], Awaitable[object]], wanted: object, seconds: float, what: str
) -> None:
    """Return when `look` gives what is `wanted`; the failure says what it gave at last."""
    seen: list[object] = []

    async def claim() -> bool:
        seen[:] = [await look()]
        return seen[0] == wanted

    try:
        await until(claim, seconds, what)
    except AssertionError as never:
        raise AssertionError(f"{never}; wanted {wanted!r}, got {seen!r}") from None


async def holds_for(claim: Callable[[], Awaitable[object]], seconds: float, what: str) -> None:
    """Fail as soon as `claim` is not true within `seconds`."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        found = await claim()
        assert found, f"it did not stay true for {seconds:g} s that {what}: {found!r}"
        await asyncio.sleep(TICK_SECONDS)

"""What a story is, and what it plays on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from tests.chaos.fleet import Fleet
from tests.chaos.history import Bounds


@dataclass
class Stage:
    """What a story plays on."""

    fleet: Fleet
    start_seconds: float
    """What a worker's process needs on this machine just now before its first line of code: measured by the runner."""

    def seconds(self, by_default: float) -> float:
        """A duration, shrunk as the tenure is."""
        return by_default * self.fleet.tenure.scale

    async def pause(self, by_default: float) -> None:
        """Let time pass."""
        await asyncio.sleep(self.seconds(by_default))


@dataclass(frozen=True)
class Story:
    """`run` does the faults. `about_seconds`: how long it takes by default, its recovery included."""

    name: str
    what: str
    run: Callable[[Stage], Awaitable[None]]
    about_seconds: float
    bounds: Callable[[Stage], Bounds] = lambda stage: Bounds()


Deed = Callable[[Stage], Awaitable[None]]

"""Who uses the models: a third is in use all the time, a third now and then, a third never."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.chaos.scripted_gateway import ScriptedGateway

TICK_SECONDS = 0.2


@dataclass
class Crowd:
    """Moves requests in and out of whichever gateways run; a request whose gateway dies is gone and comes anew elsewhere."""

    services: Sequence[str]
    gateways: Sequence[ScriptedGateway]
    rng: random.Random
    _until: dict[str, float] = field(default_factory=dict)

    async def run(self) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()
        while True:
            for number, service in enumerate(self.services):
                if number % 3 == 0:
                    self._keep_busy(service, loop.time())
                elif number % 3 == 1:
                    self._flicker(service, loop.time())
            await asyncio.sleep(TICK_SECONDS)

    def _keep_busy(self, service: str, now: float) -> None:
        """Always somebody; the new one comes before the old one goes."""
        inside = self._inside(service)
        if inside and now < self._until.get(service, 0.0):
            return
        self._arrive(service)
        for gateway in inside[1:] if len(inside) > 3 else inside[:1]:
            gateway.leave(service)
        self._until[service] = now + self.rng.uniform(1.0, 6.0)

    def _flicker(self, service: str, now: float) -> None:
        if now < self._until.get(service, 0.0):
            return
        inside = self._inside(service)
        if inside:
            for gateway in inside:
                while gateway.inside[service]:
                    gateway.leave(service)
            self._until[service] = now + self.rng.uniform(4.0, 15.0)
        else:
            self._arrive(service)
            self._until[service] = now + self.rng.uniform(1.0, 9.0)

    def _inside(self, service: str) -> list[ScriptedGateway]:
        return [gateway for gateway in self.gateways if gateway.inside[service]]

    def _arrive(self, service: str) -> None:
        if there := [gateway for gateway in self.gateways if gateway.is_running]:
            self.rng.choice(there).arrive(service)

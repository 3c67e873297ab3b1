"""The ways between processes: how long, lost, late, doubled, or cut. A cut is silent, as a dropped packet is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from tests.sim.clockwork import Clockwork

T = TypeVar("T")

API = "api"
ATTEMPT_SECONDS = 1.5
"""Of a request to the API server, as in the shells."""


@dataclass
class Weather:
    """What is wrong with every way just now."""

    loss: float = 0.0
    """Of requests, and of answers."""
    late: float = 0.0
    """Requests that reach the API server only after their sender gave up."""
    doubled: float = 0.0
    slow: float = 0.0
    """Seconds that the API server takes at most."""


@dataclass(frozen=True)
class Trap:
    """What becomes of one request: seconds until it lands, and then until its answer comes (None: never)."""

    lands_in: float
    answers_in: float | None = 0.003


@dataclass
class Network:
    """See the module."""

    clockwork: Clockwork
    weather: Weather = field(default_factory=Weather)
    cuts: dict[frozenset[str], int] = field(default_factory=dict)
    is_api_up: bool = True
    trap: Callable[[str, object], Trap | None] = lambda node, what: None
    """Asked about every request to the API server, by sender and action; for directed schedules."""

    def is_cut(self, one: str, other: str) -> bool:
        """Whether nothing passes between these two."""
        return frozenset((one, other)) in self.cuts

    def cut(self, one: str, other: str) -> None:
        """Nothing passes until `mend` has been called as often."""
        pair = frozenset((one, other))
        self.cuts[pair] = self.cuts.get(pair, 0) + 1

    def mend(self, one: str, other: str) -> None:
        """Take one cut back."""
        pair = frozenset((one, other))
        self.cuts[pair] -= 1
        if not self.cuts[pair]:
            del self.cuts[pair]

    def reaches_api(self, node: str) -> bool:
        """Whether a packet of `node` reaches the API server just now."""
        return self.is_api_up and (not self.cuts or not self.is_cut(node, API))

    def ask_api(
        self,
        node: str,
        serve: Callable[[], T],
        answered: Callable[[T], None],
        unanswered: Callable[[], None],
        *,
        what: object = None,
    ) -> None:
        """One request: `serve` happens at the server, or not; then `answered` or `unanswered`, exactly one, at the sender."""
        clockwork, weather, dice = self.clockwork, self.weather, self.clockwork.random
        is_open = [True]

        def give_up() -> None:
            if is_open[0]:
                is_open[0] = False
                unanswered()

        def answer(result: T) -> None:
            if is_open[0]:
                is_open[0] = False
                answered(result)

        def again() -> None:
            serve()

        def arrive() -> None:
            if not self.reaches_api(node):
                return
            result = serve()
            if weather.loss and dice.random() < weather.loss:
                return
            if weather.doubled and dice.random() < weather.doubled:
                clockwork.later(dice.uniform(0.01, 3.0), again)
            clockwork.later(self._api_delay(), back(result))

        def back(result: T) -> Callable[[], None]:
            def deliver() -> None:
                if self.reaches_api(node):
                    answer(result)

            return deliver

        clockwork.later(ATTEMPT_SECONDS, give_up)
        trap = self.trap(node, what)
        if trap is not None:
            self._spring(trap, serve, answer)
            return
        if not self.reaches_api(node) or (weather.loss and dice.random() < weather.loss):
            return
        delay = self._api_delay()
        if weather.late and dice.random() < weather.late:
            delay += dice.uniform(0.5, 8.0)
        clockwork.later(delay, arrive)

    def _spring(self, trap: Trap, serve: Callable[[], T], answer: Callable[[T], None]) -> None:
        def land() -> None:
            result = serve()
            if trap.answers_in is not None:
                self.clockwork.later(trap.answers_in, lambda: answer(result))

        self.clockwork.later(trap.lands_in, land)

    def _api_delay(self) -> float:
        dice = self.clockwork.random
        delay = 0.001 + 0.005 * dice.random()
        if dice.random() < 0.02:
            delay += 0.3 * dice.random()
        if self.weather.slow:
            delay += dice.uniform(0.0, self.weather.slow / 2)
        return delay

    def tell(self, one: str, other: str, deliver: Callable[[], None]) -> None:
        """One message from `one` to `other`, which may be lost."""
        if self.cuts and self.is_cut(one, other):
            return
        weather, dice = self.weather, self.clockwork.random
        if weather.loss and dice.random() < weather.loss:
            return
        self.clockwork.later(0.001 + 0.004 * dice.random(), deliver)

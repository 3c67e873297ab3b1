"""Runs the activation core on the loop's clock: performs its edges, and wakes up when a lease ends.

One object per process; every method is called from the loop's thread and never waits.
"""

import asyncio
from collections.abc import Callable

from noctaya.gateway.activation import Action, Activation, Demand, Edge


class DemandLedger:
    """The demand of this process, and whom to tell."""

    def __init__(self, linger_seconds: float, clock: Callable[[], float]) -> None:
        self.core = Activation(linger_seconds)
        self._clock = clock
        self._timer: asyncio.TimerHandle | None = None
        self.on_wake: Callable[[str], None] = _nobody
        self.on_report_due: Callable[[], None] = _nobody_cares

    def arrived(self, key: str) -> None:
        """A request was admitted."""
        self._perform(self.core.arrived(key, self._clock()))

    def began_waiting(self, key: str) -> None:
        """It found no endpoint."""
        self._perform(self.core.began_waiting(key, self._clock()))

    def served(self, key: str) -> None:
        """It waited and has an endpoint now."""
        self._perform(self.core.served(key, self._clock()))

    def left(self, key: str) -> None:
        """It waited in vain."""
        self._perform(self.core.left(key, self._clock()))

    def finished(self, key: str) -> None:
        """It is over."""
        self._perform(self.core.finished(key, self._clock()))

    def rejected(self, key: str, activation_seconds: float) -> None:
        """It was answered 503 and wakes the model all the same."""
        self._perform(self.core.rejected(key, activation_seconds, self._clock()))

    def forget(self, key: str) -> None:
        """The service is gone."""
        self._perform(self.core.forget(key, self._clock()))

    def take_report(self) -> tuple[list[Demand], bool]:
        """The report to send now, and whether another one must follow soon."""
        now = self._clock()
        demands = self.core.report(now)
        return demands, self.core.mark_reported(now)

    def demand(self, key: str) -> Demand:
        """What is asked of one service now."""
        return self.core.demand(key, self._clock())

    def effective(self, key: str) -> int:
        """Demand of one service as one number."""
        return self.core.effective(key, self._clock())

    def wanted(self) -> list[str]:
        """Every service with demand now."""
        return self.core.wanted(self._clock())

    def close(self) -> None:
        """No timer is left behind."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _perform(self, actions: list[Action]) -> None:
        for action in actions:
            if action.edge is Edge.WAKE:
                self.on_wake(action.key)
            else:
                self.on_report_due()
        self._arm()

    def _arm(self) -> None:
        deadline = self.core.deadline()
        if self._timer is not None:
            if deadline == self._timer.when():
                return
            self._timer.cancel()
            self._timer = None
        if deadline is not None:
            self._timer = asyncio.get_running_loop().call_at(deadline, self._tick)

    def _tick(self) -> None:
        self._timer = None
        # The loop may call a timer up to its resolution early; the core's clock decides, and the timer is set again.
        self._perform(self.core.tick(self._clock()))


def _nobody(key: str) -> None:
    del key


def _nobody_cares() -> None:
    return

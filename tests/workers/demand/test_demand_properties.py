"""Random lives of gateways: a known demand is never below what the live ones had, and unknown is never told as zero.

The model: gateways live as pods; each has a truth for each service. A gateway whose stream is open reports every change at
once and everything every two seconds; one whose stream is cut goes on with requests that nobody hears of. The API's view of
the pods follows with a delay that the machine chooses.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import Phase as Phase_
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from noctaya.workers.demand import AtLeast, DemandBook, Known, Member, Share
from noctaya.workers.gateways import GatewayContainer, Phase, PodName

KEYS = ("ai/a", "ai/b")
STALE = 10.0


@dataclass
class Gateway:
    """The truth of one pod."""

    pod: PodName
    boot: int = 0
    sequence: int = 0
    stream: int | None = None
    pending: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KEYS, 0))
    history: list[tuple[float, dict[str, int]]] = field(default_factory=list)
    is_alive: bool = True

    def least(self, key: str, since: float, now: float) -> int:
        """The smallest truth within [since, now]."""
        values, before = [self.pending[key]], 0
        for at, pending in self.history:
            if at <= since:
                before = pending[key]
            elif at <= now:
                values.append(pending[key])
        return min([before, *values])


class Fleet(RuleBasedStateMachine):
    book_type: type[DemandBook] = DemandBook

    def __init__(self) -> None:
        super().__init__()
        self.now = 1000.0
        self.book = self.book_type(stale_after=STALE)
        self.book.begin(self.now - 100)
        self.gateways: list[Gateway] = []
        self.streams = 0
        self.shown: dict[PodName, GatewayContainer] = {}
        self.book.observe({}, self.now)

    def truth(self) -> dict[PodName, GatewayContainer]:
        return {
            gateway.pod: GatewayContainer(
                Phase.RUNNING if gateway.is_alive else Phase.ENDED, f"{gateway.boot}"
            )
            for gateway in self.gateways
        }

    def speak(self, gateway: Gateway) -> None:
        gateway.history.append((self.now, dict(gateway.pending)))
        if gateway.stream is None:
            return
        gateway.sequence += 1
        shares = {key: Share(count) for key, count in gateway.pending.items() if count}
        self.book.report(gateway.pod, f"{gateway.pod}{gateway.boot}", gateway.sequence, shares, self.now)

    def connect(self, gateway: Gateway) -> None:
        self.streams += 1
        gateway.stream = self.streams
        self.book.hello(gateway.pod, f"{gateway.pod}{gateway.boot}", self.streams, self.now)
        self.speak(gateway)

    def cut(self, gateway: Gateway) -> None:
        if gateway.stream is not None:
            self.book.closed(gateway.pod, f"{gateway.pod}{gateway.boot}", gateway.stream, self.now)
            gateway.stream = None

    def pick(self, data: Any, alive: bool = True) -> Gateway:
        picked: Gateway = data.draw(
            st.sampled_from([found for found in self.gateways if found.is_alive is alive])
        )
        return picked

    def any_alive(self) -> bool:
        return any(gateway.is_alive for gateway in self.gateways)

    @precondition(lambda self: len(self.gateways) < 3)
    @rule()
    def a_gateway_starts_and_the_api_shows_it(self) -> None:
        gateway = Gateway(("sys", f"g{len(self.gateways)}"))
        self.gateways.append(gateway)
        self.show()
        self.connect(gateway)

    @precondition(any_alive)
    @rule(data=st.data(), key=st.sampled_from(KEYS), count=st.integers(0, 3))
    def requests_come_and_go(self, data: Any, key: str, count: int) -> None:
        gateway = self.pick(data)
        gateway.pending[key] = count
        self.speak(gateway)

    @precondition(any_alive)
    @rule(data=st.data())
    def a_stream_is_cut(self, data: Any) -> None:
        self.cut(self.pick(data))

    @precondition(any_alive)
    @rule(data=st.data())
    def a_stream_comes_back(self, data: Any) -> None:
        gateway = self.pick(data)
        if gateway.stream is None:
            self.connect(gateway)

    @precondition(any_alive)
    @rule(data=st.data())
    def a_gateway_dies(self, data: Any) -> None:
        gateway = self.pick(data)
        self.cut(gateway)
        gateway.is_alive = False
        gateway.pending = dict.fromkeys(KEYS, 0)
        gateway.history.append((self.now, dict(gateway.pending)))

    @precondition(lambda self: any(not gateway.is_alive for gateway in self.gateways))
    @rule(data=st.data(), linked=st.booleans())
    def a_container_starts_again(self, data: Any, linked: bool) -> None:
        gateway = self.pick(data, alive=False)
        gateway.boot += 1
        gateway.sequence = 0
        gateway.is_alive = True
        self.show()
        if linked:
            self.connect(gateway)

    @rule()
    def show(self) -> None:
        self.shown = self.truth()
        self.book.observe(self.shown, self.now)

    @rule(seconds=st.sampled_from([0.5, 2.0, 4.0, 11.0]))
    def time_passes(self, seconds: float) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now = min(self.now + 2.0, end)
            for gateway in self.gateways:
                if gateway.is_alive:
                    self.speak(gateway)
        self.book.sweep(self.now)

    @invariant()
    def what_is_known_is_never_below_the_truth(self) -> None:
        for key in KEYS:
            answer = self.book.demand(key, self.now)
            floor = sum(
                gateway.least(key, self.now - STALE, self.now)
                for gateway in self.gateways
                if gateway.is_alive
            )
            if isinstance(answer, Known):
                assert answer.value >= floor, (key, answer, floor)

    @invariant()
    def with_a_gateway_unheard_nothing_is_known(self) -> None:
        unheard = [
            gateway
            for gateway in self.gateways
            if gateway.is_alive
            and self.shown.get(gateway.pod) == GatewayContainer(Phase.RUNNING, f"{gateway.boot}")
            and gateway.sequence == 0
        ]
        if unheard:
            assert not any(isinstance(self.book.demand(key, self.now), Known) for key in KEYS)


class ForgetsByAge(DemandBook):
    """Mutant: a gateway that is silent for long leaves the sum, and is not waited for."""

    def _is_fresh(self, pod: PodName, now: float) -> bool:
        member = self._members.get(pod)
        return True if member is None else super()._is_fresh(pod, now)

    def _has_left(self, pod: PodName, member: Member, now: float) -> bool:
        return now - member.full_at > self.stale_after or super()._has_left(pod, member, now)


class TrustsTheFormerProcess(DemandBook):
    """Mutant: a report of the process before a restart counts for the one after it."""

    def _is_fresh(self, pod: PodName, now: float) -> bool:
        member = self._members.get(pod)
        return member is not None and member.full_at >= now - self.stale_after


def check(book_type: type[DemandBook], *, examples: int = 60, shrink: bool = True) -> None:
    phases = [Phase_.generate, Phase_.shrink] if shrink else [Phase_.generate]
    machine = type("Machine", (Fleet,), {"book_type": book_type})
    chosen = settings(
        max_examples=examples,
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
        report_multiple_bugs=False,
        phases=phases,
    )
    run_state_machine_as_test(machine, settings=chosen)


def test_known_demand_is_never_below_the_truth_of_live_gateways() -> None:
    check(DemandBook)


@pytest.mark.parametrize("mutant", [ForgetsByAge, TrustsTheFormerProcess])
def test_the_property_notices_a_missing_rule(mutant: type[DemandBook]) -> None:
    with pytest.raises(AssertionError):
        check(mutant, examples=400, shrink=False)


def test_unknown_demand_keeps_what_was_known() -> None:
    book = DemandBook()
    book.begin(0.0)
    book.observe({("sys", "g0"): GatewayContainer(Phase.RUNNING, "0")}, 0.0)
    book.hello(("sys", "g0"), "b", 1, 0.0)
    book.report(("sys", "g0"), "b", 1, {KEYS[0]: Share(3)}, 0.0)
    assert book.demand(KEYS[0], 60.0) == AtLeast(3)

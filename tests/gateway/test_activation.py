"""Demand under virtual time: up while somebody is inside, down exactly `linger` after the last waiter left unserved."""

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from noctaya.gateway.activation import Activation, Edge

KEY = "ai/tiny"
LINGER = 2.0
ACTIVATION = 300.0


def wait_in(core: Activation, now: float) -> list[Edge]:
    return [action.edge for action in core.arrived(KEY, now) + core.began_waiting(KEY, now)]


def leave(core: Activation, now: float) -> list[Edge]:
    return [action.edge for action in core.left(KEY, now) + core.finished(KEY, now)]


def test_twenty_cold_requests_are_one_wake() -> None:
    core = Activation(LINGER)
    edges = [edge for _ in range(20) for edge in wait_in(core, 1.0)]
    assert edges.count(Edge.WAKE) == 1
    assert core.effective(KEY, 1.0) == 20


def test_demand_ends_exactly_two_seconds_after_the_last_waiter_left() -> None:
    core = Activation(LINGER)
    wait_in(core, 0.0)
    wait_in(core, 0.0)
    assert leave(core, 5.0) == []
    leave(core, 10.0)
    assert core.deadline() == 12.0
    assert core.effective(KEY, 11.999) == 1
    assert core.tick(11.999) == []
    assert [action.edge for action in core.tick(12.0)] == [Edge.REPORT]
    assert core.effective(KEY, 12.0) == 0


def test_demand_ends_at_once_when_the_last_waiter_was_served() -> None:
    core = Activation(LINGER)
    wait_in(core, 0.0)
    core.served(KEY, 3.0)
    assert [action.edge for action in core.finished(KEY, 4.0)] == [Edge.REPORT]
    assert core.effective(KEY, 4.0) == 0


def test_somebody_who_comes_back_while_the_lease_lingers_makes_no_second_wake() -> None:
    core = Activation(LINGER)
    wait_in(core, 0.0)
    leave(core, 1.0)
    assert Edge.WAKE not in wait_in(core, 2.0)
    leave(core, 3.0)
    core.tick(5.0)
    assert Edge.WAKE in wait_in(core, 6.0)


def test_a_rejected_request_wakes_and_its_lease_runs_to_the_activation_timeout() -> None:
    core = Activation(LINGER)
    core.arrived(KEY, 0.0)
    assert [action.edge for action in core.rejected(KEY, ACTIVATION, 0.0)] == [Edge.WAKE]
    core.finished(KEY, 0.0)
    core.tick(ACTIVATION - 0.001)
    assert core.demand(KEY, ACTIVATION - 1).lease_seconds == pytest.approx(1.0)
    core.tick(ACTIVATION)
    assert core.effective(KEY, ACTIVATION) == 0


def test_a_request_that_came_and_went_between_two_reports_is_in_one() -> None:
    core = Activation(LINGER)
    core.arrived(KEY, 0.0)
    core.finished(KEY, 0.1)
    assert [demand.pending for demand in core.report(0.2)] == [1]
    assert core.mark_reported(0.2) is True
    assert core.report(0.2) == []
    assert core.mark_reported(0.2) is False


def test_a_report_after_the_end_says_so_although_the_last_one_said_more() -> None:
    core = Activation(LINGER)
    core.arrived(KEY, 0.0)
    core.report(0.0)
    core.mark_reported(0.0)
    core.finished(KEY, 1.0)
    assert core.report(1.0) == []


class ActivationMachine(RuleBasedStateMachine):
    """Random events; the mirror knows who is inside and when the lease must end."""

    def __init__(self) -> None:
        super().__init__()
        self.core = Activation(LINGER)
        self.now = 0.0
        self.waiting = self.flying = 0
        self.lease_until = 0.0
        self.wakes_since_quiet = 0

    def count(self, actions: list[object]) -> None:
        self.wakes_since_quiet += sum(1 for action in actions if getattr(action, "edge", None) is Edge.WAKE)

    @rule()
    def a_cold_request(self) -> None:
        self.count([*self.core.arrived(KEY, self.now), *self.core.began_waiting(KEY, self.now)])
        self.waiting += 1
        assert self.wakes_since_quiet >= 1

    @rule()
    def a_warm_request(self) -> None:
        self.core.arrived(KEY, self.now)
        self.flying += 1

    @precondition(lambda self: self.waiting > 0)
    @rule()
    def a_waiter_is_served(self) -> None:
        self.core.served(KEY, self.now)
        self.waiting, self.flying = self.waiting - 1, self.flying + 1

    @precondition(lambda self: self.waiting > 0)
    @rule()
    def a_waiter_leaves(self) -> None:
        self.core.left(KEY, self.now)
        self.waiting -= 1
        if not self.waiting:
            self.lease_until = max(self.lease_until, self.now + LINGER)
        self.core.finished(KEY, self.now)

    @precondition(lambda self: self.flying > 0)
    @rule()
    def an_answer_ends(self) -> None:
        self.core.finished(KEY, self.now)
        self.flying -= 1

    @rule()
    def a_rejected_request(self) -> None:
        self.core.arrived(KEY, self.now)
        self.count([*self.core.rejected(KEY, 30.0, self.now)])
        self.lease_until = max(self.lease_until, self.now + 30.0)
        self.core.finished(KEY, self.now)

    @rule(seconds=st.sampled_from([0.001, 0.5, 1.0, 2.0, 31.0]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.core.tick(self.now)

    @rule()
    def a_report(self) -> None:
        told = {demand.key: demand for demand in self.core.report(self.now)}
        assert (KEY in told) or not self.is_wanted
        self.core.mark_reported(self.now)
        assert [demand.pending for demand in self.core.report(self.now)] == (
            [self.waiting + self.flying] if self.is_wanted else []
        )

    @property
    def is_wanted(self) -> bool:
        return self.waiting + self.flying > 0 or self.lease_until > self.now

    @invariant()
    def demand_is_what_the_mirror_says(self) -> None:
        expected = self.waiting + self.flying or int(self.lease_until > self.now)
        assert self.core.effective(KEY, self.now) == expected
        assert self.core.waiting(KEY) == self.waiting
        deadline = self.core.deadline()
        if self.lease_until > self.now and not self.waiting + self.flying:
            assert deadline == self.lease_until
        if not self.is_wanted:
            self.wakes_since_quiet = 0


ActivationMachine.TestCase.settings = settings(max_examples=40, deadline=None)
TestActivation = ActivationMachine.TestCase

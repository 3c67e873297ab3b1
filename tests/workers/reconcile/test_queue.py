"""The order of work: priorities, delays, back-off, and that nothing added is ever lost."""

from __future__ import annotations

from typing import Any

from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from noctaya.workers.queue import BACKOFF_LAST_SECONDS, USER_ERROR_SECONDS, KeyQueue, Outcome, Priority

KEYS = st.sampled_from(["a/1", "a/2", "b/1", "b/2"])


def test_what_was_put_off_is_no_backlog_until_it_is_due() -> None:
    queue = KeyQueue()
    queue.add("now", 0)
    queue.add("later", 0, delay_seconds=10)
    assert (len(queue), queue.due(0), queue.due(10)) == (2, 1, 2)
    assert queue.take(0) == "now"
    queue.add("now", 0)
    assert queue.due(0) == 1


def test_the_woken_go_before_the_changed_and_those_before_the_backlog() -> None:
    queue = KeyQueue()
    queue.add("backlog", 0, Priority.BACKLOG)
    queue.add("changed", 0, Priority.CHANGED)
    queue.add("woken", 0, Priority.WOKEN)
    assert [queue.take(0) for _ in range(4)] == ["woken", "changed", "backlog", None]


def test_a_key_that_waits_in_the_backlog_moves_up_when_it_is_woken() -> None:
    queue = KeyQueue()
    for name in ("one", "two", "three"):
        queue.add(name, 0, Priority.BACKLOG)
    queue.add("three", 0, Priority.WOKEN)
    assert queue.take(0) == "three"
    assert queue.take(0) == "one"


def test_a_later_delay_does_not_put_off_an_earlier_one() -> None:
    queue = KeyQueue()
    queue.add("key", 0, delay_seconds=1)
    queue.add("key", 0, delay_seconds=5)
    assert queue.next_due() == 1
    assert queue.take(0.9) is None
    assert queue.take(1.0) == "key"
    assert queue.take(9.0) is None, "added twice, run once"


def test_a_key_in_flight_is_not_run_beside_itself_but_again_afterwards() -> None:
    queue = KeyQueue()
    queue.add("key", 0)
    assert queue.take(0) == "key"
    queue.add("key", 0, Priority.WOKEN)
    assert queue.take(0) is None
    queue.finish("key", Outcome.DONE, 1)
    assert queue.take(1) == "key"


def test_world_errors_back_off_up_to_a_bound_and_success_forgets_them() -> None:
    queue = KeyQueue(lambda: 1.0)
    waits = []
    now = 0.0
    queue.add("key", now)
    for _ in range(12):
        assert queue.take(now) == "key"
        queue.finish("key", Outcome.WORLD_ERROR, now)
        due = queue.next_due()
        assert due is not None
        waits.append(due - now)
        now = due
    assert waits[:4] == [0.5, 1.0, 2.0, 4.0]
    assert max(waits) == BACKOFF_LAST_SECONDS
    assert queue.failures("key") == 12
    assert queue.take(now) == "key"
    queue.finish("key", Outcome.DONE, now)
    assert queue.failures("key") == 0
    assert queue.next_due() is None


def test_a_users_error_waits_for_a_change_or_five_minutes() -> None:
    queue = KeyQueue(lambda: 0.5)
    queue.add("key", 0)
    queue.take(0)
    queue.finish("key", Outcome.USER_ERROR, 0)
    assert queue.next_due() == USER_ERROR_SECONDS
    queue.add("key", 10)
    assert queue.take(10) == "key", "the change comes first"


def test_a_users_error_that_asks_to_be_looked_at_sooner_is() -> None:
    queue = KeyQueue(lambda: 0.5)
    queue.add("key", 0)
    queue.take(0)
    queue.finish("key", Outcome.USER_ERROR, 0, 15.0)
    assert queue.next_due() == 15.0
    queue.take(15)
    queue.finish("key", Outcome.USER_ERROR, 15, 2 * USER_ERROR_SECONDS)
    assert queue.next_due() == 15 + USER_ERROR_SECONDS


def test_a_forgotten_key_does_not_come_back() -> None:
    queue = KeyQueue()
    queue.add("key", 0)
    queue.forget("key")
    assert queue.take(10) is None
    assert queue.next_due() is None
    assert len(queue) == 0


class QueueMachine(RuleBasedStateMachine):
    """The queue against a model: for each key, whether it is in flight and by when it must run."""

    def __init__(self) -> None:
        super().__init__()
        self.queue = KeyQueue(lambda: 1.0)
        self.now = 0.0
        self.due: dict[str, float] = {}
        self.priority: dict[str, Priority] = {}
        self.flying: set[str] = set()

    @rule(key=KEYS, priority=st.sampled_from(Priority), delay=st.sampled_from([0.0, 0.5, 3.0]))
    def add(self, key: str, priority: Priority, delay: float) -> None:
        self.queue.add(key, self.now, priority, delay)
        self.due[key] = min(self.due.get(key, float("inf")), self.now + delay)
        self.priority[key] = max(self.priority.get(key, Priority.BACKLOG), priority)

    @rule(step=st.sampled_from([0.125, 1.0, 100.0]))
    def time_passes(self, step: float) -> None:
        self.now += step

    @rule()
    def take(self) -> None:
        runnable = [key for key, due in self.due.items() if due <= self.now and key not in self.flying]
        key = self.queue.take(self.now)
        if key is None:
            assert not runnable, "something due was not handed out"
            return
        assert key in runnable
        assert self.priority[key] == max(self.priority[other] for other in runnable)
        self.flying.add(key)
        del self.due[key], self.priority[key]

    @precondition(lambda self: self.flying)
    @rule(data=st.data(), outcome=st.sampled_from(Outcome))
    def finish(self, data: Any, outcome: Outcome) -> None:
        key = data.draw(st.sampled_from(sorted(self.flying)))
        failures = self.queue.failures(key)
        self.queue.finish(key, outcome, self.now)
        self.flying.discard(key)
        wait = {
            Outcome.DONE: None,
            Outcome.USER_ERROR: USER_ERROR_SECONDS * 1.1,
            Outcome.WORLD_ERROR: min(BACKOFF_LAST_SECONDS, 0.5 * 2.0 ** min(failures, 10)),
        }[outcome]
        if wait is not None:
            self.due[key] = min(self.due.get(key, float("inf")), self.now + wait)
            self.priority.setdefault(key, Priority.BACKLOG)

    @rule(key=KEYS)
    def forget(self, key: str) -> None:
        self.queue.forget(key)
        self.due.pop(key, None)
        self.priority.pop(key, None)

    @invariant()
    def in_flight_once(self) -> None:
        assert self.queue.in_flight == self.flying
        assert len(self.queue) == len(self.due)

    @invariant()
    def the_next_time_is_known(self) -> None:
        waiting = [due for key, due in self.due.items() if key not in self.flying]
        next_due = self.queue.next_due()
        if not waiting:
            assert next_due is None
        else:
            assert next_due is not None
            assert next_due == min(waiting) or next_due <= self.now


TestQueue = QueueMachine.TestCase
TestQueue.settings = settings(
    max_examples=60, stateful_step_count=40, deadline=None, phases=(Phase.generate, Phase.shrink)
)

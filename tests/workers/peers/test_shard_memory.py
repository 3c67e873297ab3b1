"""What a former owner knew: it bridges the heir's ignorance, and is never taken for knowledge."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pytest
from hypothesis import Phase as HypothesisPhase
from hypothesis import given, settings
from hypothesis import strategies as st

from noctaya.api.names import shard_of
from noctaya.workers import shard_memory
from noctaya.workers.demand import MAX_ADOPTED, AtLeast, Demand, DemandBook, Known, Share, Unknown, seen_of
from noctaya.workers.gateways import GatewayContainer, Phase
from noctaya.workers.metric import Answers
from noctaya.workers.permission import Permission
from noctaya.workers.recency import LONGEST_HOLD_SECONDS, Recency
from noctaya.workers.shard_memory import MAX_SERVICES, ServiceMemory, ShardMemory, adopt, memory_of

KEY, OTHER = "ai/qwen", "ai/llama"
SHARD = shard_of("ai", "qwen")
PODS = (("sys", "g0"), ("sys", "g1"))
START = 1000.0


def book_of(*reported: int | None) -> DemandBook:
    """A book that follows one running gateway for each argument; None: that one is silent. The others tell their demand."""
    book = DemandBook()
    book.begin(START - 100)
    book.observe({PODS[n]: GatewayContainer(Phase.RUNNING, "a") for n in range(len(reported))}, START - 100)
    for n, pending in enumerate(reported):
        book.hello(PODS[n], "b", n, START - 100)
        if pending is not None:
            book.report(PODS[n], "b", 1, {KEY: Share(pending)}, START)
    return book


def handed_over(book: DemandBook, recency: Recency | None = None, now: float = START) -> ShardMemory:
    return memory_of(SHARD, 5, [KEY, OTHER], book, recency or Recency(), now)


# --- what is handed over ---------------------------------------------------------------------------------------------------


def test_known_demand_is_handed_over_and_a_service_without_use_is_left_out() -> None:
    assert handed_over(book_of(2, 1)) == ShardMemory(SHARD, 5, (ServiceMemory(KEY, 3, 0.0),))


def test_of_demand_that_was_known_once_the_last_known_is_handed_over() -> None:
    book = book_of(4)
    assert book.demand(KEY, START + 60) == AtLeast(4)
    assert handed_over(book, now=START + 60).services == (ServiceMemory(KEY, 4, 0.0),)


def check_that_ignorance_is_not_handed_over_as_a_number() -> None:
    book = book_of(2, None)
    assert book.demand(KEY, START) == Unknown(seen=2)
    assert handed_over(book).services == (ServiceMemory(KEY, 0, 0.0),)


def test_ignorance_is_not_handed_over_as_a_number() -> None:
    """The heir would tell it in place of what keeps the model's replicas."""
    check_that_ignorance_is_not_handed_over_as_a_number()


def test_that_rule_switched_off_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_memory, "certain", seen_of)
    with pytest.raises(AssertionError):
        check_that_ignorance_is_not_handed_over_as_a_number()


def test_a_service_that_was_used_a_moment_ago_is_handed_over_with_its_idle_time() -> None:
    recency = Recency()
    recency.ended(KEY, START - 7.0)
    recency.ended(OTHER, START - 3.0)
    assert handed_over(book_of(0), recency).services == (
        ServiceMemory(OTHER, 0, 3.0),
        ServiceMemory(KEY, 0, 7.0),
    )


def test_of_too_many_services_those_with_most_demand_are_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_SERVICES > 1
    monkeypatch.setattr(shard_memory, "MAX_SERVICES", 1)
    recency = Recency()
    recency.ended(OTHER, START - 1.0)
    assert handed_over(book_of(2), recency).services == (ServiceMemory(KEY, 2, 0.0),)


# --- what the heir makes of it ---------------------------------------------------------------------------------------------


def test_an_heir_that_has_not_heard_every_gateway_tells_what_the_former_owner_knew() -> None:
    heir, recency = book_of(1, None), Recency()
    adopt(handed_over(book_of(2, 3)), heir, recency, START)
    assert heir.demand(KEY, START) == AtLeast(5)
    assert heir.demand(OTHER, START) == Unknown(), "of that one nothing was said"
    assert recency.is_recent(KEY, START + 1, 5.0)


def test_it_is_gone_once_the_heir_knows_by_itself() -> None:
    heir = book_of(1, None)
    heir.adopt({KEY: 5}, START)
    heir.report(PODS[1], "b", 1, {}, START)
    assert heir.demand(KEY, START) == Known(1)
    assert heir.demand(KEY, START + 60) == AtLeast(1), "what was known last, not what was told before"


def test_an_heir_that_knows_is_told_nothing() -> None:
    heir = book_of(1, 1)
    heir.adopt({KEY: 5}, START)
    assert heir.demand(KEY, START) == Known(2)
    assert heir.demand(KEY, START + 60) == AtLeast(2)


def test_what_was_adopted_outlives_the_begin_of_the_tenure_that_it_was_for() -> None:
    heir = book_of(None)
    heir.adopt({KEY: 5}, START)
    heir.begin(START + 1)
    assert heir.demand(KEY, START + 1) == AtLeast(5)


def test_a_zero_says_nothing() -> None:
    heir = book_of(2, None)
    heir.adopt({KEY: 0}, START)
    assert heir.demand(KEY, START) == Unknown(seen=2)


def test_what_is_adopted_is_bounded() -> None:
    heir = book_of(None)
    heir.adopt({f"ai/m{number}": 1 for number in range(MAX_ADOPTED)}, START)
    heir.adopt({KEY: 1, "ai/m0": 9}, START)
    assert heir.demand("ai/m0", START) == AtLeast(9)
    assert heir.demand(KEY, START) == Unknown(), "one too many is as if nothing was told"


# --- as properties ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Step:
    """One thing that happens to both books; `adopted` only to one of them."""

    what: str
    pod: int
    count: int
    seconds: float
    adopted: int


steps = st.lists(
    st.builds(
        Step,
        st.sampled_from(["hello", "report", "closed", "runs", "ended", "follow", "lose"]),
        st.integers(0, 1),
        st.integers(0, 4),
        st.sampled_from([0.0, 0.5, 2.0, 11.0]),
        st.sampled_from([-1, -1, 0, 1, 3, 9]),
    ),
    max_size=25,
)


class Life:
    """A book and what happens to it."""

    def __init__(self, book: DemandBook) -> None:
        self.book = book
        self.containers: dict[tuple[str, str], GatewayContainer] = {}
        self.sequence = 0
        book.begin(START - 100)

    def take(self, step: Step, now: float) -> None:
        pod, book = PODS[step.pod], self.book
        self.sequence += 1
        match step.what:
            case "hello":
                book.hello(pod, "b", step.pod, now)
            case "report":
                book.report(pod, "b", self.sequence, {KEY: Share(step.count)}, now)
            case "closed":
                book.closed(pod, "b", step.pod, now)
            case "runs" | "ended":
                phase = Phase.RUNNING if step.what == "runs" else Phase.ENDED
                self.containers[pod] = GatewayContainer(phase, "a")
                book.observe(self.containers, now)
            case _:
                book.follow(step.what == "follow", now)
        book.sweep(now)


def compare(plain: Demand, told: Demand) -> None:
    assert seen_of(told) >= seen_of(plain), "it became lower"
    assert isinstance(told, Known) == isinstance(plain, Known), (
        "what is not known is known, or the other way round"
    )
    if isinstance(plain, Known):
        assert told == plain
    for held in (0, 1, 20):
        before = Answers().is_active(KEY, plain, Permission.ACT, held)
        after = Answers().is_active(KEY, told, Permission.ACT, held)
        assert after is True or before is not True, "a yes became a no"
        assert after is not False or before is False, "a silence became a no"


def check_adopting(book_type: type[DemandBook], examples: int, *, shrinks: bool = True) -> None:
    phases = [HypothesisPhase.generate, *([HypothesisPhase.shrink] if shrinks else [])]

    @settings(max_examples=examples, deadline=None, database=None, report_multiple_bugs=False, phases=phases)
    @given(steps)
    def run(life: list[Step]) -> None:
        now = START
        plain, told = Life(DemandBook()), Life(book_type())
        for step in life:
            now += step.seconds
            plain.take(step, now)
            told.take(step, now)
            if step.adopted >= 0:
                told.book.adopt({KEY: step.adopted}, now)
            for later in (0.0, 0.5, 12.0):
                compare(plain.book.demand(KEY, now + later), told.book.demand(KEY, now + later))

    run()


def test_adopting_never_lowers_never_makes_known_and_never_turns_a_yes_into_a_no() -> None:
    check_adopting(DemandBook, 300)


class TakesItsWord(DemandBook):
    """Mutant: what was told stands in for what is seen."""

    def demand(self, key: str, now: float) -> Demand:
        adopted = self._adopted.get(key)
        return AtLeast(adopted) if adopted and not self.is_known(now) else super().demand(key, now)


class TakesItForKnowledge(DemandBook):
    """Mutant: what was told counts as known."""

    def demand(self, key: str, now: float) -> Demand:
        demand = super().demand(key, now)
        return Known(demand.value) if isinstance(demand, AtLeast) and key in self._adopted else demand


class BelievesAZero(DemandBook):
    """Mutant: that there was no demand is taken for knowledge too."""

    def adopt(self, at_least: Mapping[str, int], now: float) -> None:
        super().adopt(at_least, now)
        self._zeros = {key for key, value in at_least.items() if value == 0}

    def demand(self, key: str, now: float) -> Demand:
        demand = super().demand(key, now)
        return Known(0) if demand == Unknown() and key in getattr(self, "_zeros", ()) else demand


@pytest.mark.parametrize("mutant", [TakesItsWord, TakesItForKnowledge, BelievesAZero])
def test_the_property_notices_a_missing_rule(mutant: type[DemandBook]) -> None:
    with pytest.raises(AssertionError):
        check_adopting(mutant, 1000, shrinks=False)


ends = st.dictionaries(st.sampled_from("abcd"), st.floats(0, 2 * LONGEST_HOLD_SECONDS), max_size=4)


@given(ends, ends, st.floats(0, LONGEST_HOLD_SECONDS), st.floats(0, 300))
def test_an_end_of_use_that_is_adopted_only_ever_makes_a_service_recent_for_longer(
    own: dict[str, float], told: dict[str, float], hold: float, later: float
) -> None:
    recency = Recency()
    for key, idle in sorted(own.items(), key=lambda end: -end[1]):
        recency.ended(key, START - idle)
    before = {key: recency.is_recent(key, START + later, hold) for key in "abcd"}
    recency.adopt(told, START)
    for key in "abcd":
        after = recency.is_recent(key, START + later, hold)
        assert after or not before[key], "a yes became a no"
        if after and not before[key]:
            assert START + later - (START - told[key]) < hold, "recent for longer than its hold"
    # Others' words do not keep what would have been dropped, whatever their order.
    recency.ended("z", START + 3 * LONGEST_HOLD_SECONDS)
    assert len(recency) == 1

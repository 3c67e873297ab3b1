"""When probes are due and what their answers mean, in virtual time."""

from hypothesis import given
from hypothesis import strategies as st

from noctaya.local.agent.probing import ProbeSchedule, Verdict
from noctaya.local.agent.spec import Exec, ProbeKind, ProbeSpec

CHECK = Exec(("true",))


def schedule(kind: ProbeKind, started: float = 0.0, prompt: float = 0.1, **more: float) -> ProbeSchedule:
    return ProbeSchedule(ProbeSpec(kind, CHECK, **more), started, prompt)  # type: ignore[arg-type]


def test_the_first_look_comes_after_the_initial_delay() -> None:
    assert schedule(ProbeKind.READINESS, started=5.0).due == 5.0
    assert schedule(ProbeKind.READINESS, started=5.0, initial_delay_seconds=7).due == 12.0


def test_until_the_first_success_a_readiness_probe_is_looked_at_promptly() -> None:
    probe = schedule(ProbeKind.READINESS, period_seconds=10)
    probe.answered(False, asked=0.0, now=0.01)
    assert probe.due == 0.11
    assert probe.answered(True, asked=0.11, now=0.12).verdict is Verdict.PASSED
    assert probe.passing
    assert probe.due == 10.0, "from then on a kubelet's period holds"


def test_a_look_in_between_never_counts_as_a_failure() -> None:
    probe = schedule(ProbeKind.STARTUP, period_seconds=10, failure_threshold=2)
    now = 0.0
    verdicts = []
    while now < 9.5:
        verdicts.append(probe.answered(False, asked=now, now=now))
        now = probe.due
    assert all(outcome.verdict is Verdict.NOTHING for outcome in verdicts)
    assert sum(outcome.counted_failure for outcome in verdicts) == 1
    while probe.due < 10.0:
        probe.answered(False, asked=probe.due, now=probe.due)
    assert probe.answered(False, asked=10.0, now=10.0).verdict is Verdict.FAILED


def test_readiness_turns_false_only_after_its_threshold_in_a_row() -> None:
    probe = schedule(ProbeKind.READINESS, period_seconds=1, failure_threshold=3)
    probe.answered(True, 0.0, 0.0)
    answers = [
        probe.answered(good, float(n), float(n)).verdict for n, good in enumerate([False, False, True], 1)
    ]
    assert answers == [Verdict.NOTHING] * 3
    answers = [probe.answered(False, float(n), float(n)).verdict for n in (4, 5, 6)]
    assert answers == [Verdict.NOTHING, Verdict.NOTHING, Verdict.FAILED]
    assert not probe.passing


def test_a_success_threshold_counts_only_regular_looks() -> None:
    probe = schedule(ProbeKind.READINESS, period_seconds=1, success_threshold=2)
    probe.answered(True, 0.0, 0.0)
    assert probe.answered(True, 0.1, 0.1).verdict is Verdict.NOTHING
    assert probe.answered(True, 1.0, 1.0).verdict is Verdict.PASSED


def test_liveness_starts_out_well_and_is_never_looked_at_in_between() -> None:
    probe = schedule(ProbeKind.LIVENESS, period_seconds=10, failure_threshold=1)
    assert probe.passing
    probe.answered(True, 0.0, 0.01)
    assert probe.due == 10.0
    assert probe.answered(False, 10.0, 10.0).verdict is Verdict.FAILED


def test_a_startup_probe_that_passed_is_finished() -> None:
    probe = schedule(ProbeKind.STARTUP)
    probe.answered(True, 0.0, 0.0)
    assert probe.finished


@given(
    answers=st.lists(st.tuples(st.booleans(), st.floats(0.0, 0.5)), max_size=80),
    period=st.integers(1, 5),
    threshold=st.integers(1, 4),
)
def test_a_liveness_failure_needs_as_many_periods_as_its_threshold(
    answers: list[tuple[bool, float]], period: int, threshold: int
) -> None:
    """However answers fall, `failureThreshold` bad ones in a row, a period apart, stand before every kill."""
    probe = schedule(ProbeKind.LIVENESS, period_seconds=float(period), failure_threshold=threshold)
    bad_since: list[float] = []
    for good, seconds in answers:
        asked = probe.due
        outcome = probe.answered(good, asked, asked + seconds)
        bad_since = [] if good else [*bad_since, asked]
        assert (outcome.verdict is Verdict.FAILED) == (len(bad_since) == threshold)
        assert probe.due >= asked + period
        if outcome.verdict is Verdict.FAILED:
            bad_since = []

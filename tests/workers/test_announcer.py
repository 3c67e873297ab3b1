"""Problems as events: told once when they last, and once when they are over."""

from noctaya.workers.announcer import LASTING_SECONDS, Announcements
from noctaya.workers.problems import Problem

LEASE = Problem("TenureUnattained", "this worker cannot get the Lease")
KEDA = Problem("KEDAMissing", "install KEDA")


def test_a_problem_that_lasts_is_told_once_and_its_end_too() -> None:
    said = Announcements(LASTING_SECONDS)
    assert said.on([LEASE], 0.0) == []
    assert said.on([LEASE, KEDA], LASTING_SECONDS) == [("Warning", "TenureUnattained", LEASE.message)]
    assert said.on([LEASE, KEDA], LASTING_SECONDS + 0.1) == []
    assert said.on([KEDA], 2 * LASTING_SECONDS) == [
        ("Normal", "TenureUnattained", "TenureUnattained is over"),
        ("Warning", "KEDAMissing", KEDA.message),
    ]


def test_what_passes_in_a_moment_is_no_news() -> None:
    said = Announcements(LASTING_SECONDS)
    assert said.on([KEDA], 0.0) == []
    assert said.on([], 1.0) == []
    assert said.on([KEDA], LASTING_SECONDS) == []


def test_other_words_for_the_same_problem_are_no_news_and_its_return_is() -> None:
    said = Announcements(0.0)
    assert len(said.on([LEASE], 0.0)) == 1
    assert said.on([LEASE._replace(message="it still cannot")], 1.0) == []
    assert len(said.on([], 2.0)) == 1
    assert len(said.on([LEASE], 3.0)) == 1

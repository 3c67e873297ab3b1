"""Which pods count as terminating because their Deployment wants none."""

from noctaya.workers.doomed import Doomed

KEY = "ai/qwen"


def test_pods_that_are_there_when_none_is_wanted_are_doomed() -> None:
    doomed = Doomed()
    assert doomed.wanted(KEY, 0, ["a", "b"])
    assert doomed.among(KEY, ["a", "b"]) == {"a", "b"}
    assert doomed.among("ai/other", ["a"]) == frozenset()


def test_a_pod_of_the_next_wake_is_not_doomed_even_if_its_deployment_is_told_late() -> None:
    doomed = Doomed()
    doomed.wanted(KEY, 0, ["old"])
    assert doomed.among(KEY, ["old", "new"]) == {"old"}


def test_pods_that_are_wanted_again_before_they_went_are_spared() -> None:
    doomed = Doomed()
    doomed.wanted(KEY, 0, ["a"])
    assert doomed.wanted(KEY, 1, ["a"])
    assert doomed.among(KEY, ["a"]) == frozenset()


def test_what_changes_nothing_needs_no_look() -> None:
    doomed = Doomed()
    assert not doomed.wanted(KEY, 0, [])
    assert not doomed.wanted(KEY, 1, ["a"])
    assert doomed.wanted(KEY, 0, ["a"])
    assert not doomed.wanted(KEY, 0, ["a"])


def test_pods_and_services_that_are_gone_are_forgotten() -> None:
    doomed = Doomed()
    doomed.wanted(KEY, 0, ["a"])
    assert doomed.among(KEY, []) == frozenset()
    assert doomed.among(KEY, ["a"]) == frozenset()
    doomed.wanted(KEY, 0, ["a"])
    doomed.forget(KEY)
    assert doomed.among(KEY, ["a"]) == frozenset()

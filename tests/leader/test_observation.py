"""Observation: silence counts only while a change would have been noticed, and old news never counts."""

from __future__ import annotations

import pytest

from noctaya.leader.observation import Observation, ObservationTiming

FENCE = ObservationTiming().fence_after


class KeepsClocksThroughBlindness(Observation):
    """Mutant: clocks are not restarted after the watch was blind."""

    def _healthy_from(self) -> float:
        return float("-inf")


class BelievesOldLists(Observation):
    """Mutant: any list is taken in."""

    def _is_older_believed(self, now: float) -> bool:
        del now
        return True


def hearing(observation: Observation, start: float, end: float) -> None:
    """A watch with a bookmark every second."""
    at = start
    while at <= end:
        observation.hear(at)
        at += 1.0


def test_a_lease_that_stands_unchanged_for_long_enough_has_expired() -> None:
    observation = Observation()
    observation.see("w0", "1", 10.0)
    hearing(observation, 10.0, 10.0 + FENCE)
    assert observation.expired(["w0"], 10.0 + FENCE - 0.01) == []
    assert observation.expired(["w0"], 10.0 + FENCE) == ["w0"]


def test_a_change_starts_the_clock_anew_and_the_same_again_does_not() -> None:
    observation = Observation()
    observation.see("w0", "1", 0.0)
    hearing(observation, 0.0, 4.0)
    observation.see("w0", "1", 5.0)
    assert observation.unchanged_for("w0", 5.0) == 5.0
    observation.see("w0", "2", 6.0)
    assert observation.unchanged_for("w0", 7.0) == 1.0


@pytest.mark.parametrize(
    ("make", "expected"), [(Observation, []), (KeepsClocksThroughBlindness, ["w0", "w1"])]
)
def test_after_a_blind_stretch_all_clocks_run_anew(make: type[Observation], expected: list[str]) -> None:
    """The API server, not the workers, was gone for 20 s: nobody may be taken for dead (F7)."""
    observation = make()
    observation.see("w0", "1", 0.0)
    observation.see("w1", "2", 0.0)
    observation.hear(20.0)
    assert observation.expired(["w0", "w1"], 20.0) == expected
    hearing(observation, 20.0, 20.0 + FENCE)
    assert observation.expired(["w0", "w1"], 20.0 + FENCE) == ["w0", "w1"]


def test_while_blind_nobody_is_expired() -> None:
    observation = Observation()
    observation.see("w0", "1", 0.0)
    assert not observation.is_healthy(30.0)
    assert observation.expired(["w0"], 30.0) == []
    assert observation.unchanged_for("w0", 30.0) == 0.0


@pytest.mark.parametrize(("make", "expected"), [(Observation, False), (BelievesOldLists, True)])
def test_a_list_that_is_older_than_what_was_seen_is_refused(
    make: type[Observation], *, expected: bool
) -> None:
    observation = make()
    observation.see("w0", "50", 0.0)
    assert observation.relist({"w0": "20"}, "30", 1.0) is expected
    assert observation.unchanged_for("w0", 1.0) == (0.0 if expected else 1.0)


def test_an_older_event_changes_nothing_and_is_no_sign_of_a_working_watch() -> None:
    observation = Observation()
    observation.see("w0", "50", 0.0)
    assert not observation.see("w0", "49", 5.0)
    assert not observation.miss("w0", 5.0, "48")
    assert not observation.is_healthy(5.0)


def test_a_server_that_went_back_for_good_is_believed_in_the_end() -> None:
    observation = Observation()
    observation.see("w0", "5000", 0.0)
    patience = observation.timing.believe_older_after
    assert not observation.relist({"w0": "10"}, "11", 1.0)
    assert not observation.relist({"w0": "10"}, "11", patience)
    assert observation.relist({"w0": "10"}, "11", 1.0 + patience)
    assert observation.see("w0", "12", 2.0 + patience)
    assert observation.relist({"w0": "12"}, "13", 3.0 + patience)


def test_a_newer_list_ends_the_patience_with_an_old_server() -> None:
    observation = Observation()
    observation.see("w0", "50", 0.0)
    assert not observation.relist({"w0": "10"}, "11", 1.0)
    assert observation.relist({"w0": "51"}, "52", 2.0)
    assert not observation.relist({"w0": "10"}, "11", 100.0)


def test_a_lease_that_is_not_there_is_waited_out_like_a_silent_one() -> None:
    observation = Observation()
    observation.see("w0", "1", 0.0)
    observation.miss("w0", 4.0, "2")
    observation.expect("w1", 5.0)
    observation.expect("w1", 6.0)
    hearing(observation, 4.0, 20.0)
    assert observation.expired(["w0", "w1"], 4.0 + FENCE) == ["w0"]
    assert observation.expired(["w0", "w1"], 5.0 + FENCE) == ["w0", "w1"]
    assert observation.absent() == ["w0", "w1"]


def test_whoever_a_list_lacks_is_absent_from_then_on() -> None:
    observation = Observation()
    observation.see("w0", "1", 0.0)
    observation.relist({"w1": "2"}, "3", 1.0)
    assert observation.absent() == ["w0"]
    assert observation.unchanged_for("w0", 3.0) == 2.0


def test_a_proof_of_life_starts_the_clock_anew() -> None:
    observation = Observation()
    observation.see("w0", "1", 0.0)
    hearing(observation, 0.0, 9.0)
    observation.restart("w0", 9.0)
    assert observation.expired(["w0"], 10.0) == []


def test_versions_that_are_no_numbers_tell_change_and_nothing_else() -> None:
    observation = Observation()
    observation.see("w0", "b", 0.0)
    assert observation.see("w0", "a", 1.0)
    assert observation.unchanged_for("w0", 1.0) == 0.0


def test_the_unknown_have_not_expired() -> None:
    observation = Observation()
    observation.hear(100.0)
    assert observation.expired(["nobody"], 100.0) == []

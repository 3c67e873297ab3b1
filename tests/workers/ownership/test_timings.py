"""Durations that one part waits for another follow from the three settings, and cannot contradict each other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noctaya.leader.errors import TenureRefused
from noctaya.leader.membership import VIEW_DEADLINE
from noctaya.workers.settings import TenureSettings
from noctaya.workers.shard_state import ShardTiming
from noctaya.workers.timings import Timings


def test_the_defaults_are_those_that_the_simulator_proves() -> None:
    timings = Timings.of(TenureSettings())
    assert timings.view_deadline == VIEW_DEADLINE
    assert timings.shards == ShardTiming()


@given(st.sets(st.floats(0.1, 60), min_size=3, max_size=3))
def test_nobody_makes_a_record_anew_before_its_owner_must_have_noticed(durations: set[float]) -> None:
    renew, deadline, fence = sorted(durations)
    timings = Timings.of(
        TenureSettings(renew_every_seconds=renew, self_deadline_seconds=deadline, fence_after_seconds=fence)
    )
    rates = fence / deadline
    assert timings.shards.absent_after > timings.view_deadline * rates
    assert timings.shards.fence_after == fence == timings.planner("w0").timing.observation.fence_after
    assert timings.lease_watch.silence_seconds < timings.view_deadline


def test_settings_under_which_two_could_act_are_refused() -> None:
    with pytest.raises(TenureRefused, match="two workers could act"):
        Timings.of(TenureSettings(self_deadline_seconds=9.0))

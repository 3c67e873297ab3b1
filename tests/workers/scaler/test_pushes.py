"""When `true` is pushed, in virtual time."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from noctaya.workers.pushes import Cause, Push, Pushes

KEY = "ai/qwen"


def drive(pushes: Pushes, start: float, end: float) -> list[tuple[float, Push]]:
    """Let time pass, ticking when the policy asks for it."""
    seen: list[tuple[float, Push]] = []
    now = start
    while (due := pushes.next_at(now)) is not None and due <= end:
        now = max(due, now + 1e-3)
        seen += [(now, push) for push in pushes.tick(now)]
    return seen


def test_the_first_edge_is_pushed_at_once_and_again_after_3_and_10_seconds_while_unserved() -> None:
    pushes = Pushes(lambda key: False)
    assert pushes.opened(1, KEY, is_active=False, now=0.0) == []
    assert pushes.rose(KEY, 100.0) == [Push(KEY, (1,), Cause.EDGE)]
    later = drive(pushes, 100.0, 200.0)
    assert [round(at, 1) for at, _ in later] == [103.0, 110.0]
    assert {push.cause for _, push in later} == {Cause.REASSERTED}


def test_nothing_is_re_asserted_once_the_service_has_replicas_or_nobody_waits() -> None:
    served = False
    pushes = Pushes(lambda key: served)
    pushes.opened(1, KEY, is_active=False, now=0.0)
    pushes.rose(KEY, 100.0)
    served = True
    assert drive(pushes, 100.0, 200.0) == []
    served = False
    pushes.rose(KEY, 300.0)
    pushes.fell(KEY)
    assert drive(pushes, 300.0, 400.0) == []


def test_a_stream_that_opens_on_active_demand_gets_it_at_once_and_others_get_nothing() -> None:
    pushes = Pushes(lambda key: False)
    assert pushes.rose(KEY, 100.0) == []
    assert pushes.opened(1, KEY, is_active=True, now=101.0) == [Push(KEY, (1,), Cause.OPENED)]
    assert pushes.opened(2, "ai/other", is_active=False, now=101.0) == []


def test_every_stream_of_a_service_gets_the_push() -> None:
    pushes = Pushes(lambda key: False)
    pushes.opened(1, KEY, is_active=False, now=0.0)
    pushes.opened(2, KEY, is_active=False, now=0.0)
    pushes.closed(1)
    pushes.opened(3, KEY, is_active=False, now=0.0)
    assert pushes.rose(KEY, 1.0) == [Push(KEY, (2, 3), Cause.EDGE)]


def test_short_requests_to_a_served_model_refresh_it_now_and_then() -> None:
    pushes = Pushes(lambda key: True)
    pushes.opened(1, KEY, is_active=False, now=0.0)
    times = []
    for tenth in range(600):
        now = 100.0 + tenth / 10
        times += [now for _ in pushes.tick(now)]
        times += [now for _ in pushes.rose(KEY, now)]
        if tenth % 2:
            pushes.fell(KEY)
    assert 3 <= len(times) <= 5
    assert all(after - before >= 14.9 for before, after in itertools.pairwise(times))


def test_re_assertions_share_five_a_second_and_first_edges_do_not_wait_for_them() -> None:
    pushes = Pushes(lambda key: False)
    keys = [f"ai/{number}" for number in range(100)]
    for stream, key in enumerate(keys):
        pushes.opened(stream, key, is_active=False, now=0.0)
    assert sum(len(pushes.rose(key, 100.0)) for key in keys) == 100
    later = [at for at, _ in drive(pushes, 100.0, 113.0)]
    assert all(len([at for at in later if start <= at < start + 1]) <= 10 for start in range(100, 114))
    assert len(later) <= 5 + 5 * 11


@settings(max_examples=200)
@given(
    st.lists(
        st.tuples(st.sampled_from(["open", "close", "rise", "fall", "wait"]), st.integers(0, 3)), max_size=60
    )
)
def test_true_goes_only_to_open_streams_of_services_with_demand(story: list[tuple[str, int]]) -> None:
    pushes, now, open_streams, active, serial = (
        Pushes(lambda key: key.endswith("3")),
        0.0,
        dict[int, str](),
        set(),
        0,
    )
    for what, number in story:
        key, sent = f"ai/{number}", list[Push]()
        if what == "open":
            serial += 1
            open_streams[serial] = key
            sent = pushes.opened(serial, key, is_active=key in active, now=now)
        elif what == "close" and open_streams:
            stream = sorted(open_streams)[number % len(open_streams)]
            del open_streams[stream]
            pushes.closed(stream)
        elif what == "rise":
            active.add(key)
            sent = pushes.rose(key, now)
        elif what == "fall":
            active.discard(key)
            pushes.fell(key)
        elif what == "wait":
            now += 0.7 + number * 3
            sent = pushes.tick(now)
        for push in sent:
            assert push.key in active
            assert all(open_streams.get(stream) == push.key for stream in push.streams)
    assert len(pushes._due) <= 4 * len(story)


def test_the_common_rate_is_shared_by_all_workers() -> None:
    """Ten wakes re-asserted at once: alone five go out at once, as one of five workers or more one does, and the others follow."""
    for workers, expected in ((1, 5), (5, 1), (6, 1), (50, 1)):
        pushes = Pushes(lambda key: False)
        pushes.share(workers, 0.0)
        for number in range(10):
            pushes.opened(number, f"ai/m{number}", is_active=False, now=100.0)
            pushes.rose(f"ai/m{number}", 100.0)
        assert len(pushes.tick(103.0)) == expected
        assert len(drive(pushes, 103.0, 103.0 + 11 * workers / 5)) >= 10 - expected


def test_a_model_that_sleeps_again_just_after_a_push_is_not_made_to_wait_for_its_refresh() -> None:
    served = True
    pushes = Pushes(lambda key: served)
    pushes.opened(1, KEY, is_active=False, now=0.0)
    assert pushes.rose(KEY, 100.0) != []
    assert pushes.rose(KEY, 100.2) == [], "a refresh is planned, 15 s from now"
    pushes.fell(KEY)
    served = False
    assert pushes.rose(KEY, 100.5) == []
    assert [round(at, 1) for at, _ in drive(pushes, 100.5, 120.0)] == [101.0, 103.0, 110.0]

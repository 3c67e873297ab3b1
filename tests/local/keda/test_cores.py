"""The small pure pieces: reopening, hearing a push, numbers, addresses, look-ups, the limiter's bucket, records, status patches."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noctaya.local.keda import conditions
from noctaya.local.keda.addresses import Direct, Named, parse
from noctaya.local.keda.limiter import Bucket
from noctaya.local.keda.pushing import Reopening, is_heard
from noctaya.local.keda.records import Record, Records
from noctaya.local.keda.resolving import Resolution
from noctaya.local.keda.status import StatusChange, patch_for
from noctaya.local.keda.values import chosen, milli, parse_quantity, quantity
from tests.local.keda.fakes import record_of


def test_s2_errors_double_the_delay_to_a_minute_and_an_ok_end_brings_two_seconds() -> None:
    reopening = Reopening()
    assert [reopening.ended(ok=False) for _ in range(7)] == [2, 4, 8, 16, 32, 60, 60]
    assert [reopening.ended(ok=True) for _ in range(3)] == [2, 2, 2]
    assert reopening.ended(ok=False) == 4


@given(st.lists(st.booleans()))
def test_s2_every_delay_lies_between_two_seconds_and_a_minute_and_ok_is_always_two(ends: list[bool]) -> None:
    reopening = Reopening()
    for ok in ends:
        delay = reopening.ended(ok=ok)
        assert 2 <= delay <= 60
        assert not ok or delay == 2


def test_s6_s7_only_true_for_a_known_metric_of_this_trigger_is_heard() -> None:
    assert is_heard(True, 1, ["s0-a", "s1-b"])
    assert not is_heard(True, 1, ["s0-a", "s11-b"])
    assert not is_heard(True, 0, [])
    assert not is_heard(False, 0, ["s0-a"])


@pytest.mark.parametrize(
    ("as_float", "as_integer", "thousandths"),
    [
        (2.5, 7, 2500),
        (0.0, 7, 7000),
        (-1.0, 7, 7000),
        (0.0004, 0, 0),
        (0.0006, 0, 1),
        (float("nan"), 3, 3000),
        (float("inf"), 0, 0),
        (0.0, -3, 0),
    ],
)
def test_p4_the_float_wins_above_zero_and_nonsense_is_zero(
    as_float: float, as_integer: int, thousandths: int
) -> None:
    assert milli(chosen(as_float, as_integer)) == thousandths


@given(st.integers(0, 10**12))
def test_a_quantity_is_read_back_as_it_was_written(thousandths: int) -> None:
    assert parse_quantity(quantity(thousandths)) == thousandths


@pytest.mark.parametrize(
    ("address", "meaning"),
    [
        ("noctaya-scaler.noctaya-system.svc:9090", Named("noctaya-scaler.noctaya-system.svc", 9090)),
        ("dns:///scaler.test:1", Named("scaler.test", 1)),
        ("127.0.0.1:9090", Direct("ipv4:127.0.0.1:9090")),
        ("passthrough:///10.0.0.1:2", Direct("ipv4:10.0.0.1:2")),
        ("[::1]:9090", Direct("ipv6:[::1]:9090")),
        ("localhost:9090", Direct("dns:///localhost:9090")),
        ("unix:///run/scaler.sock", Direct("unix:///run/scaler.sock")),
    ],
)
def test_an_address_is_a_name_or_passes_through(address: str, meaning: Direct | Named) -> None:
    assert parse(address) == meaning


def test_c2_look_ups_follow_a_loss_and_lie_thirty_seconds_apart() -> None:
    resolution = Resolution(30.0, 1.0, 120.0)
    assert resolution.due(0.0) == 0.0
    resolution.started()
    resolution.succeeded(0.0)
    assert resolution.due(100.0) is None
    resolution.connection_lost()
    assert resolution.due(10.0) == 20.0
    assert resolution.due(40.0) == 0.0
    resolution.started()
    resolution.connection_lost()
    resolution.succeeded(40.0)
    assert resolution.due(40.0) == 30.0


def test_c2_a_look_up_that_failed_is_repeated_with_growing_delays() -> None:
    resolution = Resolution(30.0, 1.0, 2.0)
    delays = []
    for _ in range(4):
        resolution.started()
        resolution.failed(0.0)
        delays.append(resolution.due(0.0))
    assert delays == pytest.approx([1.0, 1.6, 2.0, 2.0])


@given(st.lists(st.floats(0, 0.2), min_size=1, max_size=80))
def test_q1_no_window_holds_more_than_the_burst_and_the_rate(gaps: list[float]) -> None:
    bucket, now, starts = Bucket(20.0, 30), 0.0, []
    for gap in gaps:
        now += gap
        starts.append(now + bucket.reserve(now))
    assert starts == sorted(starts)
    for first, at in enumerate(starts):
        for last in range(first, len(starts)):
            assert last - first + 1 <= 30 + 20.0 * (starts[last] - at) + 1e-6


def record(version: int, uid: str = "a", **more: object) -> Record:
    return record_of(
        {"metadata": {"namespace": "ai", "name": "m", "uid": uid, "resourceVersion": str(version)}, **more}
    )


def test_an_older_record_never_replaces_a_newer_one_and_a_late_answer_does_not_bring_back_the_dead() -> None:
    records = Records()
    assert records.saw(record(5))
    assert not records.saw(record(4))
    assert records.saw(record(3, uid="b"))
    records.saw_gone(record(5))
    assert records.get(("ai", "m")) == record(3, uid="b")
    records.saw_gone(record(3, uid="b"))
    assert not records.saw(record(9, uid="b"))
    assert list(records) == []


def test_a_status_patch_holds_only_what_changes_but_always_the_last_active_time() -> None:
    status = {
        "conditions": [conditions.READY_TRUE.as_json()],
        "lastActiveTime": "1970-01-01T00:00:07Z",
        "triggersActivity": {"s0-a": {"isActive": True}},
        "hpaName": "x",
    }
    same = StatusChange(
        (conditions.READY_TRUE,), None, {"s0-a": True}, {"hpaName": "x", "pausedReplicaCount": None}
    )
    assert patch_for(status, same) == {}
    assert patch_for(status, StatusChange(last_active_at=7.9)) == {"lastActiveTime": "1970-01-01T00:00:07Z"}
    changed = patch_for(
        status, StatusChange((conditions.ACTIVE_TRUE,), None, {"s0-a": False}, {"hpaName": None})
    )
    assert [entry["type"] for entry in changed["conditions"]] == ["Ready", "Active"]
    assert changed["triggersActivity"] == {"s0-a": {"isActive": False}}
    assert changed["hpaName"] is None

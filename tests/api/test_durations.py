"""Durations read and print as Go's do. The cases were checked against Go's `time` package."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from noctaya.api import Duration, InvalidDuration

NANOSECONDS = st.integers(min_value=-(2**63), max_value=2**63 - 1)
MICRO, GREEK_MU = "\N{MICRO SIGN}", "\N{GREEK SMALL LETTER MU}"


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("5m", 300_000_000_000),
        ("1h30m", 5_400_000_000_000),
        ("1.5s", 1_500_000_000),
        ("500ms", 500_000_000),
        (f"10{MICRO}s", 10_000),
        (f"10{GREEK_MU}s", 10_000),
        ("10us", 10_000),
        ("7ns", 7),
        ("-1m", -60_000_000_000),
        ("+1m", 60_000_000_000),
        ("0", 0),
        ("-0", 0),
        (".5s", 500_000_000),
        ("1.s", 1_000_000_000),
        ("1s1h1s", 3_602_000_000_000),
        ("0.9ns", 0),
        ("2562047h47m16.854775807s", 2**63 - 1),
    ],
)
def test_a_go_duration_is_read(text: str, nanoseconds: int) -> None:
    assert Duration.parse(text).nanoseconds == nanoseconds


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("-", "empty"),
        ("5", "no unit"),
        ("1.5", "no unit"),
        ("5 m", "' m' is not a unit"),
        ("1d", "'d' is not a unit"),
        ("PT5M", "'PT' is not a unit"),
        (".s", "not a number"),
        ("1.2.3s", "not a number"),
        ("1m-1s", "not a number"),
        ("2562047h47m16.854775808s", "292 years"),
        ("99999999999999999999h", "292 years"),
    ],
)
def test_anything_else_is_refused_with_what_is_wrong(text: str, says: str) -> None:
    with pytest.raises(InvalidDuration, match=says) as refusal:
        Duration.parse(text)
    assert repr(text) in str(refusal.value)


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("5m", "5m0s"),
        ("90m", "1h30m0s"),
        ("1h", "1h0m0s"),
        ("1500ms", "1.5s"),
        ("1500us", "1.5ms"),
        ("1500ns", f"1.5{MICRO}s"),
        ("999ns", "999ns"),
        ("0s", "0s"),
        ("-90s", "-1m30s"),
    ],
)
def test_a_duration_prints_as_go_prints_it(text: str, printed: str) -> None:
    assert str(Duration.parse(text)) == printed


@given(NANOSECONDS)
def test_what_is_printed_is_read_back(nanoseconds: int) -> None:
    duration = Duration(nanoseconds)
    assert Duration.parse(str(duration)) == duration


@given(st.text(alphabet="0123456789.-+hmsnuµ ", max_size=12))
def test_no_text_does_more_than_parse_or_be_refused(text: str) -> None:
    try:
        duration = Duration.parse(text)
    except InvalidDuration:
        return
    assert Duration.parse(str(duration)) == duration


def test_durations_compare_and_convert() -> None:
    assert Duration.parse("1m") < Duration.parse("61s")
    assert Duration.of_seconds(1.5) == Duration.parse("1500ms")
    assert Duration.parse("250ms").seconds == 0.25
    assert not Duration.parse("0s")
    assert Duration.parse("1ns")


def test_a_model_reads_and_writes_durations_as_text() -> None:
    adapter = TypeAdapter(Duration)
    assert adapter.validate_python("5m") == Duration.parse("5m")
    assert adapter.validate_json('"5m"') == Duration.parse("5m")
    assert adapter.dump_json(Duration.parse("5m")) == b'"5m0s"'
    with pytest.raises(ValidationError, match="must be a string"):
        adapter.validate_python(300)

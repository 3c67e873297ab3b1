"""Quantities mean what they mean to Kubernetes. The cases were checked against its own parser."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from noctaya.api import InvalidQuantity, Quantity


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1", "1"),
        ("500m", "0.5"),
        ("50Gi", str(50 * 2**30)),
        ("1.5G", "1500000000"),
        ("1.5Gi", str(3 * 2**29)),
        ("100k", "100000"),
        ("1E", "1000000000000000000"),
        ("1Ei", str(2**60)),
        ("1e3", "1000"),
        ("1E3", "1000"),
        ("5e-2", "0.05"),
        (".5", "0.5"),
        ("2.", "2"),
        ("-1Ki", "-1024"),
        ("+7", "7"),
        ("3n", "0.000000003"),
        ("0", "0"),
    ],
)
def test_a_quantity_has_its_exact_value_and_keeps_its_text(text: str, value: str) -> None:
    quantity = Quantity.parse(text)
    assert quantity.value == Decimal(value)
    assert str(quantity) == text


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "empty"),
        ("lots", "does not begin with a number"),
        ("50GB", "'GB' is not a suffix"),
        ("5 Gi", "' Gi' is not a suffix"),
        ("1e", "'e' is not a suffix"),
        ("1e1.5", "'e1.5' is not a suffix"),
        ("10Ei", "larger than"),
        ("1e999", "larger than"),
        ("1e99999999999", "not a suffix"),
        ("9" * 129, "longer than 128"),
    ],
)
def test_anything_else_is_refused_with_what_is_wrong(text: str, says: str) -> None:
    with pytest.raises(InvalidQuantity, match=says):
        Quantity.parse(text)


def test_bytes_and_thousandths_are_rounded_up() -> None:
    assert Quantity.parse("1500m").whole == 2
    assert Quantity.parse("1n").whole == 1
    assert Quantity.parse("1u").milli == 1
    assert Quantity.parse("1.5").milli == 1500
    assert Quantity.parse("1.1Ki").whole == 1127


def test_quantities_compare_by_value() -> None:
    assert Quantity.parse("1Gi") == Quantity.parse("1024Mi")
    assert hash(Quantity.parse("1Gi")) == hash(Quantity.parse("1024Mi"))
    assert Quantity.parse("1G") < Quantity.parse("1Gi")
    assert not Quantity.parse("0Gi")


@given(st.integers(min_value=-(2**63) + 1, max_value=2**63 - 1))
def test_whole_numbers_come_back(number: int) -> None:
    assert Quantity.parse(number).whole == number
    assert Quantity.parse(str(number)) == Quantity.parse(number)


@given(st.decimals(min_value=0, max_value=9000, places=9), st.sampled_from(["", "m", "k", "Mi", "G", "Ti"]))
def test_the_text_of_a_quantity_reads_as_the_same_quantity(number: Decimal, suffix: str) -> None:
    quantity = Quantity.parse(f"{number:f}{suffix}")
    assert Quantity.parse(str(quantity)) == quantity
    assert quantity.whole >= quantity.value > quantity.whole - 1


@given(st.text(alphabet="0123456789.eE+-KMGimnu ", max_size=10))
def test_no_text_does_more_than_parse_or_be_refused(text: str) -> None:
    try:
        quantity = Quantity.parse(text)
    except InvalidQuantity:
        return
    assert abs(quantity.whole) <= 2**63


def test_a_model_reads_numbers_and_texts_and_writes_the_text() -> None:
    adapter = TypeAdapter(Quantity)
    assert adapter.validate_python(4) == adapter.validate_python("4")
    assert adapter.dump_json(adapter.validate_python("50Gi")) == b'"50Gi"'
    for wrong in (True, 1.5, None, "x"):
        with pytest.raises(ValidationError):
            adapter.validate_python(wrong)

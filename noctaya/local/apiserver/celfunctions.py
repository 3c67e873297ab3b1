"""Kubernetes' CEL functions that the evaluator lacks: quantities, URLs, strings, lists, and Go durations.

A method `x.f(y)` is a function whose first argument is its receiver. Quantities are plain numbers here: comparison and
arithmetic are exact (`Fraction`) behind the functions, and a rule never sees their inside.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from datetime import timedelta
from fractions import Fraction
from typing import Any
from urllib.parse import urlsplit

_QUANTITY = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?\d+))?")
_SCALES = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000), "k": Fraction(10**3), "M": Fraction(10**6),
    "G": Fraction(10**9), "T": Fraction(10**12), "P": Fraction(10**15), "E": Fraction(10**18), "Ki": Fraction(2**10),
    "Mi": Fraction(2**20), "Gi": Fraction(2**30), "Ti": Fraction(2**40), "Pi": Fraction(2**50), "Ei": Fraction(2**60),
}  # fmt: skip
_DURATION_PART = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)")
_DURATION = re.compile(rf"[-+]?(?:0|(?:{_DURATION_PART.pattern})+)")
_MICROSECONDS = {
    "ns": Fraction(1, 1000), "us": Fraction(1), "µs": Fraction(1), "μs": Fraction(1), "ms": Fraction(1000),
    "s": Fraction(10**6), "m": Fraction(60 * 10**6), "h": Fraction(3600 * 10**6),
}  # fmt: skip


def quantity_value(text: Any) -> Fraction:
    """A Kubernetes quantity as an exact number; raises ValueError."""
    match = _QUANTITY.fullmatch(str(text))
    if match is None:
        raise ValueError(
            "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
        )
    number, suffix, exponent = match.groups()
    scale = _SCALES[suffix] if suffix else Fraction(10) ** int(exponent) if exponent else Fraction(1)
    return Fraction(number) * scale


def _quantity(text: Any) -> str:
    quantity_value(text)
    return str(text)


def _is(parse: Callable[[str], object]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            parse(text)
        except ValueError:
            return False
        return True

    return check


def go_duration(text: str) -> timedelta:
    """A Go duration; raises ValueError."""
    if _DURATION.fullmatch(text) is None:
        raise ValueError(f'time: invalid duration "{text}"')
    total = sum((Fraction(n) * _MICROSECONDS[unit] for n, unit in _DURATION_PART.findall(text)), Fraction(0))
    return timedelta(microseconds=float(-total if text.startswith("-") else total))


def _url(text: str) -> str:
    parts = urlsplit(text)
    if not (parts.scheme or text.startswith("/")):
        raise ValueError(
            f"URL parse error during conversion from string: parse {text!r}: invalid URI for request"
        )
    return text


def _compare(left: Any, right: Any) -> int:
    one, other = quantity_value(left), quantity_value(right)
    return (one > other) - (one < other)


def _substring(text: str, start: int, end: int | None = None) -> str:
    return text[start : len(text) if end is None else end]


def _find(text: str, pattern: str) -> str:
    found = re.search(pattern, text)
    return found.group(0) if found else ""


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "quantity": _quantity,
    "isQuantity": _is(quantity_value),
    "isGreaterThan": lambda one, other: _compare(one, other) > 0,
    "isLessThan": lambda one, other: _compare(one, other) < 0,
    "compareTo": _compare,
    "sign": lambda one: _compare(one, "0"),
    "isInteger": lambda one: quantity_value(one).denominator == 1,
    "asInteger": lambda one: int(quantity_value(one)),
    "asApproximateFloat": lambda one: float(quantity_value(one)),
    "url": _url,
    "isURL": _is(_url),
    "getScheme": lambda text: urlsplit(text).scheme,
    "getHost": lambda text: urlsplit(text).netloc.rpartition("@")[2],
    "getHostname": lambda text: urlsplit(text).hostname or "",
    "getPort": lambda text: str(urlsplit(text).port or ""),
    "getEscapedPath": lambda text: urlsplit(text).path,
    "isIP": _is(ipaddress.ip_address),
    "isCIDR": _is(ipaddress.ip_network),
    "split": lambda text, separator, limit=-1: text.split(separator, limit - 1 if limit > 0 else -1),
    "join": lambda parts, separator="": separator.join(parts),
    "replace": lambda text, old, new, count=-1: text.replace(old, new, count),
    "substring": _substring,
    "trim": str.strip,
    "lowerAscii": str.lower,
    "upperAscii": str.upper,
    "indexOf": lambda found, part: found.index(part) if part in found else -1,
    "charAt": lambda text, index: text[index : index + 1],
    "find": _find,
    "findAll": lambda text, pattern, limit=-1: [m.group(0) for m in re.finditer(pattern, text)][
        : limit if limit >= 0 else None
    ],
    "sum": sum,
    "isSorted": lambda values: list(values) == sorted(values),
}

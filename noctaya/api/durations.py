"""Go durations: the way that the Kubernetes API writes a length of time (`5m`, `1h30m`, `1.5s`, `500ms`).

`Duration` is exact (whole nanoseconds) and prints as Go prints, so `5m` comes out as `5m0s`. Parsing follows Go's
`time.ParseDuration`, its quirks included (units in any order and repeated, `0` without a unit, 64 bits of nanoseconds);
anything else raises `InvalidDuration`. pydantic is needed only by those who put a `Duration` in a model.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from noctaya.api.errors import InvalidDuration

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

MAX_LENGTH: Final = 64
"""Longest text that the API accepts for a duration: bounds the cost of its CEL rules."""

_UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # U+00B5, the micro sign
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_SECOND: Final = _UNITS["s"]
_MINUTE: Final = _UNITS["m"]
_HOUR: Final = _UNITS["h"]
_LOWEST: Final = -(2**63)
_HIGHEST: Final = 2**63 - 1

PATTERN: Final = "[-+]?(0|(([0-9]+([.][0-9]*)?|[.][0-9]+)(ns|us|µs|μs|ms|s|m|h))+)"
"""What `Duration.parse` accepts, as a regular expression that Go, Rust and Python read alike (size apart)."""

_WHOLE: Final = re.compile(PATTERN)
_TERM: Final = re.compile("([0-9]*)[.]?([0-9]*)([^0-9.]+)")


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A signed length of time in whole nanoseconds."""

    nanoseconds: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """The duration that `text` spells. Raises `InvalidDuration`."""
        if not _WHOLE.fullmatch(text):
            raise InvalidDuration(text, _what_is_wrong(text))
        total = 0
        for whole, fraction, unit in _TERM.findall(text.lstrip("+-")):
            scale = _UNITS[unit]
            total += int(whole or 0) * scale + int(fraction or 0) * scale // 10 ** len(fraction)
        return cls._checked(-total if text.startswith("-") else total, text)

    @classmethod
    def of_seconds(cls, seconds: float) -> Self:
        """The duration nearest to `seconds`."""
        return cls._checked(round(seconds * _SECOND), f"{seconds}s")

    @classmethod
    def _checked(cls, nanoseconds: int, text: str) -> Self:
        if not _LOWEST <= nanoseconds <= _HIGHEST:
            raise InvalidDuration(text, "it is longer than 292 years")
        return cls(nanoseconds)

    @property
    def seconds(self) -> float:
        return self.nanoseconds / _SECOND

    def __bool__(self) -> bool:
        return self.nanoseconds != 0

    def __str__(self) -> str:
        """As Go prints it: `1h30m0s`, `1.5s`, `500ms`, `1.5µs`, `0s`."""
        sign = "-" if self.nanoseconds < 0 else ""
        left = abs(self.nanoseconds)
        if left < _SECOND:
            for unit in ("ms", "µs"):
                if left >= _UNITS[unit]:
                    return sign + _decimal(left, _UNITS[unit]) + unit
            return f"{sign}{left}ns" if left else "0s"
        hours, left = divmod(left, _HOUR)
        minutes, left = divmod(left, _MINUTE)
        text = _decimal(left, _SECOND) + "s"
        if hours or minutes:
            text = f"{minutes}m{text}"
        if hours:
            text = f"{hours}h{text}"
        return sign + text

    @classmethod
    def __get_pydantic_core_schema__(cls, source: type, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema

        return core_schema.no_info_plain_validator_function(
            cls._from_json, serialization=core_schema.to_string_ser_schema(when_used="json")
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        # No `format: duration`: in a CRD that admits more than Go durations ("1 day"). The rule of the field decides.
        return {"type": "string", "maxLength": MAX_LENGTH}

    @classmethod
    def _from_json(cls, value: Any) -> Duration:
        if isinstance(value, Duration):
            return value
        if not isinstance(value, str):
            raise InvalidDuration(str(value), "it must be a string")
        return cls.parse(value)


def _decimal(amount: int, unit: int) -> str:
    """`amount` / `unit` without trailing zeros; `unit` is a power of ten."""
    whole, rest = divmod(amount, unit)
    if not rest:
        return str(whole)
    return f"{whole}.{rest:0{len(str(unit)) - 1}d}".rstrip("0")


def _what_is_wrong(text: str) -> str:
    digits = text.lstrip("+-")
    if not digits:
        return "it is empty"
    if re.fullmatch(r"[0-9.]+", digits):
        return "it has no unit"
    for unit in re.findall(r"[^0-9.+-]+", digits):
        if unit not in _UNITS:
            return f"{unit!r} is not a unit (ns, us, ms, s, m, h)"
    return "it is not a number and a unit, repeated"

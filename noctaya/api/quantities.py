"""Kubernetes quantities: `500m` of a CPU, `50Gi` of a disk.

`Quantity` keeps the text as written (what goes back into a child object is what the user wrote) and knows its exact
value. Two quantities are equal when their values are: `1Gi` is `1024Mi`. A text that Kubernetes would refuse, or clamp to
64 bits, raises `InvalidQuantity`. pydantic is needed only by those who put a `Quantity` in a model.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import ROUND_UP, Decimal, localcontext
from typing import TYPE_CHECKING, Any, Final, Self

from noctaya.api.errors import InvalidQuantity

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic.json_schema import JsonSchemaValue
    from pydantic_core import CoreSchema

PATTERN: Final = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$"
"""The pattern that Kubernetes' own generated schemas carry. It admits fractional exponents; `parse` does not."""

_TEXT: Final = re.compile(
    r"(?P<number>[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+))(?:(?P<suffix>[KMGTPE]i|[numkMGTPE])|[eE](?P<exponent>[+-]?[0-9]{1,3}))?"
)
_SUFFIXES: Final[dict[str | None, Decimal]] = {
    None: Decimal(1),
    **{
        suffix: Decimal(10) ** power
        for suffix, power in zip("numkMGTPE", (-9, -6, -3, 3, 6, 9, 12, 15, 18), strict=True)
    },
    **{f"{suffix}i": Decimal(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}
_LIMIT: Final = Decimal(2**63)
_MAX_LENGTH: Final = 128
_PRECISION: Final = 512
"""Digits of intermediate results: a text of `_MAX_LENGTH` times the largest suffix stays exact."""


@dataclass(frozen=True, slots=True, order=True)
class Quantity:
    """An amount of something that Kubernetes counts; compares by `value`, prints as written."""

    value: Decimal
    """Exact, in the base unit (bytes, cores)."""
    text: str = field(compare=False)
    """As written."""

    @classmethod
    def parse(cls, text: str | int) -> Self:
        """The quantity that `text` spells. Raises `InvalidQuantity`."""
        text = str(text)
        match = _TEXT.fullmatch(text) if len(text) <= _MAX_LENGTH else None
        if match is None:
            raise InvalidQuantity(text[:_MAX_LENGTH], _what_is_wrong(text))
        with localcontext(prec=_PRECISION):
            value = Decimal(match["number"]) * _SUFFIXES[match["suffix"]]
            if match["exponent"]:
                value = value.scaleb(int(match["exponent"]))
        if abs(value) >= _LIMIT:
            raise InvalidQuantity(text, "it is larger than Kubernetes can hold (2^63)")
        return cls(value, text)

    @property
    def whole(self) -> int:
        """Rounded away from zero to whole base units, as Kubernetes does for bytes."""
        return int(self.value.to_integral_value(ROUND_UP))

    @property
    def milli(self) -> int:
        """Rounded away from zero to thousandths, as Kubernetes does for CPU."""
        with localcontext(prec=_PRECISION):
            return int((self.value * 1000).to_integral_value(ROUND_UP))

    def __bool__(self) -> bool:
        return bool(self.value)

    def __str__(self) -> str:
        return self.text

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
        return {
            "anyOf": [{"type": "integer"}, {"type": "string"}],
            "maxLength": _MAX_LENGTH,
            "pattern": PATTERN,
            "x-kubernetes-int-or-string": True,
        }

    @classmethod
    def _from_json(cls, value: Any) -> Quantity:
        if isinstance(value, Quantity):
            return value
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise InvalidQuantity(str(value), "it must be a string or a whole number")
        return cls.parse(value)


def _what_is_wrong(text: str) -> str:
    if not text:
        return "it is empty"
    if len(text) > _MAX_LENGTH:
        return f"it is longer than {_MAX_LENGTH} characters"
    number = re.match(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)", text)
    if number is None:
        return "it does not begin with a number"
    return f"{text[number.end() :]!r} is not a suffix (n, u, m, k, M, G, T, P, E, Ki, Mi, Gi, Ti, Pi, Ei) or exponent"

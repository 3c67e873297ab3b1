"""Numbers as KEDA and the horizontal pod autoscaler see them: targets, values, and thousandths (behaviour P4)."""

import math

MILLI = 1000


def chosen(as_float: float, as_integer: int) -> float:
    """Of the two fields of a MetricSpec or MetricValue: the float when it is above zero, else the integer."""
    return as_float if as_float > 0 else float(as_integer)


def milli(value: float) -> int:
    """`value` in thousandths, rounded; what is negative or no number counts as zero (2.20)."""
    if not math.isfinite(value) or value < 0:
        return 0
    return int(format(value, ".3f").replace(".", ""))


def quantity(thousandths: int) -> str:
    """A Kubernetes quantity in its shortest canonical form: `2`, `1500m`."""
    whole, rest = divmod(thousandths, MILLI)
    return f"{thousandths}m" if rest else str(whole)


def parse_quantity(text: str | float) -> int:
    """Thousandths of a quantity that we wrote ourselves, or of a plain number.

    Raises ValueError for suffixes other than `m`: no HPA of ours carries one.
    """
    text = str(text)
    if text.endswith("m"):
        return int(text[:-1])
    return milli(float(text))

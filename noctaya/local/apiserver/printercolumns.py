"""`additionalPrinterColumns` of custom resources: the subset of JSONPath that they use, and their cells."""

from __future__ import annotations

import re
from collections.abc import Callable

from noctaya.local.apiserver import columns
from noctaya.local.apiserver.kinds import Column
from noctaya.local.apiserver.status import Json, Object
from noctaya.local.apiserver.tablecells import age

_STEP = re.compile(
    r"""\.(?P<field>[A-Za-z0-9_/-](?:\\\.|[A-Za-z0-9_/-])*)      # .field, with \. for a dot in a name
      | \[\s*(?P<index>-?\d+|\*)\s*\]                            # [0] or [*]
      | \[\s*['"](?P<quoted>[^'"]+)['"]\s*\]                     # ['a.b/c']
      | \[\?\(\s*@\.(?P<key>[\w.]+)\s*==\s*['"](?P<value>[^'"]*)['"]\s*\)\]  # [?(@.type=="Ready")]
    """,
    re.VERBOSE,
)


def columns_of(declared: list[Object] | None) -> tuple[Column, ...]:
    """Columns of a definition's version: the name first, and an age where none is declared."""
    if not declared:
        return columns.PLAIN
    return (columns.NAME, *(_column(one) for one in declared))


def _column(declared: Object) -> Column:
    read = compiled(declared["jsonPath"])
    is_date = declared.get("type") == "date"

    def cell(found: Object, now: float) -> Json:
        values = read(found)
        if not values:
            return None if not is_date else "<unknown>"
        if is_date:
            return age(values[0], now)
        shown = values[0] if len(values) == 1 else ",".join(str(value) for value in values)
        return _text(shown) if isinstance(shown, (dict, list)) else shown

    return Column(
        declared["name"],
        cell,
        type=declared.get("type", "string") if not is_date else "date",
        format=declared.get("format", ""),
        description=declared.get("description")
        or f"Custom resource definition column (in JSONPath format): {declared['jsonPath']}",
        priority=declared.get("priority", 0),
    )


def _text(value: Json) -> str:
    if isinstance(value, list):
        return "[" + " ".join(str(one) for one in value) + "]"
    return "map[" + " ".join(f"{key}:{one}" for key, one in sorted(value.items())) + "]"


def compiled(path: str) -> Callable[[Object], list[Json]]:
    """A reader for a JSONPath; raises ValueError for what the subset does not know."""
    text = path.strip().removeprefix("{").removesuffix("}").removeprefix("$")
    steps, position = [], 0
    while position < len(text):
        match = _STEP.match(text, position)
        if match is None:
            raise ValueError(f"cannot read the JSONPath {path!r} at {text[position:]!r}")
        steps.append(match)
        position = match.end()

    def read(found: Object) -> list[Json]:
        values: list[Json] = [found]
        for step in steps:
            values = [below for value in values for below in _below(value, step)]
        return [value for value in values if value is not None]

    return read


def _below(value: Json, step: re.Match[str]) -> list[Json]:
    field = step["quoted"] or (step["field"] or "").replace("\\.", ".")
    if field:
        return [value[field]] if isinstance(value, dict) and field in value else []
    if not isinstance(value, list):
        return []
    if step["key"]:
        return [one for one in value if isinstance(one, dict) and str(one.get(step["key"])) == step["value"]]
    if step["index"] == "*":
        return list(value)
    index = int(step["index"])
    return [value[index]] if -len(value) <= index < len(value) else []

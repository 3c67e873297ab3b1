"""Values of a URL's query, read as the real server reads them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from noctaya.local.apiserver import status

_NUMBER = re.compile(r"-?\d{1,18}")


def flag(query: Mapping[str, str], name: str) -> bool:
    """A boolean, as Go's ParseBool reads it."""
    return query.get(name, "") in ("1", "t", "T", "true", "True", "TRUE")


def whole(query: Mapping[str, str], name: str) -> int | None:
    """A number; raises 400 for anything else."""
    text = query.get(name, "")
    if not text:
        return None
    if not _NUMBER.fullmatch(text):
        raise status.bad_request(f'strconv.ParseInt: parsing "{text}": invalid syntax')
    return int(text)

"""What a list or watch asks for: which version, in pages or whole, with initial events or not. Refusals are the real server's.

`resourceVersion` and `resourceVersionMatch` together say which state is meant; see `Wanted.exact`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from noctaya.local.apiserver import status
from noctaya.local.apiserver.query import flag, whole
from noctaya.local.apiserver.status import Cause

NOT_OLDER_THAN, EXACT = "NotOlderThan", "Exact"
_MATCH, _INITIAL = "resourceVersionMatch", "sendInitialEvents"


@dataclass(frozen=True, slots=True)
class Wanted:
    """`version` is 0 when any will do, and None when none was named (the newest)."""

    version: int | None
    match: str = ""
    limit: int = 0
    continued: str = ""
    initial_events: bool | None = None

    @property
    def exact(self) -> int | None:
        """The one version that is meant, or None: the newest is good."""
        if not self.version:
            return None
        # A limit with a version and no match means that version: clients from before `resourceVersionMatch` rely on it.
        return self.version if self.match == EXACT or (self.limit and not self.match) else None


def for_list(query: Mapping[str, str]) -> Wanted:
    """Raises 400 or 422 for what a list cannot ask for."""
    wanted = _read(query)
    if wanted.initial_events is not None:
        raise _invalid(_forbidden(_INITIAL, "sendInitialEvents is forbidden for list"))
    version = query.get("resourceVersion", "")
    if wanted.match:
        if not version:
            why = "resourceVersionMatch is forbidden unless resourceVersion is provided"
            raise _invalid(_forbidden(_MATCH, why))
        if wanted.match not in (EXACT, NOT_OLDER_THAN):
            raise _invalid(_unsupported(wanted.match))
        if wanted.match == EXACT and version == "0":
            why = 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
            raise _invalid(_forbidden(_MATCH, why))
    if wanted.continued and wanted.version:
        raise status.bad_request("specifying resource version is not allowed when using continue")
    return wanted


def for_watch(query: Mapping[str, str]) -> Wanted:
    """Raises 422 for what a watch cannot ask for."""
    wanted = _read(query)
    if wanted.initial_events is None:
        if wanted.match:
            why = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
            raise _invalid(_forbidden(_MATCH, why))
    elif wanted.match != NOT_OLDER_THAN:
        why = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
        raise _invalid(_forbidden(_MATCH, why))
    return wanted


def check_reached(version: int | None, newest: int) -> None:
    """Raise 504 for a version that is not there yet, as a server that lags behind does."""
    if version is not None and version > newest:
        raise status.version_too_large(version, newest)


def _read(query: Mapping[str, str]) -> Wanted:
    version = query.get("resourceVersion", "")
    if version and not version.isdecimal():
        raise status.bad_request(
            f'invalid resource version: resourceVersion: Invalid value: "{version}": '
            f'strconv.ParseUint: parsing "{version}": invalid syntax'
        )
    return Wanted(
        int(version) if version else None,
        query.get(_MATCH, ""),
        max(whole(query, "limit") or 0, 0),
        query.get("continue", ""),
        flag(query, _INITIAL) if query.get(_INITIAL) else None,
    )


def _forbidden(field: str, why: str) -> Cause:
    return Cause(field, f"Forbidden: {why}", "FieldValueForbidden")


def _unsupported(match: str) -> Cause:
    text = f'Unsupported value: "{match}": supported values: "{EXACT}", "{NOT_OLDER_THAN}", ""'
    return Cause(_MATCH, text, "FieldValueNotSupported")


def _invalid(cause: Cause) -> status.ApiError:
    return status.invalid("ListOptions", "meta.k8s.io", "", [cause])

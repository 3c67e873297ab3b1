"""The order of resourceVersions: which of two is the later one.

Of one kind of object they are numbers that rise (Kubernetes since KEP-5504 says so, and every release before behaved so). What
an empty one or one that is no number means differs with the question, so each function says it.
"""

from __future__ import annotations


def number_of(version: str) -> int:
    """The number to compare by; 0, which is older than everything, for what is none."""
    return int(version) if _is_number(version) else 0


def is_newer(version: str, than: str) -> bool:
    """Whether `version` is later than `than`; an empty `than` is before everything.

    What cannot be compared counts as later, because a view that stands still is worse than one that flickers.
    """
    if _is_number(version) and _is_number(than):
        return int(version) > int(than)
    return version != than


def is_older(version: str, than: str) -> bool:
    """Whether `version` is earlier than `than` for certain: what cannot be compared is not."""
    return _is_number(version) and _is_number(than) and int(version) < int(than)


def _is_number(version: str) -> bool:
    return version.isascii() and version.isdecimal()

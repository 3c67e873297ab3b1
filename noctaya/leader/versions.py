"""Which of two resourceVersions is the later one.

Of one kind of object they are numbers that rise (Kubernetes since KEP-5504 says so, and every release before behaved so). One
that is no number cannot be compared: it counts as later, because a view that stands still is worse than one that flickers.
"""

from __future__ import annotations


def is_newer(version: str, than: str) -> bool:
    """Whether `version` is later than `than`; an empty `than` is before everything."""
    if version.isdecimal() and than.isdecimal():
        return int(version) > int(than)
    return version != than

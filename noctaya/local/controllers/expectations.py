"""Remembers what a controller has just created or deleted until its store shows it.

Without this, a second look at a store that is a few milliseconds old would create the same pods again. Pure. An expectation
that is never met (the object came and went unseen) lapses after `lapse_seconds`.
"""

from collections.abc import Callable

LAPSE_SECONDS = 5.0


class Expectations:
    """Open expectations of one controller, by owner."""

    def __init__(self, lapse_seconds: float = LAPSE_SECONDS) -> None:
        self._lapse_seconds = lapse_seconds
        self._created: dict[str, dict[str, float]] = {}
        self._deleted: dict[str, dict[str, float]] = {}

    def created(self, owner: str, uid: str, now: float) -> None:
        """`uid` was created for `owner`."""
        self._created.setdefault(owner, {})[uid] = now

    def deleted(self, owner: str, uid: str, now: float) -> None:
        """Deletion of `uid` was asked for."""
        self._deleted.setdefault(owner, {})[uid] = now

    def are_met(
        self, owner: str, is_known: Callable[[str], bool], is_active: Callable[[str], bool], now: float
    ) -> bool:
        """Whether the store shows all that was done for `owner`."""
        young = now - self._lapse_seconds
        created = {u: at for u, at in self._created.pop(owner, {}).items() if at > young and not is_known(u)}
        deleted = {u: at for u, at in self._deleted.pop(owner, {}).items() if at > young and is_active(u)}
        if created:
            self._created[owner] = created
        if deleted:
            self._deleted[owner] = deleted
        return not created and not deleted

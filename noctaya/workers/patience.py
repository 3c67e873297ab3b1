"""How long something has been wrong, and how often it was asked to start over. Pure.

KEDA's verdict on a ScaledObject flaps with every worker restart, and gateways roll: a condition that followed at once would
be written ten thousand times for nothing. So what may pass by itself counts only once it has lasted.
"""

from __future__ import annotations

from dataclasses import dataclass

REBUILD_FIRST_SECONDS = 60.0
REBUILD_LAST_SECONDS = 3600.0


@dataclass(slots=True)
class _Trouble:
    since: float
    rebuilds: int = 0
    last_rebuild: float = float("-inf")


class Patience:
    """Troubles by key; what is well again is forgotten."""

    def __init__(self) -> None:
        self._troubles: dict[str, _Trouble] = {}

    def observe(self, key: str, is_wrong: bool, now: float) -> float:
        """Seconds for which `key` has been wrong without a break; 0 when it is well."""
        if not is_wrong:
            self._troubles.pop(key, None)
            return 0.0
        return now - self._troubles.setdefault(key, _Trouble(now)).since

    def may_rebuild(self, key: str, now: float) -> bool:
        """Whether it has been wrong for long enough to start over once more: after 1 min, then ever more rarely."""
        trouble = self._troubles.get(key)
        if trouble is None:
            return False
        wait = min(REBUILD_LAST_SECONDS, REBUILD_FIRST_SECONDS * 2.0 ** min(trouble.rebuilds, 10))
        return now - max(trouble.since, trouble.last_rebuild) >= wait

    def rebuilt(self, key: str, now: float) -> None:
        """It was asked to start over."""
        trouble = self._troubles.get(key)
        if trouble is not None:
            trouble.rebuilds, trouble.last_rebuild = trouble.rebuilds + 1, now

    def forget(self, key: str) -> None:
        """The service is gone."""
        self._troubles.pop(key, None)

"""How many really wait for each service, over time, and for how long a worker may not have heard of it."""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable

from tests.chaos.history import AnyEvent, FaultBegan, FaultEnded, Truth

REPORT_SECONDS = 2.0
"""From one full report of a gateway to its next (`LinkSettings.full_report_seconds`)."""
WAY_SECONDS = 1.0
"""For a report to be made, sent and read on a machine that has other things to do."""
RATE = 1.25
"""What a worker's clock may be slow by; `stale_after` is measured on it."""


class Truths:
    """See the module. A fault that slows reports lets a report be believed for as long as workers do: `stale_after`."""

    def __init__(self, events: Iterable[AnyEvent], stale_after: float) -> None:
        self._patience = REPORT_SECONDS + WAY_SECONDS
        self._long_patience = stale_after * RATE
        self._times: dict[str, list[float]] = defaultdict(list)
        self._since: dict[str, list[float | None]] = defaultdict(list)
        """Parallel to `_times`: since when some gateway has had a request inside without a gap; None: none has any. (A request
        that ends here as another begins there is told by two links, in any order.)"""
        self._slow: list[tuple[float, float]] = []
        self._read(events)

    def waiting_for(self, service: str, at: float) -> float | None:
        """For how long somebody had been waiting at `at` in one gateway, without a gap; None when nobody was."""
        index = bisect_right(self._times[service], at) - 1
        since = self._since[service][index] if index >= 0 else None
        return None if since is None else at - since

    def wrong_for(self, service: str, at: float, until: float | None = None) -> float | None:
        """The same, when it is so long that a no at `at` is wrong; with `until`, a no at any time from `at` to `until`."""
        waiting = self.waiting_for(service, at)
        if waiting is not None and until is not None:
            still = self.waiting_for(service, until)
            if still is None or still < until - at:
                return None  # nobody waited when it was said, perhaps
        if waiting is None or waiting <= self._patience:
            return None
        return waiting if waiting > self._patience_at(at) else None

    def _patience_at(self, at: float) -> float:
        begin = at - self._long_patience
        is_slow = any(since <= at and until >= begin for since, until in self._slow)
        return self._long_patience if is_slow else self._patience

    def _read(self, events: Iterable[AnyEvent]) -> None:
        since: dict[str, dict[str, float]] = defaultdict(dict)
        slow: dict[str, float] = {}
        for event in events:
            if isinstance(event, Truth):
                inside = since[event.service]
                if event.pending:
                    inside.setdefault(event.gateway, event.at)
                else:
                    inside.pop(event.gateway, None)
                self._times[event.service].append(event.at)
                self._since[event.service].append(min(inside.values(), default=None))
            elif isinstance(event, FaultBegan) and event.slows_reports:
                slow[event.name] = event.at
            elif isinstance(event, FaultEnded) and event.name in slow:
                self._slow.append((slow.pop(event.name), event.at))
        self._slow += [(begin, float("inf")) for begin in slow.values()]

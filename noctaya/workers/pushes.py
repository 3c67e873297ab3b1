"""When `true` goes out on KEDA's streams.

Policy (keda.md 2.5): at once when a service that has no replicas goes from no demand to some; when a stream opens on active
demand; again 3 s and 10 s later while the service still has none, since KEDA 2.20 drops a push that comes too early for it.
A service that has replicas is re-asserted at most every `refresh_every` while requests come, so that short requests between
two polls count as activity. All but the first pushes share `per_second`: each costs KEDA a status write of its 20 a second.
`false` is never pushed (keda.md 0.1). A stream holds at most one unsent message; all messages are the same.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum


class Cause(Enum):
    """Why `true` was pushed."""

    EDGE = "edge"
    OPENED = "opened"
    REASSERTED = "reasserted"


@dataclass(frozen=True, slots=True)
class Push:
    """Send `true` on every one of `streams`."""

    key: str
    streams: tuple[int, ...]
    cause: Cause


class Bucket:
    """`per_second` tokens, at most `burst` at once; never less than one, or there would be none ever."""

    def __init__(self, per_second: float, burst: float) -> None:
        self._per_second = per_second
        self._burst = max(burst, 1.0)
        self._tokens = self._burst
        self._at = 0.0

    def limit(self, per_second: float, now: float) -> None:
        """Another rate from now on."""
        self._refill(now)
        self._per_second, self._burst = per_second, max(per_second, 1.0)
        self._tokens = min(self._tokens, self._burst)

    def take(self, now: float) -> bool:
        """Take a token, or say that there is none."""
        self._refill(now)
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True

    def next_at(self, now: float) -> float:
        """When there will be a token."""
        missing = 1.0 - min(self._burst, self._tokens + max(now - self._at, 0.0) * self._per_second)
        return now + max(missing, 0.0) / self._per_second

    def _refill(self, now: float) -> None:
        self._tokens = min(self._burst, self._tokens + max(now - self._at, 0.0) * self._per_second)
        self._at = now


@dataclass(slots=True)
class _Pending:
    """The valid entries of one key in `_due`."""

    serial: int
    left: int
    is_refresh: bool
    """Planned for a service that had replicas."""


class Pushes:
    """See the module. `is_served(key)`: the service's target has replicas, or is asked to."""

    def __init__(
        self,
        is_served: Callable[[str], bool],
        *,
        reassert_after: tuple[float, ...] = (3.0, 10.0),
        per_second: float = 5.0,
        edge_gap: float = 1.0,
        refresh_every: float = 15.0,
    ) -> None:
        self._is_served = is_served
        self._reassert_after = reassert_after
        self._edge_gap = edge_gap
        self._refresh_every = refresh_every
        self._per_second = per_second
        self._bucket = Bucket(per_second, per_second)
        self._streams: dict[str, dict[int, None]] = {}
        self._key_of: dict[int, str] = {}
        self._active: set[str] = set()
        self._pushed_at: dict[str, float] = {}
        self._due: list[tuple[float, int, str]] = []
        self._serial = 0
        self._pending: dict[str, _Pending] = {}
        """A new edge makes older entries of its key void."""

    def share(self, workers: int, now: float) -> None:
        """So many workers push: `per_second` is for all of them together."""
        self._bucket.limit(self._per_second / max(workers, 1), now)

    def opened(self, stream: int, key: str, *, is_active: bool, now: float) -> list[Push]:
        """KEDA opened a stream for `key`."""
        self._streams.setdefault(key, {})[stream] = None
        self._key_of[stream] = key
        if not is_active:
            return []
        self._active.add(key)
        if self._is_served(key):
            self._schedule(key, [now], is_refresh=True)
            return self.tick(now)
        return self._push(key, (stream,), Cause.OPENED, now)

    def closed(self, stream: int) -> None:
        """A stream ended."""
        key = self._key_of.pop(stream, None)
        if key is not None:
            self._streams[key].pop(stream, None)
            if not self._streams[key]:
                del self._streams[key]

    def rose(self, key: str, now: float) -> list[Push]:
        """Demand for `key` began."""
        self._active.add(key)
        last = self._pushed_at.get(key, float("-inf"))
        if self._is_served(key):
            if key not in self._pending:
                self._schedule(key, [max(now, last + self._refresh_every)], is_refresh=True)
            return self.tick(now)
        if now - last < self._edge_gap:
            pending = self._pending.get(key)
            # What was planned while it had replicas would come too late.
            if pending is None or pending.is_refresh:
                self._schedule(
                    key, [last + self._edge_gap, *(last + after for after in self._reassert_after)]
                )
            return []
        return self._push(key, tuple(self._streams.get(key, ())), Cause.EDGE, now)

    def fell(self, key: str) -> None:
        """Demand for `key` is over: what is due then finds it inactive, and is dropped."""
        self._active.discard(key)

    def tick(self, now: float) -> list[Push]:
        """What is due by now, as far as the common rate allows."""
        pushes: list[Push] = []
        while self._due and self._due[0][0] <= now:
            at, serial, key = self._due[0]
            streams = tuple(self._streams.get(key, ()))
            is_due = self._is_due(key, serial, at) and bool(streams)
            if is_due and not self._bucket.take(now):
                break
            heapq.heappop(self._due)
            self._count_down(key, serial)
            if is_due:
                self._pushed_at[key] = now
                pushes.append(Push(key, streams, Cause.REASSERTED))
        return pushes

    def next_at(self, now: float) -> float | None:
        """When `tick` should be called; None while nothing is due."""
        if not self._due:
            return None
        at = self._due[0][0]
        return max(at, self._bucket.next_at(now)) if at <= now else at

    def forget(self, key: str) -> None:
        """The service is gone."""
        self.fell(key)
        self._pending.pop(key, None)
        self._pushed_at.pop(key, None)

    @property
    def stream_count(self) -> int:
        """How many streams KEDA holds here."""
        return len(self._key_of)

    def has_stream(self, key: str) -> bool:
        """Whether KEDA listens here for `key`."""
        return key in self._streams

    def _push(self, key: str, streams: tuple[int, ...], cause: Cause, now: float) -> list[Push]:
        if not streams:
            return []  # pushed when the stream opens
        self._pushed_at[key] = now
        self._schedule(key, [now + after for after in self._reassert_after])
        return [Push(key, streams, cause)]

    def _is_due(self, key: str, serial: int, at: float) -> bool:
        pending = self._pending.get(key)
        if key not in self._active or pending is None or pending.serial != serial:
            return False
        # Once it is served, a re-assertion within `refresh_every` would repeat what has worked.
        last = self._pushed_at.get(key, float("-inf"))
        return not self._is_served(key) or at - last >= self._refresh_every - 1e-6

    def _count_down(self, key: str, serial: int) -> None:
        pending = self._pending.get(key)
        if pending is not None and pending.serial == serial:
            pending.left -= 1
            if not pending.left:
                del self._pending[key]

    def _schedule(self, key: str, times: list[float], *, is_refresh: bool = False) -> None:
        self._serial += 1
        self._pending[key] = _Pending(self._serial, len(times), is_refresh)
        for at in times:
            heapq.heappush(self._due, (at, self._serial, key))

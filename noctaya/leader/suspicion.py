"""Whether to believe that so many are dead at once (F23).

When more than half of the fleet falls silent within one window, the likelier cause is on our side: our watch, our network, an
API server that takes our writes and not theirs. Then each silent one is probed by gRPC first. Who answers is not fenced; of
those that do not, at most a third of the fleet (one at least) is fenced per window.

Those that answered, and those fenced within the window, still count as silent: else the suspicion would fade as soon as
half of the probes had come back, and a leader that meets the silent one by one would never have it.

Invariant: within a window, fences without proof hit at most half of the fleet; once suspicion has risen, nobody is fenced who
has not been probed, and nobody beyond a third of the fleet (one at least). A container's proven end is no matter of belief
and does not come through here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Verdict:
    """Pods to fence now, and pods to probe first."""

    fence: tuple[str, ...] = ()
    probe: tuple[str, ...] = ()
    is_suspicious: bool = False


class Suspicion:
    """See the module."""

    def __init__(self, *, window: float = 8.5, answer_within: float = 1.5) -> None:
        self.window = window
        self.answer_within = answer_within
        self._fenced: dict[str, float] = {}
        self._cleared: dict[str, float] = {}
        self._asked: dict[str, tuple[str, float]] = {}
        self._silent: set[str] = set()

    def judge(self, expired: Mapping[str, str], alive: int, now: float) -> Verdict:
        """`expired`: the incarnation per silent pod. `alive`: members that hold their Lease, the silent and us included."""
        self._fenced = {pod: at for pod, at in self._fenced.items() if now - at < self.window}
        self._cleared = {pod: at for pod, at in self._cleared.items() if now - at < self.window}
        self._asked = {pod: asked for pod, asked in self._asked.items() if expired.get(pod) == asked[0]}
        self._silent &= set(self._asked)
        size = alive + len(self._fenced)
        # Those that answered count too: as long as they seem silent to us, so do others who are as well as they.
        seem_silent = {*expired, *self._fenced, *self._cleared}
        if not self._are_too_many(len(seem_silent), size):
            return Verdict(tuple(sorted(expired)))
        probe = sorted(set(expired) - set(self._asked))
        for pod in probe:
            self._asked[pod] = (expired[pod], now)
        given_up = sorted(
            pod for pod in expired if pod in self._silent or now - self._asked[pod][1] >= self.answer_within
        )
        budget = max(max(size // 3, 1) - len(self._fenced), 0)
        return Verdict(tuple(given_up[:budget]), tuple(probe), is_suspicious=True)

    def answered(self, pod: str, incarnation: str, now: float, *, is_alive: bool) -> bool:
        """A probe had its result. True: this very incarnation lives, its observation must begin anew."""
        asked = self._asked.get(pod)
        if asked is None or asked[0] != incarnation:
            return False
        if is_alive:
            del self._asked[pod]
            self._silent.discard(pod)
            self._cleared[pod] = now
            return True
        self._silent.add(pod)
        return False

    def fenced(self, pod: str, now: float) -> None:
        """A fence without proof was accepted."""
        self._fenced[pod] = now

    def _are_too_many(self, silent: int, size: int) -> bool:
        return 2 * silent > size

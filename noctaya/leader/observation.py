"""Since when each member Lease stands unchanged, on our own clock, and whether we would have noticed a change.

Every worker observes from its first list on, so that a new leader need not begin to wait (F11).

Invariants (sharding.md 2.2):
- a Lease is `expired` only when it was *seen* unchanged for `fence_after`, and no stretch of that time was blind: an event, a
  bookmark or an accepted write of ours came at least every `healthy_gap`. After a gap all clocks run anew, for the API
  server, not the holders, may have been gone (F7). Wall clocks and `renewTime` decide nothing (F4);
- what is older than what was seen already changes nothing: a list from an API server that lags behind (F21), an event that
  comes late. That the server went back for good (restored from a backup) is believed after `believe_older_after`;
- a Lease that is not there is observed like a silent one: somebody may have deleted it under a holder who still acts.

"Expired" is suspicion, never proof. The proof is the fence's compare-and-swap upon the very version that was observed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from noctaya.kube.versions import number_of

ABSENT = ""
"""The version of a Lease that is not there."""


@dataclass(frozen=True, slots=True)
class ObservationTiming:
    """Seconds."""

    fence_after: float = 8.5
    """As in `tenure.Timing`: above the self-deadline of 6.0 by the ratio of clock rates that is tolerated."""
    healthy_gap: float = 3.0
    believe_older_after: float = 60.0


class Observation:
    """See the module. Names are pods."""

    def __init__(self, timing: ObservationTiming | None = None) -> None:
        self.timing = timing or ObservationTiming()
        self._versions: dict[str, str] = {}
        self._since: dict[str, float] = {}
        self._heard = float("-inf")
        self._healthy_since = float("-inf")
        self._newest = 0
        self._refused_since: float | None = None

    def hear(self, now: float) -> None:
        """Something proved that the watch works: an event, a bookmark, an accepted write of ours."""
        if self._is_blind(now):
            self._healthy_since = now
        self._heard = max(self._heard, now)

    def see(self, name: str, version: str, now: float) -> bool:
        """The watch showed the Lease of `name`. False: it is older than what was seen, and to be ignored."""
        if number_of(version) < number_of(self._versions.get(name, ABSENT)):
            return False
        self.hear(now)
        self._newest = max(self._newest, number_of(version))
        self._note(name, version, now)
        return True

    def miss(self, name: str, now: float, version: str = ABSENT) -> bool:
        """The watch showed that the Lease of `name` is gone (deleted as of `version`); False: that is old news."""
        if version != ABSENT and number_of(version) < number_of(self._versions.get(name, ABSENT)):
            return False
        self.hear(now)
        self._newest = max(self._newest, number_of(version))
        self._note(name, ABSENT, now)
        return True

    def expect(self, name: str, now: float) -> None:
        """Somebody is named who has no Lease: observe its absence from now on, unless that is done already."""
        if name not in self._versions:
            self._note(name, ABSENT, now)

    def relist(self, versions: Mapping[str, str], version: str, now: float) -> bool:
        """A complete list as of `version`. False: it is older than what was seen, and to be ignored as a whole.

        A list says nothing about the time before it: whoever it shows changed is observed from now on.
        """
        if number_of(version) < self._newest and not self._is_older_believed(now):
            return False
        if number_of(version) < self._newest:
            self._versions.clear()
        self._refused_since = None
        self._newest = max(number_of(each) for each in (version, *versions.values()))
        self.hear(now)
        for name, seen in versions.items():
            self._note(name, seen, now)
        for name in [name for name in self._versions if name not in versions]:
            self._note(name, ABSENT, now)
        return True

    def restart(self, name: str, now: float) -> None:
        """It has been proved alive: its clock runs anew."""
        if name in self._since:
            self._since[name] = now

    def forget(self, name: str) -> None:
        """Nobody asks for it any more."""
        self._versions.pop(name, None)
        self._since.pop(name, None)

    def absent(self) -> list[str]:
        """The observed whose Lease is not there."""
        return [name for name, version in self._versions.items() if version == ABSENT]

    def unchanged_for(self, name: str, now: float) -> float:
        """Seconds for which it has been seen unchanged, without a blind stretch; 0 while blind or for the unknown."""
        if name not in self._since or self._is_blind(now):
            return 0.0
        return max(now - max(self._since[name], self._healthy_from()), 0.0)

    def expired(self, names: Iterable[str], now: float) -> list[str]:
        """Those of `names` whose Lease has been seen unchanged for `fence_after`."""
        if self._is_blind(now):
            return []
        return [name for name in names if self.unchanged_for(name, now) >= self.timing.fence_after]

    def is_healthy(self, now: float) -> bool:
        """Whether a change would have been noticed just now."""
        return not self._is_blind(now)

    def _is_blind(self, now: float) -> bool:
        return now - self._heard > self.timing.healthy_gap

    def _healthy_from(self) -> float:
        """Since when nothing can have gone unnoticed."""
        return self._healthy_since

    def _note(self, name: str, version: str, now: float) -> None:
        if self._versions.get(name) != version:
            self._versions[name] = version
            self._since[name] = now

    def _is_older_believed(self, now: float) -> bool:
        if self._refused_since is None:
            self._refused_since = now
        return now - self._refused_since >= self.timing.believe_older_after

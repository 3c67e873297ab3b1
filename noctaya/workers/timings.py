"""Every duration of the shard protocol from the three that can be set, so that they cannot contradict each other.

What one part waits for another part has to have done by then, on a clock that may run faster by `fence_after / self_deadline`.
"""

from __future__ import annotations

from dataclasses import dataclass

from noctaya.kube.reflector import WatchSettings
from noctaya.leader.observation import Observation, ObservationTiming
from noctaya.leader.planner import Planner, PlannerTiming
from noctaya.leader.roster import RosterTiming
from noctaya.leader.tenure import Timing
from noctaya.workers.settings import TenureSettings
from noctaya.workers.shard_state import ShardTiming


@dataclass(frozen=True, slots=True)
class Timings:
    """See the module. Seconds."""

    tenure: Timing

    @staticmethod
    def of(settings: TenureSettings) -> Timings:
        """Raises TenureRefused: two workers could act at once."""
        return Timings(
            Timing(settings.renew_every_seconds, settings.self_deadline_seconds, settings.fence_after_seconds)
        )

    @property
    def view_deadline(self) -> float:
        """Within which our own renewals must have come back through the watch (12 s): two of the self-deadline."""
        return 2 * self.tenure.self_deadline

    @property
    def shards(self) -> ShardTiming:
        """Of ownership. A record that vanished is made anew only after its owner must have noticed."""
        rates = self.tenure.fence_after / self.tenure.self_deadline
        return ShardTiming(fence_after=self.tenure.fence_after, absent_after=self.view_deadline * rates + 0.5)

    @property
    def lease_watch(self) -> WatchSettings:
        """Every worker renews all the time, so a stream that is silent for longer than several renewals is dead. A list of the
        few Leases that takes as long is lost too: until it is there, nothing may be acted for."""
        patience = self.view_deadline * 2 / 3
        return WatchSettings(
            silence_seconds=patience,
            list_seconds=patience,
            backoff_base_seconds=0.25,
            backoff_cap_seconds=2.0,
        )

    @property
    def map_watch(self) -> WatchSettings:
        """The map may not change for days, so silence alone tells nothing: the server is asked to end each stream soon, and one
        that has not ended by then is dead. Who went on obeying an old map would hand shards back and forth with the rest."""
        longest = max(2, int(self.view_deadline * 2 / 3))
        return WatchSettings(
            silence_seconds=self.view_deadline,
            stream_seconds=(max(1, longest // 2), longest),
            list_seconds=self.view_deadline * 2 / 3,
            backoff_base_seconds=0.25,
            backoff_cap_seconds=2.0,
        )

    def planner(self, pod: str) -> Planner:
        """A planner that waits as long as ownership does."""
        observation = ObservationTiming(fence_after=self.tenure.fence_after)
        roster = RosterTiming(doubt_after=2 * self.tenure.renew_every, rejoin_within=self.tenure.fence_after)
        return Planner(
            pod, PlannerTiming(observation=observation, roster=roster), observation=Observation(observation)
        )

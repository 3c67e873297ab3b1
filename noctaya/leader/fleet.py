"""What is known of the fleet: its members, who holds which shard, and whether any of that may be out of date.

Everything here was shown by the API server and passed observation, which refuses what is older than what was seen. Nothing
here decides; `planner.py` does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from noctaya.api.names import SHARD_COUNT
from noctaya.leader.lease_names import pod_of_incarnation
from noctaya.leader.observation import Observation
from noctaya.leader.planner_events import (
    ContainerEnded,
    LeasesListed,
    MemberGone,
    MemberSeen,
    MemberView,
    PodSeen,
    ShardSeen,
    ShardView,
    WatchAlive,
)
from noctaya.leader.roster import Picture, Roster, RosterTiming

Shown = LeasesListed | MemberSeen | MemberGone | ShardSeen | WatchAlive | PodSeen | ContainerEnded


class Fleet:
    """See the module."""

    def __init__(
        self,
        pod: str,
        observation: Observation,
        roster: RosterTiming,
        tell: Callable[[float, str, str], None],
    ) -> None:
        self.observation = observation
        self.roster = Roster(pod, self.observation, roster)
        self.is_listed = False
        """Whether a complete list was ever seen: before that, absence means nothing."""
        self.holders_revision = 0
        """Rises whenever `actual` may have changed."""
        self._shards: dict[int, ShardView] = {}
        self._actual: dict[int, str] | None = None
        self._holders: set[str] | None = None
        self._owners: tuple[tuple[object, ...], Mapping[int, str | None]] = ((), {})
        self._tell = tell

    def take(self, event: Shown, now: float) -> bool:
        """Take in what was shown; True when a worker became ready by it."""
        match event:
            case LeasesListed():
                return self._listed(event, now)
            case MemberSeen(view):
                return self.observation.see(view.pod, view.resource_version, now) and self._member(view, now)
            case MemberGone(pod, version):
                if self.observation.miss(pod, now, version):
                    self.roster.gone(pod)
                    self._holders_changed()
                    self._tell(now, f"worker/{pod}", "its Lease is gone")
            case ShardSeen(shard):
                if shard.holder and shard.epoch < self.shard(shard.shard).epoch:
                    return False  # old news; one that was deleted is shown with nobody first
                self.observation.hear(now)
                self._shards[shard.shard] = shard
                self._holders_changed()
            case WatchAlive():
                self.observation.hear(now)
            case PodSeen(pod, is_terminating):
                self.roster.terminating(pod, is_terminating)
            case ContainerEnded(pod, container):
                self.roster.ended(pod, container)
        return False

    def shard(self, shard: int) -> ShardView:
        """The fencing record of `shard`; held by nobody when none was seen."""
        return self._shards.get(shard, ShardView(shard, "", 0))

    def actual(self) -> Mapping[int, str]:
        """The pod that holds each shard, unless its incarnation is over for certain."""
        if self._actual is None:
            self._actual = {}
            for shard, view in self._shards.items():
                pod = pod_of_incarnation(view.holder)
                member = self.roster.members.get(pod)
                if pod and (member is None or member.view.incarnation == view.holder):
                    self._actual[shard] = pod
        return self._actual

    def picture(self, desired: tuple[str, ...], now: float) -> Picture:
        """Who is in the fleet, those included that a shard is or should be with."""
        if self._holders is None:
            self._holders = {pod_of_incarnation(view.holder) for view in self._shards.values()} - {""}
        return self.roster.picture({*desired, *self._holders}, now)

    def owners(self, desired: tuple[str, ...], picture: Picture) -> Mapping[int, str | None]:
        """The owner that a plan should stick to: the desired one, or who holds the shard when that one is no more."""
        key = (self.holders_revision, desired, picture.candidates)
        if self._owners[0] != key:
            roles, actual = picture.roles(), self.actual()
            owners: dict[int, str | None] = {}
            for shard in range(SHARD_COUNT):
                owner, holder = desired[shard] if desired else None, actual.get(shard)
                owners[shard] = holder if owner not in roles and holder in roles else owner
            self._owners = (key, owners)
        return self._owners[1]

    def _holders_changed(self) -> None:
        self._actual = self._holders = None
        self.holders_revision += 1

    def _listed(self, event: LeasesListed, now: float) -> bool:
        versions = {view.pod: view.resource_version for view in event.members}
        if not self.observation.relist(versions, event.resource_version, now):
            self._tell(now, "leader", f"refused a list of {event.resource_version}: older than what was seen")
            return False
        self.is_listed = True
        for pod in set(self.roster.members) - set(versions):
            self.roster.gone(pod)
        self._shards = {shard.shard: shard for shard in event.shards}
        self._holders_changed()
        became_ready = [self._member(view, now) for view in event.members]
        return any(became_ready)

    def _member(self, view: MemberView, now: float) -> bool:
        before = self.roster.seen(view, now)
        after = self.roster.members[view.pod]
        if before is None or before.view.incarnation != view.incarnation:
            self._holders_changed()
        if before is None or (before.view.incarnation, before.record.state) != (
            view.incarnation,
            after.record.state,
        ):
            holder = view.incarnation or "nobody"
            self._tell(now, f"worker/{view.pod}", f"{after.record.state.value}, held by {holder}")
        return after.is_ready and (before is None or not before.is_ready)

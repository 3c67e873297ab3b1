"""The ShardMap as this process knows it: the last good one, what is stored just now, and what is wrong with that.

Invariants (I2, F13): the map in force only ever follows one that it supersedes; a leader's next map has a generation above
every one seen, its own leader epoch, and is written upon the very version last seen. A stored map that cannot be obeyed, or
goes back, leaves the last good one in force; its leader writes that one anew, unless it was made for another number of
shards or another hash: that one nobody here may touch.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from noctaya.kube.versions import is_older
from noctaya.leader.errors import ShardMapForeign, ShardMapInvalid
from noctaya.leader.planner_events import MapSeen
from noctaya.leader.shard_map import ShardMap
from noctaya.leader.tenure import HIGHEST_LEAP

MAX_JUMP = 2**32
"""A generation that is further above the one in force was not counted there."""


class MapKeeping:
    """See the module."""

    def __init__(self) -> None:
        self.fleet = ""
        self.map: ShardMap | None = None
        """In force; None before any good one was seen."""
        self.version: str | None = None
        """Of what is stored; None when there is nothing, or nothing is known."""
        self.is_known = False
        """Whether it was ever read, or found missing."""
        self.problem: ShardMapInvalid | None = None
        """Why what is stored is not in force; None when it is."""
        self.is_freeze_asked = False
        self._generation = 0
        self._stale: str | None = None

    @property
    def is_writable(self) -> bool:
        """Whether a leader may write now: what is stored is known, and of this fleet's kind."""
        return self.is_known and self._stale is None and not isinstance(self.problem, ShardMapForeign)

    @property
    def needs_reading(self) -> bool:
        """Whether a write was refused, or nothing was seen yet: only a read or the watch can tell."""
        return not self.is_known or self._stale is not None

    def seen(self, event: MapSeen) -> bool:
        """Take in what is stored. False: it is older than what was seen."""
        is_read = event.request is not None  # from the newest state; the watch may lag behind
        if event.fleet == self.fleet and not is_read:
            if is_older(event.resource_version, self.version or "") or event.resource_version == self._stale:
                return False
        is_new_fleet = event.fleet != self.fleet
        self.fleet, self.version, self._stale = event.fleet, event.resource_version, None
        self.is_known, self.is_freeze_asked = True, event.is_freeze_asked
        self.problem = self._objection(event.map, is_new_fleet=is_new_fleet)
        if self.problem is None and isinstance(event.map, ShardMap):
            self.map = event.map
            self._generation = max(self._generation, event.map.generation)
        return True

    def gone(self) -> None:
        """Nothing is stored. The map in force stays so; a leader makes it anew."""
        self.version, self._stale, self.is_known = None, None, True
        self.problem, self.is_freeze_asked = None, False

    def written(self, map_: ShardMap, version: str, fleet: str) -> None:
        """Our write was accepted."""
        if fleet:
            self.fleet = fleet
        self.map, self.version, self.problem, self._stale = map_, version, None, None
        self._generation = map_.generation

    def refused(self) -> None:
        """Our write met something else: what is stored is not what was seen."""
        self._stale = self.version or "-"

    def is_claimed(self, epoch: int) -> bool:
        """Whether what is stored is in force and was written under `epoch`."""
        return (
            self.problem is None
            and self.version is not None
            and self.map is not None
            and self.map.leader_epoch == epoch
        )

    def next(
        self,
        epoch: int,
        reason: str,
        *,
        desired: tuple[str, ...] | None = None,
        draining: Sequence[str] | None = None,
        cordoned: Sequence[str] | None = None,
    ) -> ShardMap:
        """The next generation, by the leader of `epoch`; what is not given stays as it is in force."""
        base = self.map or ShardMap()
        return msgspec.structs.replace(
            base,
            generation=self._generation + 1,
            leader_epoch=epoch,
            desired=base.desired if desired is None else desired,
            draining=base.draining if draining is None else tuple(draining),
            cordoned=base.cordoned if cordoned is None else tuple(cordoned),
            frozen=self.is_freeze_asked,
            reason=reason,
        )

    def _objection(self, found: ShardMap | ShardMapInvalid, *, is_new_fleet: bool) -> ShardMapInvalid | None:
        if isinstance(found, ShardMapInvalid):
            return found
        force = self.map
        if force is None or is_new_fleet or found == force:
            return None
        if not found.supersedes(force):
            return ShardMapInvalid(
                f"generation {found.generation} by leader epoch {found.leader_epoch} does not follow generation "
                f"{force.generation} by leader epoch {force.leader_epoch}"
            )
        if found.generation - force.generation > MAX_JUMP:
            return ShardMapInvalid(f"generation {found.generation} is absurdly far above {force.generation}")
        if found.leader_epoch - force.leader_epoch > HIGHEST_LEAP:
            return ShardMapInvalid(
                f"leader epoch {found.leader_epoch} is absurdly far above {force.leader_epoch}"
            )
        return None

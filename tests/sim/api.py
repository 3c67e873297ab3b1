"""The API server: Leases, the ShardMap and statuses under compare-and-swap, and their history for watches and stale replicas.

It is exact; everything that goes wrong on the way to it is `network.py`'s. Every change is made into the events that the cores
take once, here, and handed to all watchers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from noctaya.leader import planner_events as leads
from noctaya.leader.lease_names import member_lease, shard_lease
from noctaya.leader.member_record import MemberRecord
from noctaya.leader.shard_map import ShardMap
from noctaya.leader.tenure import LeaseView
from noctaya.workers import shard_events as owns

LEADER: Final = "noctaya-leader"
MAP: Final = "noctaya-shardmap"


@dataclass(slots=True)
class Change:
    """One object as it is since `at`, as the cores hear of it. `is_gone`: deleted."""

    name: str
    version: int
    at: float
    is_gone: bool = False
    view: LeaseView | None = None
    record: MemberRecord | None = None
    owns: owns.Event | None = None
    leads: leads.Event | None = None
    map: ShardMap | None = None
    uid: str = ""


class Api:
    """See the module."""

    def __init__(self) -> None:
        self.version = 0
        self.objects: dict[str, Change] = {}
        self.log: list[Change] = []
        self.lease_writes = 0
        self.fleets = 0

    # -- writes: each answers with what the object is now, or None when it was refused ---------------------------------

    def put_lease(
        self,
        name: str,
        base: str | None,
        holder: str,
        epoch: int,
        at: float,
        record: MemberRecord | None = None,
    ) -> Change | None:
        """Replace the Lease if it is at `base`; create it where `base` is None or empty."""
        if not self._is_at(name, base):
            return None
        self.lease_writes += 1
        self.version += 1
        version = str(self.version)
        change = Change(name, self.version, at, view=LeaseView(holder, epoch, version), record=record)
        if name.startswith("noctaya-worker-"):
            pod = name.removeprefix("noctaya-worker-")
            change.owns = owns.MemberSeen(pod, holder, record.state if record else None)
            change.leads = leads.MemberSeen(leads.MemberView(pod, holder, version, record, f"{at:012.6f}"))
        elif name.startswith("noctaya-shard-"):
            shard = int(name.removeprefix("noctaya-shard-"))
            change.owns = owns.RecordSeen(shard, holder, epoch, version)
            change.leads = leads.ShardSeen(leads.ShardView(shard, holder, epoch))
        return self._keep(change)

    def put_map(self, base: str | None, map_: ShardMap, at: float) -> Change | None:
        """Replace the ShardMap if it is at `base`; create it where `base` is None."""
        if not self._is_at(MAP, base):
            return None
        self.version += 1
        if base is None:
            self.fleets += 1
        uid = f"fleet{self.fleets}"
        seen = leads.MapSeen(uid, str(self.version), map_)
        plan = owns.PlanSeen(uid, map_.generation, map_.desired)
        return self._keep(Change(MAP, self.version, at, owns=plan, leads=seen, map=map_, uid=uid))

    def put_status(self, shard: int, epoch: int, at: float) -> bool:
        """Write a status of a service in `shard`; the admission policy refuses an older epoch."""
        name = f"status-{shard}"
        before = self.objects.get(name)
        if before is not None:
            assert isinstance(before.owns, owns.HigherEpochSeen)
            if before.owns.epoch >= epoch:
                return before.owns.epoch == epoch
        self.version += 1
        self._keep(Change(name, self.version, at, owns=owns.HigherEpochSeen(shard, epoch)))
        return True

    def delete(self, name: str, at: float) -> None:
        """An operator's mistake, or garbage collection."""
        if name not in self.objects:
            return
        self.version += 1
        change = self.deletion(name, self.version, at)
        self._keep(change)
        del self.objects[name]

    def deletion(self, name: str, version: int, at: float) -> Change:
        """What a watcher hears of an object that is not there any more."""
        change = Change(name, version, at, is_gone=True)
        if name.startswith("noctaya-worker-"):
            pod = name.removeprefix("noctaya-worker-")
            change.owns = owns.MemberGone(pod)
            change.leads = leads.MemberGone(pod, str(version))
        elif name.startswith("noctaya-shard-"):
            shard = int(name.removeprefix("noctaya-shard-"))
            change.owns = owns.RecordGone(shard, str(version))
            change.leads = leads.ShardSeen(leads.ShardView(shard, "", 0))
        elif name == MAP:
            change.leads = leads.MapGone()
        return change

    # -- reads ---------------------------------------------------------------------------------------------------------

    def read(self, name: str) -> Change | None:
        """What is stored."""
        return self.objects.get(name)

    def position(self, as_of: float) -> int:
        """How much of the history a replica that lags until `as_of` has seen."""
        position = len(self.log)
        while position and self.log[position - 1].at > as_of:
            position -= 1
        return position

    def snapshot(self, position: int) -> dict[str, Change]:
        """All objects after the first `position` changes."""
        if position == len(self.log):
            return dict(self.objects)
        found: dict[str, Change] = {}
        for change in self.log[:position]:
            if change.is_gone:
                found.pop(change.name, None)
            else:
                found[change.name] = change
        return found

    def _is_at(self, name: str, base: str | None) -> bool:
        found = self.objects.get(name)
        return (str(found.version) if found is not None else "") == (base or "")

    def _keep(self, change: Change) -> Change:
        self.objects[change.name] = change
        self.log.append(change)
        return change


__all__ = ["LEADER", "MAP", "Api", "Change", "member_lease", "shard_lease"]

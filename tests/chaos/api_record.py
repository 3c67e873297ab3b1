"""What the API server stores of the fleet, in order: written into the history, and kept as it is now.

It reads the store itself and not through the proxy, so that no fault is in its way.
"""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

from noctaya.api.names import SHARD_COUNT
from noctaya.leader.lease_names import LEADER_LEASE, SHARDMAP, pod_of_lease, shard_of_lease
from noctaya.local.apiserver.storage import Change, Storage, Watch
from tests.chaos.history import LeaderWritten, MapWritten, MemberWritten, Notebook, Recorded
from tests.workers.reconcile.cluster import SYSTEM

STATE = "serving.noctaya.io/state"


@dataclass
class ApiRecord:
    """See the module. `by_hand` holds resourceVersions of maps that the harness itself wrote."""

    storage: Storage
    notes: Notebook
    records: dict[int, tuple[str, int]] = field(default_factory=dict)
    """Shard → (holder, epoch)."""
    members: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Pod → (holder, state)."""
    leader: str = ""
    fleet: str = ""
    """The map's uid; empty: there is no map."""
    desired: tuple[str, ...] = ()
    maps_written: int = 0
    """By leaders."""
    hands: int = 0
    """How many of the coming writes of the map are the harness's own."""

    async def run(self) -> None:
        """Follow, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for resource, take in (
                ("coordination.k8s.io/leases", self._lease),
                ("/configmaps", self._map),
            ):
                watch = self.storage.watch(resource, SYSTEM, self.storage.revision)
                tasks.create_task(self._follow(watch, take))

    def leader_pod(self) -> str:
        """The pod that leads; empty: none."""
        return self.leader.partition("_")[0]

    def is_whole(self, pods: set[str]) -> str:
        """Empty when every shard is held by the ready incarnation that the map wants, each of `pods` has its share, and nobody
        else has any; else what is missing."""
        if len(self.desired) != SHARD_COUNT:
            return "there is no map"
        counts = {pod: self.desired.count(pod) for pod in set(self.desired) | pods}
        if strangers := set(counts) - pods:
            return f"the map names {sorted(strangers)}, and {sorted(pods)} run"
        if max(counts.values()) - min(counts.values()) > 1:
            return f"shares differ: {counts}"
        for shard in range(SHARD_COUNT):
            holder = self.records.get(shard, ("", 0))[0]
            incarnation, state = self.members.get(self.desired[shard], ("", ""))
            if not holder or holder != incarnation or state != "Ready":
                return f"shard {shard}: {holder or 'nobody'} holds it, {incarnation or 'nobody'} ({state}) should"
        return ""

    async def _follow(self, watch: Watch, take: Any) -> None:
        while True:
            for change in await watch.changes():
                take(change)

    def _lease(self, change: Change) -> None:
        at, spec, name = self.notes.now, change.object.get("spec") or {}, change.name
        holder, epoch = spec.get("holderIdentity") or "", spec.get("leaseTransitions") or 0
        is_gone = change.type == "DELETED"
        if (shard := shard_of_lease(name)) is not None:
            self.records[shard] = ("", 0) if is_gone else (holder, epoch)  # of nobody, until it is made anew
            self.notes.write(Recorded(at=at, shard=shard, holder=holder, epoch=epoch, is_gone=is_gone))
        elif (pod := pod_of_lease(name)) is not None:
            state = (change.object["metadata"].get("annotations") or {}).get(STATE, "")
            self.members[pod] = ("", "") if is_gone else (holder, state)
            self.notes.write(MemberWritten(at=at, pod=pod, holder=holder, state=state, is_gone=is_gone))
        elif name == LEADER_LEASE:
            self.leader = "" if is_gone else holder
            self.notes.write(LeaderWritten(at=at, holder=holder, epoch=epoch, is_gone=is_gone))

    def _map(self, change: Change) -> None:
        if change.name != SHARDMAP:
            return
        is_gone, data = change.type == "DELETED", change.object.get("data") or {}
        by_hand = self.hands > 0
        self.hands = max(self.hands - 1, 0)
        self.maps_written += not by_hand and not is_gone
        self.desired = () if is_gone else _desired(data)
        uid = change.object["metadata"]["uid"]
        self.fleet = "" if is_gone else uid
        self.notes.write(
            MapWritten(at=self.notes.now, fleet=uid, data=data, by_hand=by_hand, is_gone=is_gone)
        )


def _desired(data: dict[str, str]) -> tuple[str, ...]:
    try:
        found = json.loads(data.get("desired", "{}"))
        return tuple(found[str(shard)] for shard in range(SHARD_COUNT)) if found else ()
    except (ValueError, KeyError, TypeError):
        return ()

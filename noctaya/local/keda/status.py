"""Writing a ScaledObject's status: one writer per object at a time, and all of them through KEDA's slow API client (Q1).

`patch_for` is pure. The patch is computed only when its turn has come, from the newest record, so that two writers in a queue
cannot undo each other's conditions. A write that would change nothing is not sent, except for lastActiveTime, which KEDA
sends each time (S5).
"""

import asyncio
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from noctaya.kube.objects import format_time
from noctaya.local.keda.conditions import Condition, merged
from noctaya.local.keda.limiter import Limiter
from noctaya.local.keda.ports import Cluster
from noctaya.local.keda.records import Key, Record, Records


@dataclass(frozen=True, slots=True)
class StatusChange:
    """What becomes different; `fields` are further status fields, where None removes one."""

    conditions: tuple[Condition, ...] = ()
    last_active_at: float | None = None
    activity: Mapping[str, bool] | None = None
    """Metric name to "is its trigger active"; joined with what is there."""
    fields: Mapping[str, Any] = field(default_factory=dict)


def patch_for(status: Mapping[str, Any], change: StatusChange) -> dict[str, Any]:
    """The merge patch of `status`; empty when there is nothing to write."""
    patch: dict[str, Any] = {}
    wanted = merged(status, change.conditions)
    if wanted != (status.get("conditions") or []):
        patch["conditions"] = wanted
    if change.last_active_at is not None:
        patch["lastActiveTime"] = format_time(datetime.fromtimestamp(change.last_active_at, UTC))
    known = status.get("triggersActivity") or {}
    activity = {
        metric: {"isActive": is_active}
        for metric, is_active in (change.activity or {}).items()
        if (known.get(metric) or {}).get("isActive") is not is_active
    }
    if activity:
        patch["triggersActivity"] = activity
    patch.update({name: value for name, value in change.fields.items() if status.get(name) != value})
    return patch


class StatusWriter:
    """Carries out status changes. Raises what the cluster raises; the caller decides what a lost write means."""

    def __init__(self, cluster: Cluster, records: Records, limiter: Limiter) -> None:
        self._cluster = cluster
        self._records = records
        self._limiter = limiter
        self._locks: defaultdict[Key, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def write(self, key: Key, change: StatusChange) -> Record | None:
        """Write `change`; returns the newest record, or None when the object is gone."""
        async with self._locks[key]:
            record = self._records.get(key)
            if record is None or not patch_for(record.status, change):
                return record
            await self._limiter.turn()
            record = self._records.get(key)
            if record is None:
                return None
            patch = patch_for(record.status, change)
            if not patch:
                return record
            written = await self._cluster.patch_scaledobject_status(record, patch)
            self._records.saw(written)
            return written

    def forget(self, key: Key) -> None:
        """The object is gone; its lock goes with it unless somebody still holds it."""
        if key in self._locks and not self._locks[key].locked():
            del self._locks[key]

"""Which shards this worker may act for. For now one worker holds them all by the fleet's one Lease.

The questions are final (`permission(shard)`, `epoch(shard)`, `fleet`); the full shard protocol changes only who answers.
The ShardMap's uid is the fleet id. It is made once and never changed: a worker whose shard count or hash differs would put
services into other shards than everybody else, so it refuses to start.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from noctaya.api.names import HASH_NAME, SHARD_COUNT
from noctaya.errors import UserError
from noctaya.kube import Client
from noctaya.kube.clock import boottime
from noctaya.kube.errors import AlreadyExists, NotFound
from noctaya.kube.objects import ConfigMap
from noctaya.kube.resources import CONFIGMAPS
from noctaya.leader.tenure import Standing, Tenure
from noctaya.workers.permission import Permission

SHARDMAP: Final = "noctaya-shardmap"
LEASE: Final = "noctaya-leader"

_PERMISSIONS = {Standing.ACT: Permission.ACT, Standing.GROW: Permission.GROW, Standing.NONE: Permission.NONE}


class ShardMapMismatch(UserError):
    """The fleet's ShardMap was made for another number of shards or another hash."""

    def __init__(self, namespace: str, found: dict[str, str]) -> None:
        super().__init__(
            f"ConfigMap {namespace}/{SHARDMAP} says shards={found.get('shards')!r} hash={found.get('hash')!r}; this worker "
            f"has shards={SHARD_COUNT} hash={HASH_NAME!r} and would look for services where nobody else does. Run the "
            "version that made it, or stop every worker and gateway and delete the ConfigMap to found a new fleet."
        )


class Ownership:
    """Answers for all shards alike, from one tenure."""

    def __init__(
        self,
        tenure: Tenure,
        fleet: str,
        *,
        see_epoch: Callable[[int], None] = lambda epoch: None,
        clock: Callable[[], float] = boottime,
    ) -> None:
        self.fleet = fleet
        """The fleet id; a new one resets gateways."""
        self._tenure = tenure
        self._see_epoch = see_epoch
        self._clock = clock
        self._subscribers: list[Callable[[], None]] = []

    def permission(self, shard: int) -> Permission:
        """What may be done for `shard` at this instant."""
        del shard
        return _PERMISSIONS[self._tenure.standing(self._clock())]

    def epoch(self, shard: int) -> int:
        """The epoch under which this worker acts, or last acted, for `shard`."""
        del shard
        return self._tenure.epoch

    def see_epoch(self, shard: int, epoch: int) -> None:
        """Somebody knows `shard` under `epoch`. Above ours, we may be stale: permission is gone until that is decided."""
        if epoch > self.epoch(shard):
            self._see_epoch(epoch)

    def subscribe(self, callback: Callable[[], None]) -> None:
        """Call `callback` whenever a permission or an epoch changed."""
        self._subscribers.append(callback)

    def changed(self) -> None:
        """The tenure changed; tell everybody."""
        for callback in self._subscribers:
            callback()


async def found_fleet(client: Client, namespace: str) -> tuple[str, bool]:
    """The fleet id, and whether this call founded the fleet by making its ShardMap.

    Raises:
        ShardMapMismatch: the fleet shards differently.
        KubeError: the API server could not be asked.
    """
    wanted = {"shards": str(SHARD_COUNT), "hash": HASH_NAME}
    is_new = False
    try:
        found = await client.get(CONFIGMAPS, namespace, SHARDMAP, into=ConfigMap)
    except NotFound:
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": SHARDMAP,
                "namespace": namespace,
                "labels": {"app.kubernetes.io/name": "noctaya"},
            },
            "data": wanted,
        }
        try:
            found = await client.create(CONFIGMAPS, namespace, body, into=ConfigMap)
            is_new = True
        except AlreadyExists:  # another worker starts with us
            found = await client.get(CONFIGMAPS, namespace, SHARDMAP, into=ConfigMap)
    if {name: found.data.get(name) for name in wanted} != wanted:
        raise ShardMapMismatch(namespace, found.data)
    return found.metadata.uid, is_new

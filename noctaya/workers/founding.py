"""The first thing that workers of one fleet have in common: the ShardMap, made once by whoever starts first.

Its uid is the fleet id. Shard count and hash never change in its life: a worker whose own differ would put services into
other shards than everybody else, so it refuses to start.
"""

from __future__ import annotations

from noctaya.api.names import HASH_NAME, SHARD_COUNT
from noctaya.errors import UserError
from noctaya.kube import Client
from noctaya.kube.errors import AlreadyExists, NotFound
from noctaya.kube.objects import ConfigMap
from noctaya.kube.resources import CONFIGMAPS
from noctaya.leader.lease_names import SHARDMAP


class ShardMapMismatch(UserError):
    """The fleet's ShardMap was made for another number of shards or another hash."""

    def __init__(self, namespace: str, found: dict[str, str]) -> None:
        super().__init__(
            f"ConfigMap {namespace}/{SHARDMAP} says shards={found.get('shards')!r} hash={found.get('hash')!r}; this worker "
            f"has shards={SHARD_COUNT} hash={HASH_NAME!r} and would look for services where nobody else does. Run the "
            "version that made it, or stop every worker and gateway and delete the ConfigMap to found a new fleet."
        )


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

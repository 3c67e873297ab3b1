"""What an operator wants of the fleet, written as annotations with the operator's own credentials; the leader obeys them.

A wish is a merge patch of one annotation, so it can be repeated and never touches what a worker says about itself. It stays
until it is taken back, over restarts of everything. Fails with `NotAllowed`, which names verb and resource, or `UnknownWorker`.
"""

from __future__ import annotations

from typing import Any

from noctaya.kube import Client as KubeClient
from noctaya.kube.errors import Forbidden, NotFound
from noctaya.kube.objects import Lease
from noctaya.kube.resources import CONFIGMAPS, LEASES
from noctaya.leader.lease_names import (
    ANNOTATION_CORDON,
    ANNOTATION_DRAIN,
    ANNOTATION_FREEZE,
    member_lease,
    pod_of_lease,
)
from noctaya.ops.errors import NoShardMap, NotAllowed, UnknownWorker
from noctaya.ops.subjects import worker_named

SHARD_MAP = "noctaya-shardmap"
YES = "true"


async def wish_of_worker(
    kube: KubeClient, namespace: str, worker: str, *, cordon: bool | None = None, drain: bool | None = None
) -> None:
    """Write the wishes that are given onto the member Lease of `worker`; False takes one back, None leaves it."""
    pod = worker_named(worker)
    wishes = _annotations({ANNOTATION_CORDON: cordon, ANNOTATION_DRAIN: drain})
    try:
        await kube.patch(LEASES, namespace, member_lease(pod), wishes)
    except NotFound as error:
        raise UnknownWorker(pod, await _known(kube, namespace)) from error
    except Forbidden as error:
        raise NotAllowed("patch", LEASES.describe(namespace, member_lease(pod)), error) from error


async def wish_of_map(kube: KubeClient, namespace: str, *, freeze: bool) -> None:
    """Ask the leader not to move shards for balance alone, or to do so again."""
    try:
        await kube.patch(CONFIGMAPS, namespace, SHARD_MAP, _annotations({ANNOTATION_FREEZE: freeze}))
    except NotFound as error:
        raise NoShardMap(namespace) from error
    except Forbidden as error:
        raise NotAllowed("patch", CONFIGMAPS.describe(namespace, SHARD_MAP), error) from error


async def _known(kube: KubeClient, namespace: str) -> list[str]:
    """The workers that have a member Lease; none when we may not list them."""
    try:
        leases = await kube.list(LEASES, namespace, into=Lease)
    except Forbidden:
        return []
    return sorted(pod for lease in leases.items if (pod := pod_of_lease(lease.name)) is not None)


def _annotations(wishes: dict[str, bool | None]) -> dict[str, Any]:
    written = {name: YES if wish else None for name, wish in wishes.items() if wish is not None}
    return {"metadata": {"annotations": written}}

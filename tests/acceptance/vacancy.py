"""Pods that go and are not replaced for a while, so that what is left of the fleet has to do everything.

A quota of pods in the fleet's namespace keeps ReplicaSets from making more than there are. How it fails: as `until` does.
"""

import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.acceptance.api import Api, Refused
from tests.acceptance.fleet import NAMESPACE, Role
from tests.acceptance.waiting import until

QUOTA = "nobody-comes"
SEEN_SECONDS = 60.0
PODS = "count/pods"


@asynccontextmanager
async def vacancy(api: Api, role: Role) -> AsyncIterator[None]:
    """Whoever of `role` goes during the body is replaced after it only."""
    body = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": QUOTA},
        "spec": {"hard": {PODS: "0"}},  # however many there are: a quota takes nobody away
    }
    await api.create("resourcequotas", body, NAMESPACE)
    try:

        async def is_in_force() -> bool:
            found = await api.get("resourcequotas", QUOTA, NAMESPACE)
            return PODS in found.get("status", {}).get("hard", {})

        await until(is_in_force, SEEN_SECONDS, "the quota is in force")
        yield
    finally:
        await api.delete("resourcequotas", QUOTA, NAMESPACE)
        await _look_again(api, role)


async def _look_again(api: Api, role: Role) -> None:
    """Have Kubernetes try again: the longer it was refused, the longer it waits."""
    selector = f"app.kubernetes.io/name=noctaya,app.kubernetes.io/component={role}"
    change = {"metadata": {"annotations": {"test/look": uuid.uuid4().hex}}}
    for found in await api.list("replicasets", NAMESPACE, selector=selector):
        try:
            await api.patch("replicasets", found["metadata"]["name"], change, NAMESPACE)
        except Refused as refused:
            if refused.status != 404:  # an old one that was cleared away just now
                raise

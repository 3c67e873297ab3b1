"""Every kind that the API server serves, followed as new ones appear (CRDs), with a metadata-only store for each."""

import asyncio
import logging
from collections.abc import Callable

import msgspec

from noctaya.kube.client import Client
from noctaya.kube.errors import KubeError
from noctaya.kube.metadata import Object
from noctaya.kube.reflector import Change
from noctaya.kube.resources import Resource
from noctaya.kube.store import Store

log = logging.getLogger(__name__)

NOT_FOLLOWED = frozenset({"events", "events.events.k8s.io", "nodes"})
"""Events are many and own nothing; nodes own nothing here."""


async def served(client: Client) -> list[Resource]:
    """Every listable kind, from discovery; of a kind in two versions, one."""
    groups = msgspec.json.decode(await client.raw("GET", "/apis"))["groups"]
    versions = ["v1", *(group["preferredVersion"]["groupVersion"] for group in groups)]
    result: list[Resource] = []
    for version in versions:
        path = f"/api/{version}" if "/" not in version else f"/apis/{version}"
        group, _, plain = version.rpartition("/")
        items = msgspec.json.decode(await client.raw("GET", path))["resources"]
        result += [
            Resource(group, plain, item["name"], item["kind"], namespaced=item["namespaced"])
            for item in items
            if "/" not in item["name"] and {"list", "watch", "delete"} <= set(item["verbs"])
        ]
    return result


class AllKinds:
    """Stores of everything, growing with discovery."""

    def __init__(
        self, client: Client, refresh_seconds: float, changed: Callable[[Resource, Change[Object]], None]
    ) -> None:
        self._client = client
        self._refresh_seconds = refresh_seconds
        self._changed = changed
        self.stores: dict[Resource, Store[Object]] = {}

    def find(self, api_version: str, kind: str) -> Resource | None:
        """The resource of an owner reference; any version of its group will do."""
        group = api_version.rpartition("/")[0]
        return next((item for item in self.stores if (item.group, item.kind) == (group, kind)), None)

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            while True:
                try:
                    for resource in await served(self._client):
                        if resource.full_name not in NOT_FOLLOWED and resource not in self.stores:
                            self._follow(resource, tasks)
                except KubeError as error:
                    log.warning("discovery failed, will try again: %s", error)
                await asyncio.sleep(self._refresh_seconds)

    def _follow(self, resource: Resource, tasks: asyncio.TaskGroup) -> None:
        store = self.stores[resource] = Store(self._client, resource, Object)
        store.subscribe(lambda change: self._changed(resource, change))
        tasks.create_task(store.run(), name=f"collector of {resource.full_name}")

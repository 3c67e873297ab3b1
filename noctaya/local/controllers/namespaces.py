"""A namespace that is being deleted is emptied; then its finalizer `kubernetes` is removed and it is gone."""

from noctaya.kube.client import Client
from noctaya.kube.errors import KindNotServed, NotFound
from noctaya.kube.metadata import Object
from noctaya.kube.reflector import Change
from noctaya.kube.resources import NAMESPACES, Resource
from noctaya.kube.store import Store
from noctaya.local.controllers.kinds import served
from noctaya.local.controllers.loop import Controller

FINALIZER = "kubernetes"
NOT_EMPTY_PAUSE_SECONDS = 0.2


class NamespaceController(Controller):
    """Keyed by namespace (the key's namespace is empty)."""

    name = "namespaces"

    def __init__(self, client: Client) -> None:
        super().__init__()
        self._client = client
        self.store = Store(client, NAMESPACES, Object)
        self.store.subscribe(self._changed)

    def _changed(self, change: Change[Object]) -> None:
        if change.new is not None and change.new.metadata.is_deleting:
            self.enqueue("", change.new.name)

    async def reconcile(self, namespace: str, name: str) -> float | None:
        del namespace
        left = 0
        # Asked anew each time: a kind that is missing from a cached list would leave its objects behind for ever.
        for resource in await served(self._client):
            if resource.namespaced:
                left += await self._empty(resource, name)
        if left:
            return NOT_EMPTY_PAUSE_SECONDS
        try:
            found = await self._client.get(NAMESPACES, None, name)
            spec = found.get("spec") or {}
            kept = [item for item in spec.get("finalizers") or () if item != FINALIZER]
            body = {**found, "spec": {**spec, "finalizers": kept}}
            await self._client.replace(NAMESPACES, None, name, body, subresource="finalize")
        except NotFound:
            return None
        return None

    async def _empty(self, resource: Resource, namespace: str) -> int:
        """Ask for the deletion of everything of one kind; how many objects are still there."""
        try:
            found = await self._client.list(resource, namespace, into=Object)
        except (NotFound, KindNotServed):
            return 0
        for item in found.items:
            if item.metadata.is_deleting:
                continue
            try:
                await self._client.delete(resource, namespace, item.name, uid=item.uid)
            except NotFound:
                continue
        return len(found.items)

"""The garbage collector: children go when their last owner is gone; foreground and orphan deletion.

`ownership.py` decides; this asks the API server about owners it has not seen, and performs. Every deletion carries the uid
of the object that was meant.
"""

import msgspec

from noctaya.kube.client import Client, PatchType, Propagation
from noctaya.kube.errors import NotFound
from noctaya.kube.metadata import Object, OwnerReference
from noctaya.kube.reflector import Change
from noctaya.kube.resources import Resource
from noctaya.local.controllers.kinds import AllKinds
from noctaya.local.controllers.loop import Controller
from noctaya.local.controllers.ownership import Node, OwnerGraph, without_owner

UNKNOWN_KIND_PAUSE_SECONDS = 5.0


class GarbageCollector(Controller):
    """Keyed by uid (the key's namespace is empty)."""

    name = "garbage"

    def __init__(self, client: Client, refresh_seconds: float) -> None:
        super().__init__()
        self._client = client
        self._graph = OwnerGraph()
        self.kinds = AllKinds(client, refresh_seconds, self._changed)

    def _changed(self, resource: Resource, change: Change[Object]) -> None:
        old, new = change.old, change.new
        if old is not None and (new is None or new.uid != old.uid):
            children = self._graph.dependents(old.uid)
            self._graph.remove(old.uid)
            self._look_at(children)
        if new is not None:
            self._graph.put(Node(resource, new.metadata))
            if new.metadata.owner_references or new.metadata.is_deleting:
                self.enqueue("", new.uid)
        kept = {owner.uid for owner in new.metadata.owner_references} if new is not None else set()
        for owner in old.metadata.owner_references if old is not None else ():
            if owner.uid not in kept:
                self.enqueue("", owner.uid)  # it may have waited for this child to go, or to be let go

    def _look_at(self, nodes: list[Node]) -> None:
        for node in nodes:
            self.enqueue("", node.metadata.uid)

    async def reconcile(self, namespace: str, name: str) -> float | None:
        del namespace
        node = self._graph.nodes.get(name)
        if node is None:
            return None
        decision = self._graph.decide(name)
        for owner in decision.ask:
            if not await self._ask(node, owner):
                return UNKNOWN_KIND_PAUSE_SECONDS
        if decision.ask:
            decision = self._graph.decide(name)
        if decision.delete:
            await self._delete(node, Propagation.FOREGROUND if decision.foreground else None)
        for child in decision.release:
            await self._release(child, name)
        if decision.finish:
            await self._remove_finalizer(node, decision.finish)
        self._look_at(list(decision.dependents))
        return None

    async def _ask(self, node: Node, owner: OwnerReference) -> bool:
        """Find out whether an owner exists; False when its kind is not known (yet)."""
        resource = self.kinds.find(owner.api_version, owner.kind)
        if resource is None:
            return False
        namespace = node.metadata.namespace if resource.namespaced else None
        try:
            found = await self._client.get(resource, namespace or None, owner.name, into=Object)
        except NotFound:
            self._graph.absent.add(owner.uid)
            return True
        if found.uid == owner.uid:
            self._graph.put(Node(resource, found.metadata))  # our store will say the same in a moment
        else:
            self._graph.absent.add(owner.uid)
        return True

    async def _delete(self, node: Node, propagation: Propagation | None) -> None:
        metadata = node.metadata
        try:
            await self._client.delete(
                node.resource,
                metadata.namespace or None,
                metadata.name,
                uid=metadata.uid,
                propagation=propagation or Propagation.BACKGROUND,
            )
        except NotFound:
            return

    async def _release(self, child: Node, owner_uid: str) -> None:
        owners = without_owner(child.metadata.owner_references, owner_uid)
        await self._patch(child, {"ownerReferences": msgspec.to_builtins(owners)})

    async def _remove_finalizer(self, node: Node, finalizer: str) -> None:
        left = [item for item in node.metadata.finalizers if item != finalizer]
        await self._patch(node, {"finalizers": left})

    async def _patch(self, node: Node, metadata: dict[str, object]) -> None:
        # The resourceVersion makes a list that was computed from an older state a conflict instead of a loss.
        patch = {"metadata": {**metadata, "resourceVersion": node.metadata.resource_version}}
        try:
            await self._client.patch(
                node.resource, node.metadata.namespace or None, node.metadata.name, patch, PatchType.MERGE
            )
        except NotFound:
            return

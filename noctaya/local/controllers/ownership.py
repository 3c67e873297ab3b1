"""Who owns whom, and what must go when an owner goes: the garbage collector's graph. Pure.

Nodes are objects by uid. An owner that is not in the graph is not yet known to be absent: the shell must ask the API server
(`Unknown` in the decision), because a store may be a moment behind and deleting a child for that would be final.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from noctaya.kube.metadata import Metadata, OwnerReference
from noctaya.kube.resources import Resource

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"


@dataclass(frozen=True, slots=True)
class Node:
    """One object of the cluster."""

    resource: Resource
    metadata: Metadata

    @property
    def is_going_in_foreground(self) -> bool:
        """It waits for its dependents to go first."""
        return self.metadata.is_deleting and FOREGROUND in self.metadata.finalizers

    @property
    def is_orphaning(self) -> bool:
        """It waits for its dependents to be let go."""
        return self.metadata.is_deleting and ORPHAN in self.metadata.finalizers


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do about one object."""

    delete: bool = False
    foreground: bool = False
    ask: tuple[OwnerReference, ...] = ()
    """Owners to look up before anything can be decided."""
    release: tuple[Node, ...] = ()
    """Dependents from which this object's owner reference is to be removed (orphaned)."""
    finish: str = ""
    """Finalizer to remove: everything that it waited for is done."""
    dependents: tuple[Node, ...] = ()
    """Dependents to look at, because they must go before this object."""


@dataclass(slots=True)
class OwnerGraph:
    """All known objects and the edges between them."""

    nodes: dict[str, Node] = field(default_factory=dict)
    _dependents: dict[str, set[str]] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    """uids that are known to be gone; a uid never comes back."""

    def put(self, node: Node) -> None:
        """An object was added or changed."""
        uid = node.metadata.uid
        self._unlink(uid)
        self.nodes[uid] = node
        for owner in node.metadata.owner_references:
            self._dependents.setdefault(owner.uid, set()).add(uid)

    def remove(self, uid: str) -> None:
        """An object is gone."""
        self._unlink(uid)
        self.nodes.pop(uid, None)
        if self._dependents.get(uid):
            self.absent.add(uid)

    def _unlink(self, uid: str) -> None:
        old = self.nodes.get(uid)
        if old is None:
            return
        for owner in old.metadata.owner_references:
            children = self._dependents.get(owner.uid, set())
            children.discard(uid)
            if not children:
                self._dependents.pop(owner.uid, None)
                self.absent.discard(owner.uid)  # nobody asks for it any more

    def dependents(self, uid: str) -> list[Node]:
        """Objects that name `uid` as an owner."""
        return [self.nodes[child] for child in self._dependents.get(uid, ())]

    def decide(self, uid: str) -> Decision:
        """What is to be done about this object now."""
        node = self.nodes.get(uid)
        if node is None:
            return Decision()
        children = self.dependents(uid)
        if node.is_orphaning:
            return Decision(release=tuple(children)) if children else Decision(finish=ORPHAN)
        if node.is_going_in_foreground:
            blocking = [child for child in children if blocks(child, uid)]
            return Decision(dependents=tuple(children)) if blocking else Decision(finish=FOREGROUND)
        owners = node.metadata.owner_references
        if not owners or node.metadata.is_deleting:
            return Decision()
        ask = tuple(owner for owner in owners if owner.uid not in self.nodes and owner.uid not in self.absent)
        if ask:
            return Decision(ask=ask)
        states = [self.nodes.get(owner.uid) for owner in owners]
        if all(state is None for state in states):
            return Decision(delete=True)
        if all(state is None or state.is_going_in_foreground for state in states):
            return Decision(delete=True, foreground=bool(children))
        return Decision()


def blocks(child: Node, owner_uid: str) -> bool:
    """Whether the child's reference makes its owner wait for it."""
    return any(
        owner.uid == owner_uid and owner.block_owner_deletion for owner in child.metadata.owner_references
    )


def without_owner(owners: Iterable[OwnerReference], uid: str) -> list[OwnerReference]:
    """The references that remain when one owner lets go."""
    return [owner for owner in owners if owner.uid != uid]

"""Which change in the cluster makes which service's turn, and how urgently.

Callbacks of the stores: quick, and they never raise. What our own writes cause is let pass where it can be told (a service's
status), and what comes in bursts is put off a little, so that one run sees all of it: a starting pod changes six times.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from noctaya.kube.objects import Deployment, Object, Pod, ScaledObject
from noctaya.kube.reflector import Change, ChangeKind
from noctaya.workers.objects import InferenceRuntime, LLMService, ScaledHPA, service_key
from noctaya.workers.queue import Priority
from noctaya.workers.stores import Stores, owning_service

SOON_SECONDS = 0.05
PODS_SETTLE_SECONDS = 0.1
KEDA_SETTLES_SECONDS = 0.3

Add = Callable[[str, Priority, float], None]


class Triggers:
    """`add(key, priority, delay_seconds)` is called for every service that a change concerns."""

    def __init__(
        self, stores: Stores, add: Add, *, forget: Callable[[str], None], forget_child: Callable[[str], None]
    ) -> None:
        self._stores = stores
        self._add = add
        self._forget = forget
        self._forget_child = forget_child

    def subscribe(self) -> None:
        """Listen to every store; what is there already counts as added."""
        self._stores.services.subscribe(self._service)
        self._stores.runtimes.subscribe(self._runtime)
        self._stores.pods.subscribe(self._pod)
        self._stores.deployments.subscribe(self._deployment)
        self._stores.scaledobjects.subscribe(self._scaledobject)
        self._stores.hpas.subscribe(self._hpa)
        for store in (self._stores.kube_services, self._stores.pvcs, self._stores.jobs):
            store.subscribe(self._child)

    def secret_changed(self, namespace: str, name: str) -> None:
        """A Secret that services refer to was made, changed or deleted."""
        for service in self._stores.services.by_index("secret", service_key(namespace, name)):
            self._add(service.key, Priority.CHANGED, SOON_SECONDS)

    def everything(self) -> None:
        """Something that concerns all services changed: behind whatever is more urgent."""
        for service in self._stores.services.items():
            self._add(service.key, Priority.BACKLOG, 0.0)

    def shard(self, shard: int) -> None:
        """A shard was acquired."""
        for service in self._stores.services.by_index("shard", str(shard)):
            self._add(service.key, Priority.BACKLOG, 0.0)

    def _service(self, change: Change[LLMService]) -> None:
        service = change.subject
        if change.kind is ChangeKind.DELETED:
            self._forget(service.key)
        elif change.old is None:
            is_first_list = not self._stores.services.synced.is_set()
            self._add(service.key, Priority.BACKLOG if is_first_list else Priority.CHANGED, 0.0)
        elif _identity(change.old) != _identity(service):
            self._add(service.key, Priority.CHANGED, 0.0)

    def _runtime(self, change: Change[InferenceRuntime]) -> None:
        if (
            change.old is not None
            and change.new is not None
            and _identity(change.old) == _identity(change.new)
        ):
            return
        found = list(self._stores.services.by_index("runtime", change.subject.name))
        vendors = {state.choice().vendor for state in (change.old, change.new) if state is not None}
        for vendor in vendors:
            found.extend(self._stores.services.by_index("vendor", vendor))
        for service in found:
            self._add(service.key, Priority.CHANGED, SOON_SECONDS)

    def _pod(self, change: Change[Pod]) -> None:
        was, is_ = (state.is_ready if state is not None else False for state in (change.old, change.new))
        if was != is_:
            self._owner(change, Priority.WOKEN, SOON_SECONDS)
        else:
            self._owner(change, Priority.CHANGED, PODS_SETTLE_SECONDS)

    def _deployment(self, change: Change[Deployment]) -> None:
        if (
            change.old is not None
            and change.new is not None
            and change.old.spec.replicas != change.new.spec.replicas
        ):
            self._owner(change, Priority.WOKEN, 0.0)
        else:
            self._child(change)

    def _scaledobject(self, change: Change[ScaledObject]) -> None:
        old, new = change.old, change.new
        if old is not None and new is not None:
            is_same = _identity(old) == _identity(new) and old.status.conditions == new.status.conditions
            if is_same:  # KEDA notes when it was last active, poll by poll
                return
        self._owner(change, Priority.CHANGED, KEDA_SETTLES_SECONDS)

    def _hpa(self, change: Change[ScaledHPA]) -> None:
        if change.old is not None and change.new is not None and change.old.spec == change.new.spec:
            return
        self._owner(change, Priority.CHANGED, KEDA_SETTLES_SECONDS)

    def _child(self, change: Change[Any]) -> None:
        self._owner(change, Priority.CHANGED, SOON_SECONDS)

    def _owner(self, change: Change[Any], priority: Priority, delay_seconds: float) -> None:
        child: Object = change.subject
        if change.kind is ChangeKind.DELETED:
            self._forget_child(child.uid)
        for key in owning_service(child):
            if self._exists(key):
                self._add(key, priority, delay_seconds)

    def _exists(self, key: str) -> bool:
        namespace, _, name = key.partition("/")
        return self._stores.services.get(namespace, name) is not None


def _identity(state: Object) -> tuple[object, ...]:
    """What changes when a person (or another controller) changed the object, and not when its status did."""
    metadata = state.metadata
    return (
        metadata.uid,
        metadata.generation,
        metadata.deletion_timestamp,
        metadata.labels,
        metadata.annotations,
    )

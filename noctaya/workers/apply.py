"""Bringing one child to what `render` says, without ever touching an object that is not ours, nor KEDA's replicas.

The rules, each with its test on an API server:

- A child is *created* by server-side apply without force, after a GET found nothing. An object of that name that this
  LLMService does not control is never adopted: its name is taken, and the service says so.
- Later applies use force and carry the uid and resourceVersion of the object that they were decided upon: a re-created
  namesake answers 409 instead of being adopted, and so does an object that another worker has applied since, if we stood still
  between the decision and the write.
- A Deployment is created with `replicas: scaling.min`, so that a sleeping model does not start once for nothing. Then manager
  `noctaya-replicas` takes the field over, with an annotation that says so, and every later apply leaves it out. Without that
  second owner the field would be owned by nobody once we drop it, and the API server would reset it to 1.
- Nothing is written while nothing differs. The hash of what was applied stands in an annotation; together with the generation
  that we saw after our own write it answers without a call. An unknown generation (KEDA scaled, somebody edited, we were
  restarted) costs one GET and a comparison.
- A child that is created once is only compared by the hash of its spec.

`permit` is asked directly before every write and raises when this worker may not act.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable
from typing import Any

import msgspec

from noctaya.api.conditions import Reason
from noctaya.api.names import ANNOTATION_CREATE_ONCE_HASH, GROUP
from noctaya.kube import Client
from noctaya.kube.errors import BadRequest, Conflict, Invalid, NotFound
from noctaya.kube.objects import Metadata, Object, OwnerReference
from noctaya.telemetry import context
from noctaya.workers.compare import says
from noctaya.workers.errors import BeingDeleted, SpecProblem
from noctaya.workers.render import Child, spec_hash

MANAGER = "noctaya"
REPLICAS_MANAGER = "noctaya-replicas"
ANNOTATION_APPLIED_HASH = f"{GROUP}/applied-hash"
ANNOTATION_REPLICAS = f"{GROUP}/replicas-managed-by"
"""On a Deployment: `spec.replicas` is the autoscaler's; nothing that renders the rest may set it."""
AUTOSCALER = "keda"
HANDOVER_ATTEMPTS = 4

Permit = Callable[[str], None]

log = logging.getLogger(__name__)


class Applier:
    """Applies children and remembers, for each object's uid, the version that our last look found in order."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._seen: dict[str, str] = {}

    async def ensure(self, child: Child, live: Object | None, owner_uid: str, permit: Permit) -> bool:
        """Make `child` true; `live` is the store's view of it. Returns whether anything was written.

        Raises:
            SpecProblem: the name is taken, a created-once child drifted, or the API server refuses the object for good.
            BeingDeleted: the old object is still on its way out.
            NotPermitted: from `permit`.
            KubeError: anything else; worth a retry.
        """
        if live is not None:
            _check_owner(child, live.metadata.controller(), live.metadata.is_deleting, owner_uid)
            if child.is_created_once:
                return _check_drift(child, live.metadata.annotations)
            if live.metadata.annotations.get(ANNOTATION_APPLIED_HASH) == _hash(child) and self._seen.get(
                live.uid
            ) == _version(live.metadata):
                return False
        try:
            return await self._ensure(child, owner_uid, permit)
        except (Invalid, BadRequest) as error:
            if any(cause.field == "metadata.uid" for cause in error.causes):
                raise BeingDeleted(f"{child} was replaced by another object since it was read") from error
            raise SpecProblem(child.failure, f"the API server refuses {child}: {error}") from error

    def forget(self, uid: str) -> None:
        """The object is gone."""
        self._seen.pop(uid, None)

    async def _ensure(self, child: Child, owner_uid: str, permit: Permit) -> bool:
        found = await self._get(child)
        if found is None:
            found = await self._create(child, owner_uid, permit)
            if child.first_replicas is not None:
                found = await self._hand_over_replicas(child, found, permit)
            self._remember(found)
            return True
        metadata = found["metadata"]
        _check_owner(child, _controller(metadata), "deletionTimestamp" in metadata, owner_uid)
        annotations = metadata.get("annotations", {})
        if child.is_created_once:
            return _check_drift(child, annotations)
        wrote = False
        if child.first_replicas is not None and ANNOTATION_REPLICAS not in annotations:
            # We died between creation and handover, or somebody took the annotation away.
            found = await self._hand_over_replicas(child, found, permit)
            wrote = True
        body = _body(child)
        if not says(found, body):
            body["metadata"] |= {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
            found = await self._apply(child, body, permit, force=True)
            log.info("applied", extra=context(child=child))
            wrote = True
        self._remember(found)
        return wrote

    async def _create(self, child: Child, owner_uid: str, permit: Permit) -> dict[str, Any]:
        body = _body(child)
        if child.first_replicas is not None:
            body["spec"]["replicas"] = child.first_replicas
        try:
            created = await self._apply(child, body, permit, force=False)
        except Conflict:
            # Somebody was quicker since our GET. If it is ours after all, the next round goes on from there.
            found = await self._get(child)
            if found is not None:
                _check_owner(child, _controller(found["metadata"]), False, owner_uid)
            raise
        log.info("created", extra=context(child=child))
        return created

    async def _hand_over_replicas(
        self, child: Child, found: dict[str, Any], permit: Permit
    ) -> dict[str, Any]:
        for _ in range(HANDOVER_ATTEMPTS):
            body = _identity(child) | {"spec": {"replicas": found["spec"].get("replicas", 1)}}
            body["metadata"] |= {
                "uid": found["metadata"]["uid"],
                "annotations": {ANNOTATION_REPLICAS: AUTOSCALER},
            }
            permit(f"hand over the replicas of {child}")
            try:
                return await self._client.apply(
                    child.resource, child.namespace, child.name, body, field_manager=REPLICAS_MANAGER
                )
            except Conflict:
                # Scaled between our read and our write. Claiming the present value conflicts with nobody.
                found = await self._client.get(child.resource, child.namespace, child.name)
        raise BeingDeleted(f"the replicas of {child} change faster than they can be read; trying again later")

    async def _apply(
        self, child: Child, body: dict[str, Any], permit: Permit, *, force: bool
    ) -> dict[str, Any]:
        permit(f"apply {child}")
        return await self._client.apply(
            child.resource, child.namespace, child.name, body, field_manager=MANAGER, force=force
        )

    async def _get(self, child: Child) -> dict[str, Any] | None:
        try:
            return await self._client.get(child.resource, child.namespace, child.name)
        except NotFound:
            return None

    def _remember(self, found: dict[str, Any]) -> None:
        metadata = found["metadata"]
        self._seen[metadata["uid"]] = _version_of(metadata.get("generation", 0), metadata["resourceVersion"])


def _body(child: Child) -> dict[str, Any]:
    body = copy.deepcopy(child.body)
    body["metadata"].setdefault("annotations", {})[ANNOTATION_APPLIED_HASH] = _hash(child)
    return body


def _hash(child: Child) -> str:
    return spec_hash(child.body)[:16]


def _identity(child: Child) -> dict[str, Any]:
    return {
        "apiVersion": child.resource.api_version,
        "kind": child.resource.kind,
        "metadata": {"name": child.name, "namespace": child.namespace},
    }


def _version(metadata: Metadata) -> str:
    return _version_of(metadata.generation, metadata.resource_version)


def _version_of(generation: int, resource_version: str) -> str:
    # A generation moves only with the spec; Services and claims have none, and rarely change at all.
    return f"generation {generation}" if generation else f"resourceVersion {resource_version}"


def _controller(metadata: dict[str, Any]) -> OwnerReference | None:
    owners = msgspec.convert(metadata.get("ownerReferences", []), list[OwnerReference])
    return next((owner for owner in owners if owner.controller), None)


def _check_owner(child: Child, controller: OwnerReference | None, is_deleting: bool, owner_uid: str) -> None:
    if controller is None or controller.uid != owner_uid:
        (ours,) = child.body["metadata"]["ownerReferences"]
        if controller is not None and (controller.kind, controller.name) == (ours["kind"], ours["name"]):
            raise BeingDeleted(
                f"{child} belonged to a deleted LLMService of this name; it is made anew when it is collected"
            )
        raise SpecProblem(
            Reason.NAME_CONFLICT,
            f"{child} exists and does not belong to this LLMService; it is left alone. Delete or rename it, or give the "
            "LLMService another name",
        )
    if is_deleting:
        raise BeingDeleted(f"{child} is being deleted; it is made anew when it is gone")


def _check_drift(child: Child, annotations: dict[str, str]) -> bool:
    """False, since nothing is ever written to a child that is created once."""
    made_from = annotations.get(ANNOTATION_CREATE_ONCE_HASH)
    wanted = child.body["metadata"]["annotations"][ANNOTATION_CREATE_ONCE_HASH]
    if made_from is not None and made_from != wanted:
        raise SpecProblem(
            Reason.CACHE,
            f"{child} was made from another spec and is never changed; it stays in use. Save what it holds and delete it "
            "to have it made anew",
        )
    return False

"""Writes a service's status and tells what changed.

A merge patch on the status subresource with `metadata.resourceVersion`: the write counts only against exactly the object that
the decision was made from. Server-side apply would do as well for the fields, but it has no such precondition unless it
carries the same resourceVersion, and then its ownership of list entries buys nothing: one writer owns this status. A
conflict is a world error; the next run starts from the newer object. The epoch in the status fences late writers: who finds
a higher one than its own writes nothing (`convergence.py`).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from noctaya.kube import Client, PatchType
from noctaya.kube.errors import Conflict
from noctaya.kube.events import EventRecorder, reference
from noctaya.kube.objects import format_time
from noctaya.kube.resources import LLMSERVICES
from noctaya.kube.versions import is_older
from noctaya.telemetry import context
from noctaya.workers.apply import Permit
from noctaya.workers.events import transitions
from noctaya.workers.objects import LLMService, LLMServiceStatus
from noctaya.workers.status import Seen, compute, differs

log = logging.getLogger(__name__)


def wall_clock() -> str:
    """The present in the API's time format, for people only."""
    return format_time(datetime.now(UTC))


class StatusWriter:
    """Status and events of services."""

    def __init__(
        self, client: Client, recorder: EventRecorder, *, wall: Callable[[], str] = wall_clock
    ) -> None:
        self._client = client
        self._recorder = recorder
        self._wall = wall
        self._written: dict[str, LLMService] = {}

    def newest(self, service: LLMService) -> LLMService:
        """`service` from the store, or as our last write left it where the store has not heard of that yet.

        Without it the next run would start from a status that is known to be old, and conflict.
        """
        written = self._written.get(service.key)
        if written is not None and written.uid == service.uid and _is_newer(written, service):
            return written
        self._written.pop(service.key, None)
        return service

    def forget(self, key: str) -> None:
        """The service is gone."""
        self._written.pop(key, None)

    async def write(self, service: LLMService, seen: Seen, permit: Permit) -> bool:
        """Write what `seen` amounts to, if it is news. Returns whether it was.

        Raises:
            NotPermitted: from `permit`.
            KubeError: Conflict when the service changed meanwhile; anything else as it comes.
        """
        new = compute(service, seen, self._wall())
        if not differs(service.status, new):
            return False
        permit(f"write the status of {service.key}")
        try:
            self._written[service.key] = await self._client.patch(
                LLMSERVICES,
                service.namespace,
                service.name,
                {"metadata": {"resourceVersion": service.metadata.resource_version}, "status": as_patch(new)},
                PatchType.MERGE,
                into=LLMService,
                subresource="status",
                field_manager="noctaya",
            )
        except Conflict:
            # What we remember is not the newest, however its version reads: a cluster from a backup counts from lower ones.
            self.forget(service.key)
            raise
        about = reference(LLMSERVICES, service)
        for note in transitions(service.status, new):
            self._recorder.record(about, note.reason, note.message, note.type)
        if service.status.phase != new.phase:
            log.info(
                "phase changed",
                extra=context(
                    name=service.key, phase=new.phase, before=service.status.phase or "-", ready=new.replicas
                ),
            )
        return True


def _is_newer(written: LLMService, stored: LLMService) -> bool:
    return is_older(stored.metadata.resource_version, written.metadata.resource_version)


def as_patch(status: LLMServiceStatus) -> dict[str, Any]:
    """All fields, unset ones as null: a merge patch would keep what is merely left out."""
    return {
        "phase": status.phase,
        "resolvedRuntime": status.resolved_runtime or None,
        "resolvedRevision": status.resolved_revision or None,
        "replicas": status.replicas,
        "endpointURL": status.endpoint_url or None,
        "lastActivation": status.last_activation,
        "shardEpoch": status.shard_epoch,
        "conditions": [
            {
                "type": condition.type,
                "status": condition.status,
                "reason": condition.reason,
                "message": condition.message,
                "lastTransitionTime": condition.last_transition_time,
                "observedGeneration": condition.observed_generation,
            }
            for condition in status.conditions
        ],
    }

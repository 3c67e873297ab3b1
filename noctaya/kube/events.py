"""Kubernetes events about our objects, for `kubectl describe`: told in passing, never waited for.

`record` only notes; `run` writes, one at a time. Identical events within ten minutes become one with a count
(`aggregation.py`). Events are a courtesy: when the API server refuses or is gone they are dropped and counted, with one
line in the log, and nothing else is held up.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime
from uuid import uuid4

from noctaya.kube.aggregation import Aggregation, Entry, EventKey
from noctaya.kube.client import Client
from noctaya.kube.errors import AlreadyExists, KubeError, NotFound, TooManyRequests, Unavailable
from noctaya.kube.metadata import Metadata, Object, format_time
from noctaya.kube.objects import Event, EventSource, ObjectReference
from noctaya.kube.resources import EVENTS, Resource
from noctaya.kube.retry import retried

log = logging.getLogger(__name__)

_MAX_MESSAGE_CHARACTERS = 1024
"""What the API server accepts for a message."""
_MAX_NAME_PREFIX_CHARACTERS = 200


def reference(resource: Resource, about: Object, field_path: str = "") -> ObjectReference:
    """What an event is about, from an object of that kind."""
    return ObjectReference(
        api_version=resource.api_version,
        kind=resource.kind,
        namespace=about.metadata.namespace,
        name=about.metadata.name,
        uid=about.metadata.uid,
        field_path=field_path,
    )


class EventRecorder:
    """`component` is who speaks (`noctaya-worker`), `instance` which one of them (the pod)."""

    def __init__(
        self,
        client: Client,
        component: str,
        *,
        instance: str = "",
        capacity: int = 1000,
        window_seconds: float = 600.0,
        retry_seconds: float = 30.0,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._client = client
        self._component = component
        self._instance = instance
        self._retry_seconds = retry_seconds
        self._wall_clock = wall_clock
        self._aggregation = Aggregation(capacity=capacity, window_seconds=window_seconds)
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._has_complained = False

    @property
    def dropped(self) -> int:
        """How many occurrences were lost, to a full queue or to a refusal."""
        return self._aggregation.dropped

    def record(self, about: ObjectReference, reason: str, message: str, type_: str = "Normal") -> None:
        """Note one occurrence; `type_` is "Normal" or "Warning". Never blocks and never raises for the server's sake."""
        if len(message) > _MAX_MESSAGE_CHARACTERS:
            message = message[: _MAX_MESSAGE_CHARACTERS - 1] + "…"
        self._aggregation.add(
            EventKey(about=about, type=type_, reason=reason, message=message), self._wall_clock()
        )
        self._idle.clear()
        self._wake.set()

    async def run(self) -> None:
        """Write what is noted, until cancelled."""
        while True:
            entry = self._aggregation.take()
            if entry is None:
                self._idle.set()
                self._wake.clear()
                await self._wake.wait()
                continue
            await self._write(entry)

    async def flush(self, timeout_seconds: float) -> bool:
        """Wait until all is written, while `run` runs; whether it was within the time. For a clean stop."""
        try:
            async with asyncio.timeout(timeout_seconds):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    async def _write(self, entry: Entry) -> None:
        try:
            if entry.name is not None:
                await self._recount(entry)
            if entry.name is None:
                await self._create(entry)
        except KubeError as error:
            self._aggregation.refused(entry)
            if not self._has_complained:
                self._has_complained = True
                log.warning("events are being lost: %s", error)
        else:
            self._aggregation.wrote(entry)
            self._has_complained = False

    async def _create(self, entry: Entry) -> None:
        # The name is chosen before the first attempt, so that a repeated create meets itself (AlreadyExists) at worst.
        name = f"{entry.key.about.name[:_MAX_NAME_PREFIX_CHARACTERS]}.{uuid4().hex[:16]}"
        namespace = entry.key.about.namespace or "default"
        body = self._event(entry, name, namespace)
        await self._create_once(namespace, body)
        entry.name = name

    async def _create_once(self, namespace: str, body: Event) -> None:
        may_exist = False

        async def attempt() -> None:
            nonlocal may_exist
            try:
                await self._client.create(EVENTS, namespace, body, into=Object)
            except KubeError as error:
                if may_exist and isinstance(error, AlreadyExists):
                    return
                may_exist = may_exist or isinstance(error, (Unavailable, TooManyRequests))
                raise

        await retried(attempt, deadline_seconds=self._retry_seconds)

    async def _recount(self, entry: Entry) -> None:
        name = entry.name or ""
        patch = {"count": entry.count, "lastTimestamp": _time(entry.last_at)}
        namespace = entry.key.about.namespace or "default"
        try:
            # A merge patch to absolute values may happen twice.
            await retried(
                lambda: self._client.patch(EVENTS, namespace, name, patch),
                deadline_seconds=self._retry_seconds,
            )
        except NotFound:
            # Events live for an hour by default: it expired under us.
            entry.name = None

    def _event(self, entry: Entry, name: str, namespace: str) -> Event:
        return Event(
            metadata=Metadata(name=name, namespace=namespace),
            involved_object=entry.key.about,
            reason=entry.key.reason,
            message=entry.key.message,
            type=entry.key.type,
            count=entry.count,
            source=EventSource(component=self._component, host=self._instance),
            first_timestamp=_time(entry.first_at),
            last_timestamp=_time(entry.last_at),
            reporting_component=self._component,
            reporting_instance=self._instance,
        )


def _time(at: float) -> str:
    return format_time(datetime.fromtimestamp(at, UTC))

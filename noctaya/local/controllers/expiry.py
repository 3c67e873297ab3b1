"""Events expire after an hour, as on a cluster, so that a long-lived laptop cluster does not fill up with them."""

import asyncio
import logging
import time
from datetime import datetime

from msgspec import field

from noctaya.kube.client import Client
from noctaya.kube.errors import KubeError, NotFound
from noctaya.kube.metadata import Object
from noctaya.kube.resources import EVENTS

log = logging.getLogger(__name__)


class EventRecord(Object, frozen=True):
    """An event's times."""

    last_timestamp: str | None = field(default=None)
    event_time: str | None = field(default=None)


class EventExpiry:
    """Removes old events now and then."""

    def __init__(self, client: Client, age_seconds: float, sweep_seconds: float) -> None:
        self._client = client
        self._age_seconds = age_seconds
        self._sweep_seconds = sweep_seconds

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(self._sweep_seconds)
            try:
                await self.sweep(time.time())
            except KubeError as error:
                log.warning("old events not removed yet: %s", error)

    async def sweep(self, now: float) -> int:
        """Remove events last seen before `now` (wall) minus the age; how many there were."""
        found = await self._client.list(EVENTS, into=EventRecord)
        old = [item for item in found.items if last_seen(item) < now - self._age_seconds]
        for item in old:
            try:
                await self._client.delete(EVENTS, item.namespace, item.name, uid=item.uid)
            except NotFound:
                continue
        return len(old)


def last_seen(event: EventRecord) -> float:
    """Wall time of the last occurrence."""
    text = event.last_timestamp or event.event_time or event.metadata.creation_timestamp
    return datetime.fromisoformat(text).timestamp() if text else 0.0

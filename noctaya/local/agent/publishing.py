"""Writes one pod's status to the API server: only when it changed, latest wins, retried until it stands or the pod is gone."""

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from noctaya.kube.client import Client
from noctaya.kube.errors import Conflict, KubeError, NotFound
from noctaya.kube.metadata import format_time
from noctaya.kube.resources import PODS
from noctaya.local.agent.spec import PodSpec
from noctaya.telemetry import context

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0


class StatusPublisher:
    """Keeps the pod's status in the API equal to what `compute(at)` returns."""

    def __init__(self, client: Client, pod: PodSpec, compute: Callable[[str], dict[str, Any]]) -> None:
        self._client = client
        self._pod = pod
        self._compute = compute
        self._dirty = asyncio.Event()
        self._written: dict[str, Any] | None = None
        self.is_gone = False

    def changed(self) -> None:
        """Something that the status shows may have changed."""
        self._dirty.set()

    async def run(self) -> None:
        """Write whenever something changed, until cancelled or the pod is gone."""
        while not self.is_gone:
            await self._dirty.wait()
            self._dirty.clear()
            if not await self.write():
                await asyncio.sleep(RETRY_SECONDS)
                self._dirty.set()

    async def write(self) -> bool:
        """Write now if different from what was written last; False when the API server did not take it."""
        status = self._compute(format_time(datetime.now(UTC)))
        if self.is_gone or (self._written is not None and same(status, self._written)):
            return True
        if self._written is not None:
            keep_transition_times(status, self._written)
        # A merge patch of the whole lists: this agent is their only writer. The uid keeps it from a namesake.
        patch = {"metadata": {"uid": self._pod.uid}, "status": {**status, "message": None, "reason": None}}
        try:
            await self._client.patch(PODS, self._pod.namespace, self._pod.name, patch, subresource="status")
        except NotFound:
            self.is_gone = True
            return True
        except Conflict as error:
            log.info("status refused", extra=context(pod=self._pod.key, error=str(error)))
            return False
        except KubeError as error:
            log.warning("status not written yet", extra=context(pod=self._pod.key, error=str(error)))
            return False
        self._written = status
        return True


def same(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two statuses say the same; times of transition do not count."""
    return timeless(one) == timeless(other)


def timeless(status: dict[str, Any]) -> dict[str, Any]:
    """A status without the times that change by being computed."""
    plain = [
        {key: value for key, value in item.items() if key != "lastTransitionTime"}
        for item in status["conditions"]
    ]
    return {**status, "conditions": plain, "startTime": None}


def keep_transition_times(status: dict[str, Any], written: dict[str, Any]) -> None:
    """What this publisher wrote last counts more than what the watch has brought back so far."""
    before = {item["type"]: item for item in written["conditions"]}
    for item in status["conditions"]:
        old = before.get(item["type"])
        if old is not None and old["status"] == item["status"]:
            item["lastTransitionTime"] = old["lastTransitionTime"]
    status["startTime"] = written["startTime"]

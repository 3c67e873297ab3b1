"""Every fall of a model's replicas from some to none in one namespace, from a watch of its Deployments.

When a zero was made stands in the object itself: whoever writes replicas through the scale subresource is noted with the
time, in whole seconds. So a watch that was away (the API server is one of the things that tests kill) tells no wrong time.
How it fails: while the API server does not answer it asks again and again, until cancelled.
"""

import asyncio
import json
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import httpx2

from tests.acceptance.api import Object, open_client, path_of
from tests.acceptance.failures.outcomes import Zero

RETRY_SECONDS = 0.2
WATCH_SECONDS = 20
"""The server is asked to end each watch after this."""
LIMITS = httpx2.Timeout(5.0, read=WATCH_SECONDS + 5.0)
"""A watch that says nothing for longer than it may last has lost its server."""


class Zeros:
    """Follows one namespace's Deployments; `tell` hears of zeros."""

    def __init__(self, kubeconfig: Path, namespace: str, tell: Callable[[Zero], None]) -> None:
        self._kubeconfig, self._namespace, self._tell = kubeconfig, namespace, tell
        self.replicas: dict[str, int] = {}
        """As last told, by `namespace/name`."""

    async def run(self) -> None:
        """Follow until cancelled."""
        async with open_client(self._kubeconfig) as client:
            while True:
                try:
                    await self._follow(client)
                except (httpx2.TransportError, httpx2.HTTPStatusError, json.JSONDecodeError):
                    pass  # the server was killed, or is not whole yet
                await asyncio.sleep(RETRY_SECONDS)

    async def _follow(self, client: httpx2.AsyncClient) -> None:
        path = path_of("deployments", "", self._namespace)
        answer = await client.get(path, timeout=LIMITS)
        listed = answer.raise_for_status().json()
        for entry in listed["items"]:
            self.take(entry, time.time(), time.monotonic())
        query = {
            "watch": "true",
            "resourceVersion": listed["metadata"]["resourceVersion"],
            "timeoutSeconds": str(WATCH_SECONDS),
        }
        async with client.stream("GET", path, params=query, timeout=LIMITS) as events:
            events.raise_for_status()
            async for line in events.aiter_lines():
                event = json.loads(line)
                if event["type"] in ("ADDED", "MODIFIED"):
                    self.take(event["object"], time.time(), time.monotonic())

    def take(self, deployment: Object, wall: float, now: float) -> None:
        """A Deployment as it is now; `wall` and `now` are this instant on the clocks of servers and of requests."""
        model = f"{self._namespace}/{deployment['metadata']['name']}"
        replicas = int(deployment["spec"].get("replicas", 1))
        if self.replicas.get(model, 0) > 0 and replicas == 0:
            made = scaled_at(deployment)
            earliest = now if made is None else min(now, now - (wall - made))
            self._tell(Zero(model, earliest, min(now, earliest + 1.0)))
        self.replicas[model] = replicas


def scaled_at(deployment: Object) -> float | None:
    """When replicas were last written through the scale subresource: seconds since 1970, rounded down."""
    times = [
        datetime.fromisoformat(entry["time"]).timestamp()
        for entry in deployment["metadata"].get("managedFields", ())
        if entry.get("subresource") == "scale" and "f:replicas" in entry["fieldsV1"].get("f:spec", {})
    ]
    return max(times, default=None)

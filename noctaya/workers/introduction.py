"""The first words with the API server: what the fleet has agreed on, asked until it is answered.

An API server that is down, a right that is missing, a namespace that is not there yet: all of it is mended without a restart of
this worker, so each is waited for, and told meanwhile (`problems`). What no waiting mends is raised: a fleet that shards
differently, or whose key is none.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator
from dataclasses import dataclass

from noctaya.kube import Client
from noctaya.kube.errors import KubeError, TooManyRequests, Unavailable
from noctaya.telemetry import context
from noctaya.workers.founding import found_fleet
from noctaya.workers.keys import fleet_secret
from noctaya.workers.problems import Problem

log = logging.getLogger(__name__)

RETRY_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class KnownFleet:
    """What every worker of a fleet has in common. `is_founder`: this process has just made it so."""

    id: str
    is_founder: bool
    secret: bytes

    def __repr__(self) -> str:
        return f"KnownFleet({self.id!r})"  # never the secret


class Introduction:
    """See the module."""

    def __init__(self, client: Client, namespace: str) -> None:
        self._client = client
        self._namespace = namespace
        self._error: KubeError | None = None

    def problems(self) -> Iterator[Problem]:
        """Why there is no fleet yet."""
        if isinstance(self._error, (Unavailable, TooManyRequests)):
            yield Problem("APIServerUnreachable", f"the API server does not answer: {self._error}")
        elif self._error is not None:
            yield Problem(
                "FleetUnreadable",
                f"what the workers of this fleet share cannot be read or made: {self._error}. This worker waits for it.",
            )

    async def fleet(self, stop: asyncio.Event) -> KnownFleet | None:
        """The fleet, as soon as it can be had; None when `stop` came first.

        Raises:
            ShardMapMismatch, FleetKeyInvalid: this worker must not run as it is.
        """
        while not stop.is_set():
            try:
                # A fleet that was founded and then waited for is no news any more: others may have led it meanwhile.
                found, is_founder = await found_fleet(self._client, self._namespace)
                secret = await fleet_secret(self._client, self._namespace)
            except KubeError as error:
                self._complain(error)
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(RETRY_SECONDS):
                        await stop.wait()
                continue
            self._error = None
            return KnownFleet(found, is_founder, secret)
        return None

    def _complain(self, error: KubeError) -> None:
        if type(error) is not type(self._error):
            log.warning("waiting for the API server", extra=context(error=error))
        self._error = error

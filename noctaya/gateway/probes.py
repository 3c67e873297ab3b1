"""Our own readiness probes: of an endpoint that is about to be used, shared by everybody who waits for it.

A probe belongs to no client: whoever asked first may leave, and the probe goes on for the others. While a service has
waiters, its endpoints are probed every 50 ms, growing to 250 ms, also before their pods are Ready: the answer must not wait
for the kubelet's period. A slow answer of an endpoint that the API calls Ready counts as good (an engine under load must not
look cold); a refused connection never does.
"""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus

import aiohttp
import yarl

from noctaya.gateway.balance import Backend, Balance
from noctaya.gateway.service import Endpoint
from noctaya.gateway.settings import HoldSettings

log = logging.getLogger(__name__)

GROWTH = 1.25


class Outcome(Enum):
    """What a probe found."""

    GOOD = "good"
    SLOW = "slow"
    """It took the connection and did not answer in time."""
    BAD = "bad"


async def probe(
    session: aiohttp.ClientSession, endpoint: Endpoint, path: str, timeout_seconds: float
) -> Outcome:
    """Ask one endpoint: GET `path` (200-399 is good), or just connect when there is none and the API says Ready."""
    try:
        async with asyncio.timeout(timeout_seconds):
            if not path:
                _, writer = await asyncio.open_connection(endpoint.address, endpoint.port)
                writer.close()
                return Outcome.GOOD if endpoint.ready else Outcome.BAD
            url = yarl.URL(f"http://{endpoint.authority}{path}", encoded=True)
            async with session.get(url, allow_redirects=False) as response:
                good = HTTPStatus.OK <= response.status < HTTPStatus.BAD_REQUEST
                return Outcome.GOOD if good else Outcome.BAD
    except TimeoutError:
        return Outcome.SLOW if endpoint.ready else Outcome.BAD
    except (aiohttp.ClientError, OSError, ValueError):  # ValueError: a health path that no URL can hold
        return Outcome.BAD


@dataclass(slots=True)
class _Round:
    """The loop that probes one service while somebody waits for it."""

    waiters: int
    hurry: asyncio.Event
    """Set when its endpoints changed: the pause starts small again."""
    task: asyncio.Task[None]


class Probes:
    """Probes on behalf of waiters; `on_usable(key)` is called when an endpoint has become usable."""

    def __init__(
        self,
        settings: HoldSettings,
        balance: Balance,
        health_path: Callable[[str], str],
        clock: Callable[[], float],
        tasks: asyncio.TaskGroup,
    ) -> None:
        self._settings, self._balance, self._health_path, self._clock = settings, balance, health_path, clock
        self._tasks = tasks
        self._rounds: dict[str, _Round] = {}
        self._running: dict[str, asyncio.Task[bool]] = {}
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, force_close=True, ttl_dns_cache=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            headers={"user-agent": "noctaya-gateway"},
        )
        self.on_usable: Callable[[str], None] = lambda key: None

    async def prove(self, key: str) -> None:
        """Probe, once, every endpoint of a service that is Ready but has been quiet; return when one is usable or all failed."""
        now = self._clock()
        pending: set[asyncio.Task[bool]] = {
            self._start(backend) for backend in self._balance.to_probe(key, now) if backend.endpoint.ready
        }
        while pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            if any(task.result() for task in done if not task.cancelled()):
                return

    @contextlib.asynccontextmanager
    async def while_waiting(self, key: str) -> AsyncIterator[None]:
        """Probe the service's endpoints for as long as the body runs, together with everybody else who waits for it."""
        found = self._rounds.get(key)
        if found is None:
            hurry = asyncio.Event()
            found = self._rounds[key] = _Round(
                0, hurry, self._tasks.create_task(self._loop(key, hurry), name=f"probe {key}")
            )
        found.waiters += 1
        try:
            yield
        finally:
            found.waiters -= 1
            if not found.waiters:
                del self._rounds[key]
                found.task.cancel()

    def endpoints_changed(self, key: str) -> None:
        """Whoever waits for this service has something new to probe."""
        if found := self._rounds.get(key):
            found.hurry.set()

    async def close(self) -> None:
        """End every probe."""
        tasks = [*self._running.values(), *(found.task for found in self._rounds.values())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._session.close()

    async def _loop(self, key: str, hurry: asyncio.Event) -> None:
        pause = self._settings.probe_min_seconds
        while True:
            for backend in self._balance.to_probe(key, self._clock()):
                self._start(backend)
            try:
                async with asyncio.timeout(pause):
                    await hurry.wait()
                hurry.clear()
                pause = self._settings.probe_min_seconds
            except TimeoutError:
                pause = min(pause * GROWTH, self._settings.probe_max_seconds)

    def _start(self, backend: Backend) -> "asyncio.Task[bool]":
        running = self._running.get(backend.endpoint.id)
        if running is None:
            running = self._tasks.create_task(self._probe(backend), name=f"probe {backend.endpoint.id}")
            self._running[backend.endpoint.id] = running
            name = backend.endpoint.id
            running.add_done_callback(lambda _: self._running.pop(name, None))
        return running

    async def _probe(self, backend: Backend) -> bool:
        endpoint = backend.endpoint
        outcome = await probe(
            self._session, endpoint, self._health_path(backend.key), self._settings.probe_timeout_seconds
        )
        is_usable = outcome is Outcome.GOOD or outcome is Outcome.SLOW
        if is_usable and backend.is_listed:
            self._balance.proved(backend, self._clock())
            self.on_usable(backend.key)
        elif endpoint.ready:
            self._balance.failed(backend, self._clock())
            log.debug("probe failed", extra={"context": {"service": backend.key, "pod": endpoint.pod}})
        return is_usable

"""Client keys: only digests stay, a changed Secret is heard of, and a worker that may not list Secrets reads them by name."""

from __future__ import annotations

import asyncio
import base64
import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

from noctaya.kube import Client
from noctaya.workers.keys import KeyRing
from tests.kube.fake_server import FakeServer, is_list, status

FLEET_SECRET = b"f" * 32
SECRET = ("models", "qwen-keys")


def entry(text: bytes) -> dict[str, str]:
    return {"api-key": base64.b64encode(text).decode()}


def digest(key: bytes) -> bytes:
    return hmac.digest(FLEET_SECRET, key, "sha256")


@asynccontextmanager
async def ringing(server: FakeServer) -> AsyncIterator[KeyRing]:
    """A key ring that wants one Secret."""
    async with Client(server.config(), request_timeout_seconds=2) as client:
        ring = KeyRing(
            client, FLEET_SECRET, wanted=lambda: {SECRET: True}, on_change=lambda *_: None, busy_seconds=0.1
        )
        running = asyncio.create_task(ring.run())
        try:
            async with asyncio.timeout(10):
                await ring.loaded.wait()
            yield ring
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def until_digests(ring: KeyRing, wanted: tuple[tuple[str, bytes], ...]) -> None:
    async with asyncio.timeout(5):
        while ring.digests(*SECRET, "api-key") != wanted:  # noqa: ASYNC110 - the ring has no event for this
            await asyncio.sleep(0.01)


async def test_a_secret_and_its_change_are_seen_as_digests() -> None:
    async with FakeServer() as server:
        server.put("secrets", "qwen-keys", data=entry(b"alice k1"))
        async with ringing(server) as ring:
            await until_digests(ring, (("alice", digest(b"k1")),))
            server.put("secrets", "qwen-keys", data=entry(b"alice k2\nk3"))
            await until_digests(ring, (("alice", digest(b"k2")), ("", digest(b"k3"))))


async def test_a_worker_that_may_not_list_secrets_reads_by_name_the_ones_it_needs() -> None:
    async def forbidden(_: web.Request) -> web.StreamResponse:
        return status(
            403, "Forbidden", "secrets is forbidden: cannot list resource secrets at the cluster scope"
        )

    async with FakeServer() as server:
        for _ in range(50):
            server.next(forbidden, lambda request: is_list(request) and request.path.endswith("/secrets"))
        server.put("secrets", "qwen-keys", data=entry(b"k1"))
        async with ringing(server) as ring:
            await until_digests(ring, (("", digest(b"k1")),))


async def test_a_missing_secret_has_no_digest() -> None:
    async with FakeServer() as server, ringing(server) as ring:
        assert ring.digests(*SECRET, "api-key") == ()

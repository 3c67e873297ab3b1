"""Our own readiness probe: what counts as good, and what an engine under load must not look like."""

import asyncio

import aiohttp
import pytest

from noctaya.gateway.probes import Outcome, probe
from noctaya.gateway.service import Endpoint
from tests.gateway.fake_engine import fake_engine
from tests.gateway.test_forward import closed_port


def at(port: int, *, ready: bool = True) -> Endpoint:
    return Endpoint("127.0.0.1", port, "pod", "uid", ready, False)


@pytest.mark.parametrize(
    ("path", "is_healthy", "outcome"),
    [
        ("/health", True, Outcome.GOOD),
        ("/health", False, Outcome.BAD),
        ("/nowhere", True, Outcome.BAD),
        ("", False, Outcome.GOOD),
    ],
)
async def test_a_good_status_is_good_and_without_a_path_a_connection_is_enough(
    path: str, is_healthy: bool, outcome: Outcome
) -> None:
    async with fake_engine() as engine, aiohttp.ClientSession() as session:
        engine.is_healthy = is_healthy
        assert await probe(session, at(engine.port), path, 1.0) is outcome


async def test_a_connection_alone_proves_nothing_of_a_pod_that_is_not_ready() -> None:
    async with fake_engine() as engine, aiohttp.ClientSession() as session:
        assert await probe(session, at(engine.port, ready=False), "", 1.0) is Outcome.BAD


@pytest.mark.parametrize("path", ["/health", ""])
async def test_a_refused_connection_is_bad_even_if_the_api_says_ready(path: str) -> None:
    async with aiohttp.ClientSession() as session:
        assert await probe(session, at(closed_port()), path, 1.0) is Outcome.BAD


@pytest.mark.parametrize(("ready", "outcome"), [(True, Outcome.SLOW), (False, Outcome.BAD)])
async def test_a_ready_engine_that_is_too_busy_to_answer_its_probe_is_slow_not_cold(
    ready: bool, outcome: Outcome
) -> None:
    async def ignore(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async with (
        await asyncio.start_server(ignore, "127.0.0.1", 0) as server,
        aiohttp.ClientSession() as session,
    ):
        port = server.sockets[0].getsockname()[1]
        assert await probe(session, at(port, ready=ready), "/health", 0.05) is outcome

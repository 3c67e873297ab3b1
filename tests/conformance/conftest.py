"""A namespace of either server for each test, and the list of differences at the end of a run.

The fixture is in `fixtures`, since other folders' tests use it too.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from uuid import uuid4

import aiohttp
import pytest

from noctaya.kube.resources import NAMESPACES
from tests.conformance.client import Api
from tests.conformance.definitions import install
from tests.conformance.differences import DIFFERENCES
from tests.conformance.fixtures import OURS
from tests.conformance.server import Server


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say where the embedded server differs, whenever any of this suite ran."""
    ran = [
        one for outcome in ("passed", "failed", "error") for one in terminalreporter.stats.get(outcome, [])
    ]
    if any(_is_ours(report) for report in ran):
        terminalreporter.section("where the embedded API server differs from Kubernetes")
        for one in DIFFERENCES.values():
            terminalreporter.line(f"{one.id}: {one.what} ({one.why})")


def _is_ours(report: object) -> bool:
    return str(getattr(report, "nodeid", "")).startswith("tests/conformance/")


@pytest.fixture
async def api(api_server: Server) -> AsyncIterator[Api]:
    """The server, with a namespace of the test's own."""
    name = f"conformance-{uuid4().hex[:8]}"
    async with aiohttp.ClientSession() as session:
        api = Api(api_server, session, name)
        body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": OURS}}
        await api.ok("POST", NAMESPACES.path(), body)
        yield api  # the namespace stays: the server goes, and to empty it takes longer than most tests


@pytest.fixture
async def widgets(api: Api) -> Api:
    """The server serves Widgets, and the product's own kinds."""
    await install(api)
    return api

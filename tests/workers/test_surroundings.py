"""What a worker finds around it: an old API server, rights that are missing, and how soon it notices either."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from noctaya.kube import Client, Resource
from noctaya.kube.errors import Call, KindNotServed, Unavailable
from noctaya.kube.resources import SELFSUBJECTACCESSREVIEWS
from noctaya.workers.rights import rights
from noctaya.workers.surroundings import CALM_SECONDS, UNEXPLAINED_SECONDS, Surroundings, version_of

HOME = "noctaya-system"
EVERYTHING = len(rights(HOME))


class Server:
    """An API server that is asked for its version and for rights."""

    def __init__(self) -> None:
        self.answer = {"major": "1", "minor": "35", "gitVersion": "v1.35.4"}
        self.denied: set[tuple[str, str]] = set()
        """(verb, plural)."""
        self.error: Exception | None = None
        self.refusals = 0
        self.reviews = 0

    async def version(self) -> dict[str, Any]:
        if self.error is not None:
            raise self.error
        return self.answer

    async def create(self, resource: Resource, namespace: str | None, body: dict[str, Any]) -> dict[str, Any]:
        assert (resource, namespace) == (SELFSUBJECTACCESSREVIEWS, None)
        self.reviews += 1
        if self.error is not None:
            raise self.error
        asked = body["spec"]["resourceAttributes"]
        return {"status": {"allowed": (asked["verb"], asked["resource"]) not in self.denied}}


class Look:
    """Surroundings that look all the time, on a clock that tests turn."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.now = 0.0
        self.surroundings = Surroundings(
            cast(Client, server), own_namespace=HOME, look_seconds=0.001, clock=lambda: self.now
        )

    def names(self) -> list[str]:
        return [problem.name for problem in self.surroundings.problems()]

    async def until(self, claim: Callable[[], bool]) -> None:
        async with asyncio.timeout(5):
            while True:
                if claim():
                    return
                await asyncio.sleep(0.001)

    async def looks(self) -> None:
        """Several more looks have come and gone."""
        for _ in range(20):
            await asyncio.sleep(0.001)


@pytest.fixture
def server() -> Server:
    return Server()


@asynccontextmanager
async def looking(server: Server) -> AsyncIterator[Look]:
    look = Look(server)
    task = asyncio.create_task(look.surroundings.run())
    try:
        await look.until(lambda: server.reviews >= EVERYTHING)
        await look.looks()
        yield look
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ({"major": "1", "minor": "29"}, (1, 29)),
        ({"major": "1", "minor": "30+"}, (1, 30)),
        ({"major": "2", "minor": "0"}, (2, 0)),
        ({"major": "", "minor": ""}, None),
        ({}, None),
    ],
)
def test_versions_are_read_as_providers_write_them(answer: dict[str, Any], expected: object) -> None:
    assert version_of(answer) == expected


async def test_an_old_kubernetes_is_named_with_its_version_until_it_is_upgraded(server: Server) -> None:
    server.answer = {"major": "1", "minor": "29", "gitVersion": "v1.29.9"}
    async with looking(server) as look:
        await look.until(lambda: look.names() == ["KubernetesTooOld"])
        (problem,) = look.surroundings.problems()
        assert "v1.29.9" in problem.message
        assert "1.30" in problem.message
        server.answer = {"major": "1", "minor": "30", "gitVersion": "v1.30.0"}
        await look.until(lambda: look.names() == [])


async def test_a_missing_right_is_told_and_forgotten_when_it_is_there_again(server: Server) -> None:
    server.denied = {("patch", "deployments"), ("list", "pods")}
    changes = 0

    def changed() -> None:
        nonlocal changes
        changes += 1

    async with looking(server) as look:
        look.surroundings.subscribe(changed)
        await look.until(lambda: look.names() == ["deploymentsForbidden", "podsForbidden"])
        server.denied = {("list", "pods")}
        await look.until(lambda: look.names() == ["podsForbidden"])
        server.denied = set()
        await look.until(lambda: look.names() == [])
        assert changes >= 2


async def test_a_right_that_is_taken_away_is_missed_after_the_first_refusal(server: Server) -> None:
    async with looking(server) as look:
        await look.looks()
        server.denied = {("create", "events")}
        await look.looks()
        assert look.names() == []
        server.refusals += 1
        look.now += UNEXPLAINED_SECONDS
        await look.until(lambda: look.names() == ["eventsForbidden"])


async def test_a_right_that_is_taken_away_is_missed_in_time_without_any_refusal(server: Server) -> None:
    async with looking(server) as look:
        server.denied = {("create", "events")}
        look.now += CALM_SECONDS
        await look.until(lambda: look.names() == ["eventsForbidden"])


async def test_refusals_that_no_right_explains_cost_one_look_a_minute(server: Server) -> None:
    async with looking(server) as look:
        look.now += UNEXPLAINED_SECONDS
        for _ in range(5):
            server.refusals += 1
            await look.looks()
        assert server.reviews == 2 * EVERYTHING


@pytest.mark.parametrize("kind", [Unavailable, KindNotServed])
async def test_an_api_server_that_does_not_say_changes_nothing(server: Server, kind: type[Exception]) -> None:
    server.denied = {("patch", "deployments")}
    async with looking(server) as look:
        await look.until(lambda: look.names() == ["deploymentsForbidden"])
        server.error = kind(Call("create", "reviews"), "no")
        look.now += CALM_SECONDS
        await look.looks()
        assert look.names() == ["deploymentsForbidden"]

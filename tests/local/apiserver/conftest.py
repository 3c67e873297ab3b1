"""A cluster without HTTP for semantics, a running server with a small client for the rest, and kubectl."""

from __future__ import annotations

import asyncio
import os
import shutil
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from noctaya.local.apiserver import ApiServer, Cluster, Storage, WriteOptions
from noctaya.local.apiserver.kinds import Kind
from tests.kubectl_run import Finished, run_kubectl
from tests.local.apiserver.manifests import Object, widgets_definition

DEADLINE_SECONDS = 20.0


@dataclass
class Clock:
    """Wall time that stands still until told otherwise."""

    now: float = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


class World:
    """A cluster and short ways to its verbs."""

    def __init__(self, clock: Clock) -> None:
        self.storage = Storage()
        self.cluster = Cluster(self.storage, clock)

    def kind_of(self, body: Object) -> Kind:
        return self.cluster.kind(body["kind"], body["apiVersion"])

    def create(self, body: Object, manager: str = "creator", validation: str = "Warn") -> Object:
        namespace = body["metadata"].get("namespace", "")
        options = WriteOptions(manager=manager, validation=validation)
        return self.cluster.writes.create(self.kind_of(body), namespace, body, options).object

    def apply(self, body: Object, manager: str, *, force: bool = False, sub: str = "") -> Object:
        metadata = body["metadata"]
        options = WriteOptions(manager=manager, force=force)
        written = self.cluster.writes.apply(
            self.kind_of(body), metadata.get("namespace", ""), metadata["name"], sub, body, options
        )
        return written.object

    def replace(self, body: Object, manager: str = "updater", sub: str = "") -> Object:
        metadata = body["metadata"]
        written = self.cluster.writes.replace(
            self.kind_of(body),
            metadata.get("namespace", ""),
            metadata["name"],
            sub,
            body,
            WriteOptions(manager=manager),
        )
        return written.object

    def patch(
        self, body: Object, change: Callable[[Object], Object], manager: str = "patcher", sub: str = ""
    ) -> Object:
        metadata = body["metadata"]
        written = self.cluster.writes.patch(
            self.kind_of(body),
            metadata.get("namespace", ""),
            metadata["name"],
            sub,
            change,
            WriteOptions(manager=manager),
        )
        return written.object

    def get(self, body: Object) -> Object:
        metadata = body["metadata"]
        return self.cluster.get(self.kind_of(body), metadata.get("namespace", ""), metadata["name"])


@pytest.fixture
def world(clock: Clock) -> World:
    return World(clock)


@pytest.fixture
def widgets(world: World) -> World:
    """A cluster that serves Widgets."""
    world.create(widgets_definition())
    return world


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer() as running:
        yield running


class Http:
    """A client with the server's token."""

    def __init__(self, server: ApiServer, session: aiohttp.ClientSession) -> None:
        self._server = server
        self.session = session
        self.tls = ssl.create_default_context(cafile=str(server.client_config().ca_path))
        self.tls.verify_flags |= ssl.VERIFY_X509_STRICT  # the default from Python 3.13 on

    async def call(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        content_type: str = "application/json",
        **headers: str,
    ) -> tuple[int, Any]:
        """Status code and decoded body."""
        token = self._server.client_config().token
        sent = {"Authorization": f"Bearer {token}", **headers}
        keyword: dict[str, Any] = {}
        if isinstance(body, bytes):
            keyword = {"data": body}
            sent["Content-Type"] = content_type
        elif body is not None:
            keyword = {"json": body}
            sent["Content-Type"] = content_type
        async with asyncio.timeout(DEADLINE_SECONDS):
            async with self.session.request(
                method, self._server.url + path, headers=sent, ssl=self.tls, **keyword
            ) as response:
                is_json = "json" in response.headers.get("Content-Type", "")
                return response.status, await response.json(
                    content_type=None
                ) if is_json else await response.text()

    def watch(self, path: str) -> Any:
        """An open response whose lines are events."""
        headers = {"Authorization": f"Bearer {self._server.client_config().token}"}
        return self.session.get(self._server.url + path, headers=headers, ssl=self.tls)


@pytest.fixture
async def http(server: ApiServer) -> AsyncIterator[Http]:
    async with aiohttp.ClientSession() as session:
        yield Http(server, session)


Kubectl = Callable[..., Coroutine[Any, Any, Finished]]


@pytest.fixture
async def kubectl(server: ApiServer, tmp_path: Path) -> Kubectl:
    """`await kubectl("get", "pods", given="…", ok=True)`: run it against the server, with a home of its own."""
    program = shutil.which("kubectl")
    if program is None:
        pytest.skip("kubectl is not on PATH")
    config = server.kubeconfig(tmp_path / "kubeconfig")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "KUBECONFIG": str(config)}

    async def run(*arguments: str, given: str = "", ok: bool = True, **variables: str) -> Finished:
        finished = await run_kubectl(
            program,
            *arguments,
            environment={**environment, **variables},
            given=given,
            seconds=DEADLINE_SECONDS,
        )
        assert not ok or finished.code == 0, f"kubectl {arguments} failed: {finished.err}{finished.out}"
        return finished

    return run

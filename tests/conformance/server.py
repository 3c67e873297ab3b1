"""An API server under test, whichever it is: how to reach it, and the one thing that no request can ask of it."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from noctaya.kube.client import Client
from noctaya.kube.config import ClusterConfig, StaticToken
from noctaya.kube.tls import Tls
from noctaya.local.apiserver import ApiServer, HttpLimits
from noctaya.local.background import background
from noctaya.local.controllers import ControllerSettings, run_all
from tests.cluster.cluster import Cluster
from tests.conformance import store

START_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Server:
    """`compact` forgets all history but the newest, as a store does every few minutes."""

    name: Literal["embedded", "real"]
    kubeconfig: Path
    kubectl: str | None
    compact: Callable[[], None]
    config: ClusterConfig
    tls: ssl.SSLContext
    definitions: set[str] = field(default_factory=set)
    """Names of those that the suite has installed."""

    @property
    def is_real(self) -> bool:
        return self.name == "real"

    @property
    def authorization(self) -> dict[str, str]:
        """Headers that say who we are; none where a client certificate does."""
        token = self.config.token
        return {"Authorization": f"Bearer {token.value}"} if isinstance(token, StaticToken) else {}

    @property
    def address(self) -> tuple[str, int]:
        """Host and port."""
        parts = urlsplit(self.config.server)
        return parts.hostname or "", parts.port or 443


def of(
    name: Literal["embedded", "real"], kubeconfig: Path, kubectl: str | None, compact: Callable[[], None]
) -> Server:
    """A server that a kubeconfig leads to."""
    config = ClusterConfig.load(str(kubeconfig))
    context = Tls(config).context
    assert context is not None, f"{config.server} speaks no TLS"
    return Server(name, kubeconfig, kubectl, compact, config, context)


@contextmanager
def embedded(directory: Path) -> Iterator[Server]:
    """The embedded server with its controllers, on a loop and a thread of its own, as long as the body runs."""
    loop = asyncio.new_event_loop()
    started, stop = threading.Event(), asyncio.Event()
    failures: list[BaseException] = []
    running: list[ApiServer] = []
    kubeconfig = directory / "kubeconfig"

    async def serve() -> None:
        try:
            async with ApiServer(limits=HttpLimits(bookmark_seconds=1.0)) as server:
                server.kubeconfig(kubeconfig)
                running.append(server)
                settings = ControllerSettings(volumes_dir=directory / "volumes", discovery_seconds=1.0)
                async with (
                    Client(ClusterConfig.load(str(kubeconfig)), user_agent="controllers") as client,
                    background(run_all(client, settings)),
                ):
                    started.set()
                    await stop.wait()
        except BaseException as problem:
            failures.append(problem)
            raise
        finally:
            started.set()

    thread = threading.Thread(target=lambda: loop.run_until_complete(serve()), name="embedded API server")
    thread.start()
    try:
        assert started.wait(START_SECONDS), "the embedded server did not start in time"
        assert not failures, f"the embedded server did not start: {failures}"

        def compact() -> None:
            async def run() -> None:
                running[0].storage.compact()

            asyncio.run_coroutine_threadsafe(run(), loop).result(START_SECONDS)

        yield of("embedded", kubeconfig, shutil.which("kubectl"), compact)
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()
    assert not failures, f"the embedded server failed: {failures}"


def real(cluster: Cluster) -> Server:
    """The API server of a cluster that is up; its store is compacted through the store's own door."""
    url = store.url_of(cluster.part("kube-apiserver"))
    return of(
        "real",
        cluster.directory.kubeconfig,
        str(cluster.kubectl.program),
        lambda: store.compact(url),
    )

"""The embedded API server as one object: TLS, token, store and HTTP, started and stopped together.

It listens on loopback only. With a state directory it keeps objects, versions, certificates and token over restarts;
without one everything lives in memory and in a temporary directory that `stop` removes.
"""

from __future__ import annotations

import errno
import tempfile
import time
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import yaml
from aiohttp import web

from noctaya.local.apiserver.certificates import Credentials, ensure_credentials
from noctaya.local.apiserver.cluster import Cluster
from noctaya.local.apiserver.handlers import Handlers, HttpLimits
from noctaya.local.apiserver.journal import FileJournal
from noctaya.local.apiserver.logs import LogSource
from noctaya.local.apiserver.storage import Storage
from noctaya.local.errors import PortInUse, PortRefused

_HOST = "127.0.0.1"
_STOP_SECONDS = 2.0


@dataclass(frozen=True, slots=True)
class ClientConfig:
    """What a client needs."""

    url: str
    ca_path: Path
    token: str


class ApiServer:
    """A small Kubernetes API server; see the package's docstring for what it serves."""

    def __init__(
        self,
        state_dir: Path | None = None,
        *,
        port: int = 0,
        log_source: LogSource | None = None,
        history: int = 4096,
        watch_buffer: int = 8192,
        limits: HttpLimits = HttpLimits(),  # noqa: B008 - a frozen value
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._temporary = None if state_dir else tempfile.TemporaryDirectory(prefix="noctaya-apiserver-")
        directory = Path(self._temporary.name) if self._temporary else Path(state_dir or ".")
        self._credentials: Credentials = ensure_credentials(directory / "pki")
        self._journal = FileJournal(directory / "objects") if state_dir else None
        self.storage = Storage(history=history, watch_buffer=watch_buffer, journal=self._journal)
        if self._journal is not None:
            self._journal.load(self.storage)
        self.cluster = Cluster(self.storage, clock)
        self._handlers = Handlers(self.cluster, self._credentials.token, log_source, limits)
        self._body_bytes = limits.body_bytes
        self._port = port
        self._runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Listen; raises `PortInUse`, `PortRefused`."""
        application = web.Application(client_max_size=self._body_bytes)
        application.router.add_route("*", "/{path:.*}", self._handlers.handle)
        runner = web.AppRunner(
            application,
            access_log=None,
            handler_cancellation=True,
            shutdown_timeout=_STOP_SECONDS,
            handle_signals=False,
        )
        await runner.setup()
        site = web.TCPSite(runner, _HOST, self._port, ssl_context=self._credentials.server_context())
        try:
            await site.start()
        except OSError as problem:
            await runner.cleanup()
            if problem.errno == errno.EADDRINUSE:
                raise PortInUse(_HOST, self._port) from problem
            raise PortRefused(_HOST, self._port, problem.strerror or str(problem)) from problem
        self._port = runner.addresses[0][1]
        self._runner = runner

    async def stop(self) -> None:
        """End every watch, close the listener, write the state out."""
        self.storage.close()
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
        if self._journal is not None:
            self._journal.close(self.storage)
        if self._temporary is not None:
            self._temporary.cleanup()

    async def __aenter__(self) -> ApiServer:
        try:
            await self.start()
        except BaseException:
            await self.stop()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    @property
    def url(self) -> str:
        """`https://127.0.0.1:<port>`."""
        return f"https://{_HOST}:{self._port}"

    def client_config(self) -> ClientConfig:
        """Address, CA file and token."""
        return ClientConfig(self.url, self._credentials.ca_path, self._credentials.token)

    def set_log_source(self, source: LogSource | None) -> None:
        """Serve container logs from `source` from now on."""
        self._handlers.log_source = source

    def kubeconfig(self, path: Path, namespace: str = "default") -> Path:
        """Write a kubeconfig (mode 0600) that kubectl and every client understand; returns its path."""
        authority = self._credentials.ca_path.read_bytes()
        content = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "noctaya-local",
            "clusters": [
                {
                    "name": "noctaya-local",
                    "cluster": {
                        "server": self.url,
                        "certificate-authority-data": b64encode(authority).decode(),
                    },
                }
            ],
            "users": [{"name": "noctaya-local", "user": {"token": self._credentials.token}}],
            "contexts": [
                {
                    "name": "noctaya-local",
                    "context": {"cluster": "noctaya-local", "user": "noctaya-local", "namespace": namespace},
                }
            ],
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(yaml.safe_dump(content, sort_keys=False))
        return path

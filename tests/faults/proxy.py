"""The proxy: a listener for each client, in front of one API server, and the controls that put faults into force.

Each client has a port, so that one may be cut off while the others go on. The proxy speaks TLS with a certificate of its own;
behind it, it is whoever its own configuration says, unless a client sends a bearer token itself. It lives on one event loop.
A defect of the proxy itself fails `close`.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

from noctaya.kube.client import Client
from noctaya.kube.config import ClusterConfig, Pem, StaticToken
from noctaya.kube.resources import NAMESPACES
from noctaya.kube.tls import Tls
from tests.cluster import kubeconfig
from tests.cluster.certificates import Authority, Pair
from tests.faults.connection import LOST, Connection
from tests.faults.http1 import HEAD_BYTES
from tests.faults.rules import EVERYWHERE, READS, Fault, Faults, Plan, Request, Where

HOST = "127.0.0.1"
CONNECT_SECONDS = 10.0
CONNECTIONS = 256
"""Of one client at a time; more are cut off."""


_Adds = Callable[[Fault], Fault]
_Lifts = Callable[[Fault], None]


class _Controls:
    """Faults, put into force for one client or for all of them. Each stays until it is lifted."""

    def _add(self, fault: Fault) -> Fault:
        raise NotImplementedError

    def latency(self, seconds: float, jitter: float = 0.0, where: Where = EVERYWHERE) -> Fault:
        """Each request, and each event of a watch, comes so much later, give or take `jitter`."""
        return self._add(Fault("latency", where, seconds=seconds, jitter=jitter))

    def late(self, probability: float, seconds: float, where: Where = EVERYWHERE) -> Fault:
        """A request reaches the server so much later, also when its client has given it up."""
        return self._add(Fault("late", where, probability, seconds))

    def lose_response(self, probability: float = 1.0, where: Where = EVERYWHERE) -> Fault:
        """The server acts, and its answer is lost with the connection."""
        return self._add(Fault("lose_response", where, probability))

    def reset(self, probability: float = 1.0, where: Where = EVERYWHERE) -> Fault:
        """The connection is reset before the server hears anything."""
        return self._add(Fault("reset", where, probability))

    def black_hole(self, where: Where = EVERYWHERE) -> Fault:
        """Nothing passes and nothing is refused; what was under way is lost even after this is lifted."""
        return self._add(Fault("black_hole", where))

    def status(self, code: int, where: Where = EVERYWHERE, probability: float = 1.0) -> Fault:
        """The answer is this code; the server hears nothing."""
        return self._add(Fault("status", where, probability, code=code))

    def version(self, version: str) -> Fault:
        """The server claims to be an older or newer one: `1.29`."""
        return self._add(Fault("version", version=version.partition(".")[2]))


class ProxiedClient(_Controls):
    """One client's way to the server; made by `FaultProxy.client`."""

    def __init__(self, name: str, proxy: FaultProxy, config: ClusterConfig, faults: Faults) -> None:
        self.name = name
        self.config = config
        """What the client is to use."""
        self.faults = faults
        self.plans: Counter[str] = Counter()
        """How often each fault happened."""
        self.changed = asyncio.Event()
        self._proxy = proxy
        self._thawed = asyncio.Event()
        self._thawed.set()
        self.connections: set[Connection] = set()
        self.listener: asyncio.Server | None = None
        self.server = urlsplit(proxy.upstream.server).netloc
        """Host and port behind the proxy."""

    def kubeconfig(self, path: Path) -> Path:
        """Write one for kubectl or a process of its own."""
        token, proxy = self.config.token, self._proxy
        if isinstance(token, StaticToken):
            return kubeconfig.write(path, self.config.server, proxy.authority, token=token.value)
        # The proxy asks for no certificate; but without credentials kubectl asks a person for some.
        return kubeconfig.write(path, self.config.server, proxy.authority, identity=proxy.identity(self.name))

    def freeze(self) -> None:
        """Nothing passes in either direction until `thaw`; then everything goes on as if time had stood still."""
        self._thawed.clear()

    def thaw(self) -> None:
        self._thawed.set()

    def drop_watches(self) -> int:
        """Cut every watch that is open; how many that were."""
        watches = [one for one in self.connections if one.request is not None and one.request.is_watch]
        for one in watches:
            one.abort()
        return len(watches)

    async def stale(self, seconds: float | None = None) -> Fault:
        """For so long, reads are answered as of now and watches hear nothing: a server that lags behind."""
        return await self._proxy.as_of_now(self._add, self.lift, seconds)

    def lift(self, fault: Fault) -> None:
        """End a fault of this client; nothing happens when it has ended."""
        if fault in self.faults.own:
            self.faults.own.remove(fault)
        self.tell()

    def clear(self) -> None:
        """End every fault of this client, a freeze too."""
        self.faults.own.clear()
        self.thaw()
        self.tell()

    def tell(self) -> None:
        """Wake what waits for another state of the faults."""
        self.changed.set()
        self.changed.clear()

    async def thawed(self) -> None:
        """Until nothing is frozen."""
        await self._thawed.wait()

    def planned(self, request: Request, plan: Plan) -> None:
        """Count what is about to happen."""
        self.plans["watches" if request.is_watch else "requests"] += 1
        for name in ("is_swallowed", "is_reset", "loses_response", "status", "past", "late_seconds"):
            self.plans[name] += bool(getattr(plan, name))

    async def connect(self, *, is_anonymous: bool) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to the server."""
        return await self._proxy.connect(is_anonymous=is_anonymous)

    def _add(self, fault: Fault) -> Fault:
        self.faults.own.append(fault)
        return fault


class FaultProxy(_Controls):
    """`async with FaultProxy(config, seed=7) as proxy: worker = await proxy.client("worker")`."""

    def __init__(self, upstream: ClusterConfig, *, seed: int = 0, host: str = HOST) -> None:
        self.upstream = upstream
        self.clients: dict[str, ProxiedClient] = {}
        self._seed = seed
        self._host = host
        self._shared: list[Fault] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._timers: list[asyncio.TimerHandle] = []
        self._defects: list[BaseException] = []
        self._folder = tempfile.TemporaryDirectory(prefix="faults-")
        folder = Path(self._folder.name)
        self._authority = Authority(folder, "authority", "faults")
        self.authority = self._authority.pair.certificate
        own = self._authority.leaf("proxy", "proxy", server_names=[host, "localhost"])
        self._served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._served.load_cert_chain(own.certificate, own.key)
        self._tls = Tls(upstream).context
        self._anonymous = Tls(ClusterConfig(server=upstream.server, ca=upstream.ca)).context

    async def __aenter__(self) -> FaultProxy:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def client(self, name: str) -> ProxiedClient:
        """A client's own way; its faults are its own, and `seed` and name decide about its luck."""
        config = ClusterConfig(server="https://127.0.0.1:1", source=name)
        made = ProxiedClient(name, self, config, Faults(f"{self._seed}/{name}", self._shared))
        made.listener = await asyncio.start_server(
            lambda reader, writer: self._accept(made, reader, writer),
            self._host,
            0,
            ssl=self._served,
            limit=HEAD_BYTES,
        )
        port = made.listener.sockets[0].getsockname()[1]
        made.config = ClusterConfig(
            server=f"https://{self._host}:{port}",
            ca=Pem(data=self.authority.read_bytes()),
            token=self.upstream.token,
            source=f"fault proxy of {name}",
        )
        self.clients[name] = made
        return made

    def identity(self, name: str) -> Pair:
        """A certificate of the proxy's own authority for a client that must have one."""
        return self._authority.leaf(f"client-{name}", name)

    def freeze(self) -> None:
        """Freeze every client."""
        for client in self.clients.values():
            client.freeze()

    def thaw(self) -> None:
        for client in self.clients.values():
            client.thaw()

    def drop_watches(self) -> int:
        """Cut every client's watches."""
        return sum(client.drop_watches() for client in self.clients.values())

    async def stale(self, seconds: float | None = None) -> Fault:
        """The same for every client."""
        return await self.as_of_now(self._add, self.lift, seconds)

    def lift(self, fault: Fault) -> None:
        """End a fault of all clients."""
        if fault in self._shared:
            self._shared.remove(fault)
        self._tell()

    def clear(self) -> None:
        """End every fault, of all clients and of each."""
        self._shared.clear()
        for client in self.clients.values():
            client.clear()

    async def close(self) -> None:
        """End every connection and listener; raises what went wrong in the proxy itself."""
        for timer in self._timers:
            timer.cancel()
        for client in self.clients.values():
            if client.listener is not None:
                client.listener.close()
            for connection in list(client.connections):
                connection.abort()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._folder.cleanup()
        if self._defects:
            raise ExceptionGroup("defects of the fault proxy", [_as_exception(one) for one in self._defects])

    async def as_of_now(self, add: _Adds, lift: _Lifts, seconds: float | None) -> Fault:
        """Put `stale` into force with the server's present version."""
        async with Client(self.upstream, user_agent="fault-proxy") as client:
            newest = json.loads(await client.raw("GET", NAMESPACES.path(), query={"limit": "1"}))
        fault = add(Fault("stale", READS, version=newest["metadata"]["resourceVersion"]))
        if seconds is not None:
            self._timers.append(asyncio.get_running_loop().call_later(seconds, lift, fault))
        return fault

    async def connect(self, *, is_anonymous: bool) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection to the server, with our certificate unless the client is to be somebody else."""
        parts = urlsplit(self.upstream.server)
        context = self._anonymous if is_anonymous else self._tls
        async with asyncio.timeout(CONNECT_SECONDS):
            return await asyncio.open_connection(parts.hostname, parts.port, ssl=context, limit=HEAD_BYTES)

    def _add(self, fault: Fault) -> Fault:
        self._shared.append(fault)
        return fault

    def _tell(self) -> None:
        for client in self.clients.values():
            client.tell()

    def _accept(
        self, client: ProxiedClient, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        if len(client.connections) >= CONNECTIONS:
            writer.transport.abort()
            return
        connection = Connection(client, reader, writer)
        client.connections.add(connection)
        task = asyncio.get_running_loop().create_task(connection.run(), name=f"faults of {client.name}")
        self._tasks.add(task)
        task.add_done_callback(lambda ended: self._ended(client, connection, ended))

    def _ended(self, client: ProxiedClient, connection: Connection, task: asyncio.Task[None]) -> None:
        client.connections.discard(connection)
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            if not isinstance(problem, (*LOST, OSError, TimeoutError)):
                self._defects.append(problem)


def _as_exception(problem: BaseException) -> Exception:
    return problem if isinstance(problem, Exception) else RuntimeError(repr(problem))

"""The embedded cluster, assembled: API server, controllers, KEDA's stand-in, node agent, then workers and gateways as pods.

One async context. On leaving, things end in the opposite order: the node agent ends its processes while the API server
still answers, so that nothing outlives the context, whatever ended it.
"""

import asyncio
import contextlib
import errno
import random
import socket
import time
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

import noctaya
from noctaya.api.crds import crds
from noctaya.kube import resources
from noctaya.kube.client import Client
from noctaya.kube.config import ClusterConfig
from noctaya.kube.errors import KubeError
from noctaya.kube.resources import Resource
from noctaya.local.agent import NodeAgent, default_images
from noctaya.local.apiserver import ApiServer
from noctaya.local.background import background
from noctaya.local.controllers import ControllerSettings, run_all
from noctaya.local.errors import ExampleInvalid, NotReadyInTime, PortInUse, PortRefused
from noctaya.local.keda import KedaStandIn
from noctaya.local.keda import crds as keda_crds
from noctaya.local.narrator import Narrator
from noctaya.local.restored import forget_processes
from noctaya.local.settings import LocalSettings
from noctaya.local.system import SYSTEM_NAMESPACE, system_objects
from noctaya.local.workdir import kubeconfig_path, working_directory

FIELD_MANAGER = "noctaya-local"
NODE_PORTS = range(30000, 32768)
POLL_SECONDS = 0.05
LAST_LINES = 3

Object = dict[str, Any]

KINDS: dict[tuple[str, str], Resource] = {
    (resource.api_version, resource.kind): resource
    for resource in vars(resources).values()
    if isinstance(resource, Resource)
}


@dataclass(frozen=True, slots=True)
class LocalCluster:
    """A running embedded cluster and how to reach it."""

    client: Client
    kubeconfig: Path
    work_dir: Path
    gateway_url: str

    async def apply(self, objects: Iterable[dict[str, Any]]) -> None:
        """Server-side apply every object, in order.

        Raises:
            ExampleInvalid: an object of a kind that the embedded cluster does not know.
            KubeError: the API server refused one.
        """
        for body in objects:
            resource = KINDS.get((body["apiVersion"], body["kind"]))
            if resource is None:
                raise ExampleInvalid(
                    f"the embedded cluster does not serve {body['apiVersion']} {body['kind']}"
                )
            metadata = body["metadata"]
            namespace = metadata.get("namespace", "default") if resource.namespaced else None
            await self.client.apply(
                resource, namespace, metadata["name"], body, field_manager=FIELD_MANAGER, force=True
            )

    async def wait_ready(self, component: str, replicas: int, timeout_seconds: float) -> None:
        """Return when `replicas` pods of `component` (worker, gateway) are ready.

        Raises:
            NotReadyInTime: they are not after `timeout_seconds`, or one ends again and again; the message has its last words.
        """
        selector = f"app.kubernetes.io/component={component}"
        deadline = time.monotonic() + timeout_seconds
        while True:
            found = await self.client.list(resources.PODS, SYSTEM_NAMESPACE, label_selector=selector)
            if sum(map(is_ready, found.items)) >= replicas:
                return
            left = deadline - time.monotonic()
            if left < 0 or any(map(is_crash_looping, found.items)):
                words = "; ".join([await self._last_words(pod) for pod in found.items]) or "it has no pods"
                raise NotReadyInTime(f"noctaya-{component}", timeout_seconds - max(left, 0.0), words)
            await asyncio.sleep(POLL_SECONDS)

    async def _last_words(self, pod: Object) -> str:
        """The end of a pod's log: of this attempt, else of the one before. The log goes with the cluster."""
        name = pod["metadata"]["name"]
        path = resources.PODS.path(SYSTEM_NAMESPACE, name, "log")
        for previous in ("false", "true"):
            query = {"tailLines": str(LAST_LINES), "previous": previous}
            with contextlib.suppress(KubeError):
                log = await self.client.raw("GET", path, query=query)
                if words := log.decode(errors="replace").strip():
                    return f"{name} said: {words}"
        return f"{name} said nothing"


def is_ready(pod: Object) -> bool:
    """The pod answers its readiness probe."""
    conditions = pod.get("status", {}).get("conditions", ())
    return any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)


def is_crash_looping(pod: Object) -> bool:
    """A container of the pod has ended more than once and waits for its next try."""
    statuses = pod.get("status", {}).get("containerStatuses", ())
    return any(one["state"].get("waiting", {}).get("reason") == "CrashLoopBackOff" for one in statuses)


@contextlib.asynccontextmanager
async def local_cluster(settings: LocalSettings, narrator: Narrator) -> AsyncIterator[LocalCluster]:
    """Start the cluster, its workers and gateways; end all of it on leaving."""
    async with contextlib.AsyncExitStack() as stack:
        work_dir = stack.enter_context(working_directory(settings.state_dir))
        kubeconfig = kubeconfig_path(settings.kubeconfig, work_dir)
        if settings.kubeconfig is not None:
            stack.callback(kubeconfig.unlink, missing_ok=True)
        gateway_port = settings.gateway_port or free_port()
        control_port = free_port()
        refuse_taken(gateway_port)
        with narrator.step(
            "starting the embedded cluster", "embedded cluster: API server, controllers, node, KEDA stand-in"
        ):
            server = ApiServer(state_dir=work_dir if settings.state_dir else None, port=settings.api_port)
            await stack.enter_async_context(server)
            server.kubeconfig(kubeconfig)
            client = await stack.enter_async_context(
                Client(ClusterConfig.load(str(kubeconfig)), user_agent=f"noctaya-local/{noctaya.__version__}")
            )
            cluster = LocalCluster(client, kubeconfig, work_dir, f"http://127.0.0.1:{gateway_port}")
            if settings.state_dir is not None:
                await forget_processes(client)
            await cluster.apply([*crds(), *keda_crds()])
            agent = NodeAgent(client, default_images(), work_dir)
            server.set_log_source(agent.logs)
            controllers = run_all(client, ControllerSettings(volumes_dir=work_dir / "volumes"))
            # The agent is the first to start and the last to end: what looks at the workers' processes (KEDA's stand-in, the
            # controllers) is gone before they are, and has no failure to tell of.
            await stack.enter_async_context(background(agent.run()))
            await stack.enter_async_context(background(controllers, KedaStandIn(client).run()))
        with narrator.step(
            "starting workers and gateways", f"{settings.workers} worker, {settings.gateways} gateways"
        ):
            await cluster.apply(
                system_objects(
                    settings, kubeconfig=kubeconfig, gateway_port=gateway_port, control_port=control_port
                )
            )
            await cluster.wait_ready("worker", settings.workers, settings.ready_timeout_seconds)
            await cluster.wait_ready("gateway", settings.gateways, settings.ready_timeout_seconds)
        yield cluster


def example_objects() -> list[dict[str, Any]]:
    """The objects of `examples/local/`, from the checkout or from the installed package."""
    package = Path(noctaya.__file__).parent
    for directory in (package.parent / "examples" / "local", package / "local" / "examples"):
        if directory.is_dir():
            return [
                body
                for path in sorted(directory.glob("*.yaml"))
                for body in yaml.safe_load_all(path.read_text())
                if body
            ]
    raise ExampleInvalid(
        "examples/local is neither beside the package nor inside it; run from a checkout of Noctaya"
    )


def free_port() -> int:
    """A port of the node-port range on which nothing listens now."""
    for port in random.sample(NODE_PORTS, len(NODE_PORTS)):
        with contextlib.suppress(PortInUse):
            refuse_taken(port)
            return port
    raise PortInUse("127.0.0.1", NODE_PORTS.start)


def refuse_taken(port: int) -> None:
    """Find out whether one can listen on `port` of 127.0.0.1.

    Raises:
        PortInUse: another program does.
        PortRefused: this machine does not allow it.
    """
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise PortInUse("127.0.0.1", port) from error
            raise PortRefused("127.0.0.1", port, error.strerror or str(error)) from error

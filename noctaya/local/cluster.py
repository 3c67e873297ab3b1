"""The embedded cluster, assembled: API server, controllers, KEDA's stand-in, node agent, then workers and gateways as pods.

One async context. On leaving, things end in the opposite order: the node agent ends its processes while the API server
still answers, so that nothing outlives the context, whatever ended it.
"""

import asyncio
import contextlib
import random
import shutil
import socket
import tempfile
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
from noctaya.kube.resources import Resource
from noctaya.local.agent import NodeAgent, default_images
from noctaya.local.apiserver import ApiServer
from noctaya.local.background import background
from noctaya.local.controllers import ControllerSettings, run_all
from noctaya.local.errors import ExampleInvalid, NotReadyInTime, PortInUse
from noctaya.local.keda import KedaStandIn
from noctaya.local.keda import crds as keda_crds
from noctaya.local.narrator import Narrator
from noctaya.local.settings import LocalSettings
from noctaya.local.system import SYSTEM_NAMESPACE, system_objects

FIELD_MANAGER = "noctaya-local"
NODE_PORTS = range(30000, 32768)
POLL_SECONDS = 0.05

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

    async def wait_ready(self, deployment: str, replicas: int, timeout_seconds: float) -> None:
        """Return when `deployment` of the system namespace has `replicas` ready pods.

        Raises:
            NotReadyInTime: it has not, after `timeout_seconds`; the message says where to look.
        """
        try:
            async with asyncio.timeout(timeout_seconds):
                while True:
                    found = await self.client.get(resources.DEPLOYMENTS, SYSTEM_NAMESPACE, deployment)
                    if found.get("status", {}).get("readyReplicas", 0) >= replicas:
                        return
                    await asyncio.sleep(POLL_SECONDS)
        except TimeoutError as error:
            raise NotReadyInTime(deployment, timeout_seconds, self.work_dir) from error


@contextlib.asynccontextmanager
async def local_cluster(settings: LocalSettings, narrator: Narrator) -> AsyncIterator[LocalCluster]:
    """Start the cluster, its workers and gateways; end all of it on leaving."""
    gateway_port = settings.gateway_port or free_port()
    control_port = free_port()
    refuse_taken(gateway_port)
    async with contextlib.AsyncExitStack() as stack:
        work_dir = settings.state_dir or Path(tempfile.mkdtemp(prefix="noctaya-"))
        work_dir.mkdir(parents=True, exist_ok=True)
        kubeconfig = settings.kubeconfig or work_dir / "kubeconfig"
        if settings.state_dir is None:
            stack.callback(shutil.rmtree, work_dir, ignore_errors=True)
        with narrator.step(
            "starting the embedded cluster", "embedded cluster: API server, controllers, node, KEDA stand-in"
        ):
            server = ApiServer(state_dir=settings.state_dir, port=settings.api_port)
            await server.start()
            stack.push_async_callback(server.stop)
            server.kubeconfig(kubeconfig)
            if settings.kubeconfig is not None:
                stack.callback(kubeconfig.unlink, missing_ok=True)
            client = await stack.enter_async_context(
                Client(ClusterConfig.load(str(kubeconfig)), user_agent=f"noctaya-local/{noctaya.__version__}")
            )
            cluster = LocalCluster(client, kubeconfig, work_dir, f"http://127.0.0.1:{gateway_port}")
            await cluster.apply([*crds(), *keda_crds()])
            agent = NodeAgent(client, default_images(), work_dir)
            server.set_log_source(agent.logs)
            controllers = run_all(client, ControllerSettings(volumes_dir=work_dir / "volumes"))
            await stack.enter_async_context(background(controllers, KedaStandIn(client).run()))
            await stack.enter_async_context(background(agent.run()))
        with narrator.step(
            "starting workers and gateways", f"{settings.workers} worker, {settings.gateways} gateways"
        ):
            await cluster.apply(
                system_objects(
                    settings, kubeconfig=kubeconfig, gateway_port=gateway_port, control_port=control_port
                )
            )
            await cluster.wait_ready("noctaya-worker", settings.workers, settings.ready_timeout_seconds)
            await cluster.wait_ready("noctaya-gateway", settings.gateways, settings.ready_timeout_seconds)
        yield cluster


def example_objects() -> list[dict[str, Any]]:
    """The objects of `examples/local/`, from the checkout or from the installed package."""
    package = Path(noctaya.__file__).parent
    for directory in (package.parent / "examples" / "local", package / "local" / "examples"):
        if directory.is_dir():
            return [
                body
                for path in sorted(directory.glob("*.yaml"), reverse=True)
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
    """Raise `PortInUse` when something listens on `port` of 127.0.0.1."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise PortInUse("127.0.0.1", port) from error

"""An embedded API server, controllers and a node agent in the test's own loop, with short clocks."""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from noctaya.kube.client import Client
from noctaya.kube.config import ClusterConfig
from noctaya.kube.errors import NotFound
from noctaya.kube.resources import EVENTS, PODS, Resource
from noctaya.local.agent import AgentSettings, LocalImage, NodeAgent, default_images
from noctaya.local.apiserver import ApiServer
from noctaya.local.controllers import ControllerSettings, run_all

Json = dict[str, Any]
BARE = (sys.executable, "-I", "-S", "-u")
IMAGES = {
    "python": LocalImage((*BARE, "-c")),
    "sh": LocalImage(("/bin/sh", "-c")),
}
QUICK = AgentSettings(
    restart_base_seconds=0.3,
    restart_maximum_seconds=1.0,
    pull_base_seconds=0.4,
    config_retry_seconds=0.1,
    volume_base_seconds=0.05,
    minimum_grace_seconds=0.1,
    shutdown_seconds=1.0,
    refresh_seconds=0.1,
)


@dataclass
class LocalCluster:
    """What a test needs of it."""

    client: Client
    agent: NodeAgent
    server: ApiServer
    work_dir: Path

    async def create(self, resource: Resource, body: Json, namespace: str | None = "default") -> Json:
        return await self.client.create(resource, namespace if resource.namespaced else None, body)

    async def pod(self, name: str, containers: list[Json], **spec: Any) -> Json:
        """Create a pod."""
        body = {
            "metadata": {"name": name, "labels": {"app": name}},
            "spec": {"containers": containers, **spec},
        }
        return await self.create(PODS, body)

    async def read_pod(self, name: str) -> Json:
        return await self.client.get(PODS, "default", name)

    async def until(
        self, resource: Resource, name: str, claim: Callable[[Json], bool], seconds: float = 8.0
    ) -> Json:
        """The object, once `claim` holds for it."""
        namespace = "default" if resource.namespaced else None
        found: Json = {}

        async def holds() -> bool:
            nonlocal found
            try:
                found = await self.client.get(resource, namespace, name)
            except NotFound:
                return False
            return claim(found)

        await until(holds, seconds, lambda: f"{resource.kind} {name} is {found.get('status')}")
        return found

    async def until_gone(self, resource: Resource, name: str, seconds: float = 8.0) -> None:
        async def gone() -> bool:
            try:
                await self.client.get(resource, "default" if resource.namespaced else None, name)
            except NotFound:
                return True
            return False

        await until(gone, seconds, lambda: f"{resource.kind} {name} is still there")

    async def events(self, name: str) -> list[tuple[str, str]]:
        """(reason, message) of every event about an object of this name."""
        found = await self.client.list(EVENTS, "default")
        return [(e["reason"], e["message"]) for e in found.items if e["involvedObject"]["name"] == name]

    async def until_event(self, name: str, reason: str, part: str = "", seconds: float = 5.0) -> None:
        seen: list[tuple[str, str]] = []

        async def told() -> bool:
            nonlocal seen
            seen = await self.events(name)
            return any(r == reason and part in m for r, m in seen)

        await until(told, seconds, lambda: f"no event {reason} {part!r} on {name}: {seen}")

    async def until_logged(self, pod: str, text: str, container: str = "main", seconds: float = 5.0) -> None:
        """Wait until the container's log is exactly `text`."""

        async def is_logged() -> bool:
            return self.log_text(pod, container) == text

        await until(is_logged, seconds, lambda: f"log of {pod}: {self.log_text(pod, container)!r}")

    def log_text(self, pod: str, container: str = "main", *, previous: bool = False) -> str:
        path = self.agent.logs.find("default", pod, container, previous=previous).path
        return "".join(line.split(" ", 2)[2] for line in path.read_text().splitlines(keepends=True))


async def until(claim: Callable[[], Awaitable[bool]], seconds: float, explain: Callable[[], str]) -> None:
    """Wait for a condition."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while not await claim():
        assert loop.time() < deadline, explain()
        await asyncio.sleep(0.02)


@asynccontextmanager
async def local_cluster(
    work_dir: Path,
    *,
    images: Mapping[str, LocalImage] | None = None,
    agent_settings: AgentSettings = QUICK,
    node_resources: Mapping[str, int] | None = None,
    **controller_settings: Any,
) -> AsyncIterator[LocalCluster]:
    """Everything running; ended, and its processes with it, at the exit."""
    server = ApiServer()
    await server.start()
    config = ClusterConfig.load(str(server.kubeconfig(work_dir / "kubeconfig")))
    table = default_images().with_images({**IMAGES, **(images or {})})
    try:
        async with Client(config, user_agent="test") as client:
            agent = NodeAgent(client, table, work_dir / "node", agent_settings)
            server.set_log_source(agent.logs)
            settings = ControllerSettings(
                volumes_dir=work_dir / "volumes",
                node_resources=dict(node_resources or {}),
                job_base_seconds=0.1,
                unbound_retry_seconds=0.1,
                discovery_seconds=0.5,
                **controller_settings,
            )
            tasks = [asyncio.create_task(agent.run()), asyncio.create_task(run_all(client, settings))]
            try:
                yield LocalCluster(client, agent, server, work_dir)
            finally:
                for task in tasks:
                    task.cancel()
                for result in await asyncio.gather(*tasks, return_exceptions=True):
                    if isinstance(result, Exception):
                        raise result
    finally:
        await server.stop()


def container(script: str, name: str = "main", image: str = "python", **more: Any) -> Json:
    """A container that runs a Python (or, image="sh", a shell) script."""
    return {"name": name, "image": image, "args": [script], **more}


def phase_is(phase: str) -> Callable[[Json], bool]:
    return lambda pod: (pod.get("status") or {}).get("phase") == phase


def is_ready(pod: Json) -> bool:
    conditions = (pod.get("status") or {}).get("conditions") or []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def first_container(pod: Json) -> Json:
    """The first container's status, or {}."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or [{}]
    status: Json = statuses[0]
    return status


def waiting_reason(pod: Json) -> str:
    reason: str = first_container(pod).get("state", {}).get("waiting", {}).get("reason", "")
    return reason

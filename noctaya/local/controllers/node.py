"""The Node object: this machine as the cluster's only node, with a heartbeat."""

import asyncio
import contextlib
import logging
import os
import platform
from datetime import UTC, datetime

from noctaya.kube.client import PatchType
from noctaya.kube.errors import AlreadyExists, KubeError
from noctaya.kube.metadata import format_time
from noctaya.kube.reflector import Change
from noctaya.kube.resources import NODES
from noctaya.local.controllers.records import Json, Record
from noctaya.local.controllers.settings import ControllerSettings
from noctaya.local.controllers.view import ClusterView

log = logging.getLogger(__name__)

RETRY_SECONDS = 0.5
MAXIMUM_PODS = 110


class NodeHeartbeat:
    """Makes the node, and says regularly that it is ready."""

    def __init__(self, view: ClusterView, settings: ControllerSettings) -> None:
        self._view = view
        self._settings = settings
        self._due = asyncio.Event()
        view.nodes.subscribe(self._node_changed)

    def _node_changed(self, change: Change[Record]) -> None:
        """An operator patched a resource into `capacity`: it should become allocatable soon."""
        if change.new is not None and change.new.name == self._settings.node_name:
            status = change.new.status
            if (status.get("capacity") or {}).keys() - (status.get("allocatable") or {}).keys():
                self._due.set()

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            pause = self._settings.heartbeat_seconds
            self._due.clear()
            try:
                await self._beat()
            except KubeError as error:
                log.warning("node not updated yet: %s", error)
                pause = RETRY_SECONDS
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._due.wait()

    async def _beat(self) -> None:
        name = self._settings.node_name
        node = self._view.nodes.get("", name)
        if node is None:
            labels = {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": platform.system().lower(),
                "kubernetes.io/arch": machine_architecture(),
                **self._settings.node_labels,
            }
            try:
                await self._view.client.create(
                    NODES, None, {"metadata": {"name": name, "labels": labels}, "spec": {}}
                )
            except AlreadyExists:
                pass  # another agent's, or ours from a state directory
        before = node.status if node is not None else {}
        patch = {"status": node_status(self._settings, before, format_time(datetime.now(UTC)))}
        await self._view.client.patch(NODES, None, name, patch, PatchType.MERGE, subresource="status")


def node_status(settings: ControllerSettings, before: Json, at: str) -> Json:
    """Capacity from the machine, extended resources from the settings (or as an operator patched them in)."""
    measured = {
        "cpu": str(os.cpu_count() or 1),
        "memory": f"{memory_bytes() // 1024}Ki",
        "pods": str(MAXIMUM_PODS),
        **{key: str(value) for key, value in settings.node_resources.items()},
    }
    old = {item["type"]: item for item in before.get("conditions") or ()}
    ready = {
        "type": "Ready",
        "status": "True",
        "reason": "KubeletReady",
        "message": "the node agent runs",
        "lastHeartbeatTime": at,
        "lastTransitionTime": old.get("Ready", {}).get("lastTransitionTime", at),
    }
    return {
        "capacity": {**(before.get("capacity") or {}), **measured},
        # An operator may patch extended resources into `capacity`; what is allocatable follows.
        "allocatable": {**(before.get("capacity") or {}), **(before.get("allocatable") or {}), **measured},
        "conditions": [ready],
        "addresses": [
            {"type": "InternalIP", "address": "127.0.0.1"},
            {"type": "Hostname", "address": settings.node_name},
        ],
        "nodeInfo": {
            "architecture": machine_architecture(),
            "operatingSystem": platform.system().lower(),
            "osImage": platform.platform(terse=True),
            "kernelVersion": platform.release(),
            "containerRuntimeVersion": "process://1",
            "kubeletVersion": "v1.35.0+noctaya",
            "kubeProxyVersion": "",
            "machineID": "",
            "systemUUID": "",
            "bootID": "",
        },
    }


def memory_bytes() -> int:
    """The machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def machine_architecture() -> str:
    """Go's name for the architecture, as node labels have it."""
    machine = platform.machine().lower()
    return {"x86_64": "amd64", "aarch64": "arm64"}.get(machine, machine)

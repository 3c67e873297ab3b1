"""Runs one pod: feeds its lifecycle with what happens, performs what it decides, and publishes its status.

Ends when nothing of the pod is left, on this machine and in the API; cancelled, it leaves the processes to `ProcessTable`.
"""

import asyncio
import logging
import shutil

from noctaya.kube.errors import Conflict, KubeError, NotFound
from noctaya.kube.events import reference
from noctaya.kube.objects import ObjectReference
from noctaya.kube.resources import PODS
from noctaya.local.agent.containers import ContainerOperations
from noctaya.local.agent.errors import VolumeNotReady
from noctaya.local.agent.lifecycle import PodLifecycle
from noctaya.local.agent.node import Node
from noctaya.local.agent.publishing import RETRY_SECONDS, StatusPublisher
from noctaya.local.agent.spec import PodObject, parse_pod
from noctaya.local.agent.states import (
    Action,
    DeletionAsked,
    Event,
    Finish,
    MountVolumes,
    RunProbe,
    StartContainer,
    StopContainer,
    Tell,
    VolumesFailed,
    VolumesMounted,
    Woken,
)
from noctaya.local.agent.status import pod_status
from noctaya.local.agent.volumes import PodVolumes
from noctaya.telemetry import context

log = logging.getLogger(__name__)

INBOX_EVENTS = 256
"""Containers' tasks wait when it is full; the pod's own loop empties it."""


class PodRunner:
    """One pod on this node."""

    def __init__(self, node: Node, pod: PodObject) -> None:
        self._node = node
        self._pod = pod
        self.spec = parse_pod(pod)
        self.lifecycle = PodLifecycle(self.spec, node.settings, earlier_restarts(pod))
        self._ip = node.addresses.take()
        self._directory = node.pods_dir / self.spec.uid
        self._volumes = PodVolumes(node.client, pod, self._directory / "volumes")
        self._inbox: asyncio.Queue[Event] = asyncio.Queue(INBOX_EVENTS)
        self._publisher = StatusPublisher(node.client, self.spec, self._status)
        self._operations = ContainerOperations(
            node, pod, self.spec, self._ip, self._volumes, self._directory, self._inbox.put, self._tell
        )
        self._stops: dict[str, asyncio.Task[None]] = {}
        self._deletion: DeletionAsked | None = None
        self._deletion_changed = asyncio.Event()

    def pod_changed(self, pod: PodObject) -> None:
        """The object in the API changed."""
        self._pod = pod
        if pod.metadata.is_deleting:
            grace = pod.metadata.deletion_grace_period_seconds
            self._ask_deletion(DeletionAsked(self.spec.grace_seconds if grace is None else float(grace)))

    def pod_vanished(self) -> None:
        """The object is no longer in the API: nothing may wait."""
        self._ask_deletion(DeletionAsked(0.0, gone=True))

    def _ask_deletion(self, asked: DeletionAsked) -> None:
        if self._deletion != asked:
            self._deletion = asked
            self._deletion_changed.set()

    def kill(self) -> None:
        """End every process at once, without a word to anybody."""
        self._operations.kill()

    async def run(self) -> None:
        """Stay with the pod until it is gone."""
        self._directory.mkdir(parents=True, exist_ok=True)
        try:
            async with asyncio.TaskGroup() as tasks:
                background = [
                    tasks.create_task(self._publisher.run(), name=f"status of {self.spec.key}"),
                    tasks.create_task(self._refresh_volumes(), name=f"volumes of {self.spec.key}"),
                    tasks.create_task(self._pass_on_deletion(), name=f"deletion of {self.spec.key}"),
                ]
                finish = await self._live(tasks)
                for task in background:
                    task.cancel()
            if not finish.gone:
                await self._remove()
        finally:
            self._node.addresses.give_back(self._ip)
            self._node.logs.forget(self.spec.namespace, self.spec.name, self.spec.uid)
            shutil.rmtree(self._directory, ignore_errors=True)

    async def _live(self, tasks: asyncio.TaskGroup) -> Finish:
        loop = asyncio.get_running_loop()
        event: Event = Woken()
        if self._pod.metadata.is_deleting:
            self.pod_changed(self._pod)
            event = self._deletion or event
        while True:
            for action in self.lifecycle.on(event, loop.time()):
                if isinstance(action, Finish):
                    return action
                self._perform(action, tasks)
            self._publisher.changed()
            event = await self._next_event(self.lifecycle.wake_at())

    async def _next_event(self, wake_at: float | None) -> Event:
        try:
            async with asyncio.timeout_at(wake_at):
                return await self._inbox.get()
        except TimeoutError:
            return Woken()

    def _perform(self, action: Action, tasks: asyncio.TaskGroup) -> None:
        match action:
            case MountVolumes():
                tasks.create_task(self._mount(), name=f"mount {self.spec.key}")
            case StartContainer(name, attempt):
                self._stops.pop(name, None)
                tasks.create_task(self._operations.start(name, attempt), name=f"run {self.spec.key} {name}")
            case StopContainer(name, grace):
                earlier = self._stops.get(name)
                if earlier is not None:
                    earlier.cancel()  # a shorter grace period replaces it; the hook had its chance
                stop = self._operations.stop(name, grace, with_hook=earlier is None)
                self._stops[name] = tasks.create_task(stop, name=f"stop {self.spec.key} {name}")
            case RunProbe(name, attempt, kind):
                tasks.create_task(
                    self._operations.probe(name, attempt, kind), name=f"{kind} {self.spec.key} {name}"
                )
            case Tell():
                self._tell(action)

    async def _mount(self) -> None:
        try:
            await self._volumes.mount()
        except (VolumeNotReady, KubeError, OSError) as error:
            await self._inbox.put(VolumesFailed(f"MountVolume.SetUp failed: {error}"))
        else:
            await self._inbox.put(VolumesMounted())

    async def _refresh_volumes(self) -> None:
        while True:
            await asyncio.sleep(self._node.settings.refresh_seconds)
            if self._volumes.has_projections:
                try:
                    await self._volumes.refresh()
                except (KubeError, OSError) as error:
                    log.info("volume not refreshed", extra=context(pod=self.spec.key, error=str(error)))

    async def _pass_on_deletion(self) -> None:
        while True:
            await self._deletion_changed.wait()
            self._deletion_changed.clear()
            if self._deletion is not None:
                await self._inbox.put(self._deletion)

    async def _remove(self) -> None:
        """Last status, then the object: its processes are gone, so a namesake may come."""
        await self._publisher.write()
        while True:
            try:
                await self._node.client.delete(
                    PODS, self.spec.namespace, self.spec.name, uid=self.spec.uid, grace_period_seconds=0
                )
            except (NotFound, Conflict):
                return
            except KubeError as error:
                log.warning("pod not removed yet", extra=context(pod=self.spec.key, error=str(error)))
                await asyncio.sleep(RETRY_SECONDS)
            else:
                return

    def _status(self, at: str) -> dict[str, object]:
        return pod_status(self._pod, self.lifecycle, self._ip, at)

    def _tell(self, tell: Tell) -> None:
        about: ObjectReference = reference(
            PODS, self._pod, f"spec.containers{{{tell.container}}}" if tell.container else ""
        )
        self._node.recorder.record(about, tell.reason, tell.message, tell.type)


def earlier_restarts(pod: PodObject) -> dict[str, int]:
    """Attempt numbers for containers that ran under an agent before this one: each goes on with its next."""
    statuses = [
        *(pod.status.get("initContainerStatuses") or ()),
        *(pod.status.get("containerStatuses") or ()),
    ]
    return {item["name"]: item.get("restartCount", 0) + 1 for item in statuses if item.get("containerID")}

"""The node agent: runs the pods that are bound to its node, and ends all their processes when it ends."""

import asyncio
import logging
import shutil
from pathlib import Path

from noctaya.kube.client import Client
from noctaya.kube.events import EventRecorder
from noctaya.kube.reflector import Change
from noctaya.kube.resources import PODS
from noctaya.kube.store import Store
from noctaya.local.agent.addresses import AddressPool
from noctaya.local.agent.images import ImageTable
from noctaya.local.agent.logs import PodLogs
from noctaya.local.agent.node import Node
from noctaya.local.agent.pod_runner import PodRunner
from noctaya.local.agent.processes import ProcessTable
from noctaya.local.agent.settings import AgentSettings
from noctaya.local.agent.spec import PodObject
from noctaya.telemetry import context

log = logging.getLogger(__name__)

FINAL_PHASES = frozenset({"Succeeded", "Failed"})
RESTART_SECONDS = 1.0


class NodeAgent:
    """One node of the embedded cluster.

    `work_dir` holds logs and the pods' own volumes; what an earlier agent left there is removed at the start, because its
    processes died with it.
    """

    def __init__(
        self, client: Client, images: ImageTable, work_dir: Path, settings: AgentSettings | None = None
    ) -> None:
        self._settings = settings or AgentSettings()
        self._client = client
        self._work_dir = work_dir
        self.logs = PodLogs(work_dir / "logs", self._settings.log_bytes)
        """Give it to the API server (`set_log_source`) and `kubectl logs` works."""
        self._node = Node(
            client=client,
            images=images,
            settings=self._settings,
            processes=ProcessTable(self._settings.drain_log_seconds),
            addresses=AddressPool(self._settings.pod_range),
            logs=self.logs,
            recorder=EventRecorder(client, "kubelet", instance=self._settings.node_name),
            pods_dir=work_dir / "pods",
        )
        self._store = Store(client, PODS, PodObject)
        self._runners: dict[str, PodRunner] = {}
        self._arrived: asyncio.Queue[PodRunner] = asyncio.Queue()

    async def run(self) -> None:
        """Run pods until cancelled; then end every process, within `shutdown_seconds` and a little more."""
        for directory in (self._work_dir / "pods", self._work_dir / "logs"):
            shutil.rmtree(directory, ignore_errors=True)
            directory.mkdir(parents=True)
        self._node.processes.open()
        self._store.subscribe(self._pod_changed)
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._node.recorder.run(), name="agent events")
                tasks.create_task(self._store.run(), name="agent pods")
                while True:
                    runner = await self._arrived.get()
                    tasks.create_task(self._run_pod(runner), name=f"pod {runner.spec.key}")
        finally:
            await self._node.processes.close(self._settings.shutdown_seconds)
            shutil.rmtree(self._work_dir / "pods", ignore_errors=True)

    def _pod_changed(self, change: Change[PodObject]) -> None:
        # A pod that was deleted and made again under one name arrives as one change of two uids.
        if change.old is not None and (change.new is None or change.new.uid != change.old.uid):
            gone = self._runners.get(change.old.uid)
            if gone is not None:
                gone.pod_vanished()
        pod = change.new
        if pod is None or pod.spec.get("nodeName") != self._settings.node_name:
            return
        runner = self._runners.get(pod.uid)
        if runner is not None:
            runner.pod_changed(pod)
        elif pod.metadata.is_deleting or pod.status.get("phase") not in FINAL_PHASES:
            self._accept(pod)

    def _accept(self, pod: PodObject) -> None:
        try:
            runner = PodRunner(self._node, pod)
        except (KeyError, TypeError, ValueError):
            # The API server takes pods that a real one would refuse; one of them must not end the others.
            log.exception("pod cannot be read", extra=context(pod=f"{pod.namespace}/{pod.name}"))
            return
        self._runners[pod.uid] = runner
        self._arrived.put_nowait(runner)

    async def _run_pod(self, runner: PodRunner) -> None:
        spec = runner.spec
        log.debug("pod arrived", extra=context(pod=spec.key))
        try:
            await runner.run()
        except (
            Exception
        ):  # a supervisor's boundary: a defect met by one pod is said loudly and leaves the others alone
            log.exception("pod runner failed, will start again", extra=context(pod=spec.key))
            runner.kill()
            await asyncio.sleep(RESTART_SECONDS)
            pod = self._store.get(spec.namespace, spec.name)
            if pod is not None and pod.uid == spec.uid:
                self._accept(pod)
        finally:
            if self._runners.get(spec.uid) is runner:
                del self._runners[spec.uid]

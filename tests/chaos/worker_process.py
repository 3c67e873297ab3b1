"""One `noctaya worker` after another in one pod: started, signalled and told apart by pid; nothing else is ever signalled.

The harness stands in for the kubelet: it makes the pod, writes what its container does into the status, and restarts it in
place when a story says so.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from noctaya.kube import Client
from noctaya.kube.objects import format_time
from noctaya.kube.resources import PODS
from tests.chaos.history import Notebook, Process
from tests.chaos.kubelet import tell_status
from tests.chaos.tcp_way import HOST, TcpWay
from tests.faults import ProxiedClient
from tests.ports import free_port
from tests.workers.reconcile.cluster import SYSTEM

LAST_LINES = 3
LABELS = {"app.kubernetes.io/name": "noctaya", "app.kubernetes.io/component": "worker"}


@dataclass(frozen=True, slots=True)
class Tenure:
    """The three settings, and what follows from them for whoever waits. Seconds."""

    renew_every: float = 2.5
    self_deadline: float = 6.0
    fence_after: float = 8.5
    stale_after: float = 10.0

    @property
    def scale(self) -> float:
        """How much shorter than by default everything is."""
        return self.fence_after / 8.5


DEFAULT = Tenure()
QUICK = Tenure(renew_every=1.0, self_deadline=2.4, fence_after=3.4, stale_after=6.0)
"""At two fifths; quicker ones would measure the machine."""


@dataclass
class WorkerPod:
    """A pod and the process in it."""

    name: str
    client: Client
    folder: Path
    notes: Notebook
    tenure: Tenure
    version: str
    way: ProxiedClient
    """To the API server."""
    uid: str = ""
    number: int = 0
    """Of the process, counted from 1."""
    process: asyncio.subprocess.Process | None = None
    is_stopped: bool = False
    former: str = ""
    """The incarnation that a kill ended; another one must have come before the pod is whole again."""
    control_port: int = field(default_factory=free_port)
    scaler_port: int = field(default_factory=free_port)
    admin_port: int = field(default_factory=free_port)
    peers: TcpWay = field(init=False)
    """The way that other workers take to this one; gateways have their own (`scripted_gateway.py`)."""

    def __post_init__(self) -> None:
        self.peers = TcpWay(self.control_port)

    @property
    def is_running(self) -> bool:
        """Whether there is a process, stopped or not."""
        return self.process is not None and self.process.returncode is None

    async def create(self) -> None:
        """The pod, scheduled and not started."""
        await self.peers.start()
        labels = {**LABELS, "pod-template-hash": self.version}
        spec = {"nodeName": "here", "containers": [{"name": "worker", "image": "noctaya"}]}
        made = await self.client.create(
            PODS, SYSTEM, {"metadata": {"name": self.name, "labels": labels}, "spec": spec}
        )
        self.uid = made["metadata"]["uid"]

    async def start(self) -> None:
        """Start the container, for the first time or again."""
        if self.is_running:
            raise RuntimeError(f"{self.name} runs")
        self.number += 1
        await self._tell_status({"running": {"startedAt": format_time(datetime.now(UTC))}})
        kubeconfig = self.way.kubeconfig(self.folder / f"{self.name}.kubeconfig")
        with self._log.open("wb") as log:
            self.process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "noctaya", "worker", env=self._environment(kubeconfig), stderr=log, stdout=log
            )  # fmt: skip
        self.is_stopped = False
        self._note("start")

    def kill(self, incarnation: str) -> float:
        """SIGKILL, and nobody is told; the moment of it. `incarnation`: that of the process, as its Lease tells."""
        self.former = incarnation
        at = self._signal(signal.SIGKILL, "kill")
        self.is_stopped = False
        return at

    def stop(self) -> None:
        """SIGSTOP."""
        self._signal(signal.SIGSTOP, "stop")
        self.is_stopped = True

    def go_on(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT, "continue")
        self.is_stopped = False

    def terminate(self) -> None:
        """SIGTERM."""
        self._signal(signal.SIGTERM, "terminate")

    async def wait(self, seconds: float) -> int:
        """Until the process has ended; its exit code."""
        if self.process is None:
            return 0
        async with asyncio.timeout(seconds):
            code = await self.process.wait()
        self._note("exit", code)
        return code

    def last_words(self) -> str:
        """How its last process ended, and what it wrote last."""
        if self.process is None:
            return "it was not started"
        log = self._log
        lines = log.read_text(errors="replace").splitlines() if log.exists() else []
        return f"exit code {self.process.returncode}; " + " / ".join(lines[-LAST_LINES:])

    async def tell_end(self) -> None:
        """The kubelet's word that the container has ended."""
        await self._tell_status({"terminated": {"exitCode": 137, "containerID": self._container}})

    async def terminating(self) -> None:
        """Somebody deletes the pod: nothing but its mark, which the deletion with a grace period leaves."""
        await self.client.delete(PODS, SYSTEM, self.name, grace_period_seconds=60)

    async def remove(self) -> None:
        """The pod is gone."""
        await self.client.delete(PODS, SYSTEM, self.name, grace_period_seconds=0)
        await self.peers.close()

    async def end(self) -> None:
        """Let nothing of it behind."""
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
            await self.process.wait()
        await self.peers.close()

    # -- how ---------------------------------------------------------------------------------------------------------

    @property
    def _log(self) -> Path:
        return self.folder / f"{self.name}-{self.number}.log"

    @property
    def _container(self) -> str:
        return f"chaos://{self.name}-{self.number}"

    def _signal(self, number: signal.Signals, what: str) -> float:
        if self.process is None or self.process.returncode is not None:
            raise RuntimeError(f"{self.name} has no process to {what}")
        at = self._note(what)
        self.process.send_signal(number)
        return at

    def _note(self, what: str, code: int = 0) -> float:
        at = self.notes.now
        self.notes.write(Process(at=at, pod=self.name, number=self.number, what=what, code=code))
        return at

    async def _tell_status(self, state: dict[str, object]) -> None:
        await tell_status(
            self.client,
            self.name,
            "worker",
            restarts=max(self.number - 1, 0),
            container=self._container,
            state=state,
        )

    def _environment(self, kubeconfig: Path) -> dict[str, str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("NOCTAYA_")}
        return clean | {
            "NOCTAYA_KUBE__KUBECONFIG": str(kubeconfig),
            "NOCTAYA_POD__NAME": self.name,
            "NOCTAYA_POD__NAMESPACE": SYSTEM,
            "NOCTAYA_POD__UID": self.uid,
            "NOCTAYA_POD__IP": HOST,
            "NOCTAYA_SCALER__HOST": HOST,
            "NOCTAYA_SCALER__PORT": str(self.scaler_port),
            "NOCTAYA_SCALER__PROBE_ADDRESS": f"{HOST}:{self.scaler_port}",
            "NOCTAYA_SCALER__DRAIN_SPREAD_SECONDS": "0.2",
            "NOCTAYA_CONTROL__HOST": HOST,
            "NOCTAYA_CONTROL__PORT": str(self.control_port),
            "NOCTAYA_CONTROL__ADVERTISE": self.peers.address,
            "NOCTAYA_ADMIN__HOST": HOST,
            "NOCTAYA_ADMIN__PORT": str(self.admin_port),
            "NOCTAYA_TENURE__RENEW_EVERY_SECONDS": str(self.tenure.renew_every),
            "NOCTAYA_TENURE__SELF_DEADLINE_SECONDS": str(self.tenure.self_deadline),
            "NOCTAYA_TENURE__FENCE_AFTER_SECONDS": str(self.tenure.fence_after),
            "NOCTAYA_DEMAND__STALE_AFTER_SECONDS": str(self.tenure.stale_after),
            "NOCTAYA_AUDIT__FILE": str(self.folder / f"{self.name}-{self.number}.audit.jsonl"),
        }

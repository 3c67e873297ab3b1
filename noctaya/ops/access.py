"""The way to the fleet: which workers can be asked, where, and the API server that wishes are written to.

Nothing is opened before it is needed, and everything is closed together. Given admin ports are used as they are; else ready
worker pods are found in the API, the leader's first, and reached through `kubectl port-forward`. (A pod on a loopback address is
one of the embedded cluster, which forwards nothing: it is asked where it is.)
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from noctaya.kube import Client as KubeClient
from noctaya.kube import ClusterConfig
from noctaya.kube.errors import Forbidden, NotFound
from noctaya.kube.objects import Lease, Pod
from noctaya.kube.resources import LEASES, PODS
from noctaya.leader.lease_names import pod_of_incarnation
from noctaya.loopback import is_loopback
from noctaya.ops.admin_api import AdminApi
from noctaya.ops.errors import AdminUnreachable, NoReadyWorker, NotAllowed, OpsError
from noctaya.ops.port_forward import PortForward, port_forward
from noctaya.ops.way import Way

ADMIN_PORT = 8081
WORKER_PODS = "app.kubernetes.io/name=noctaya,app.kubernetes.io/component=worker"
LEADER_LEASE = "noctaya-leader"

Answer = dict[str, Any]


class Access:
    """See the module. Of one event loop."""

    def __init__(self, way: Way) -> None:
        self.way = way
        self.unreached: dict[str, str] = {}
        """Workers that the last question to all did not reach, and why."""
        self._kube: KubeClient | None = None
        self._apis: dict[str, AdminApi] = {url: AdminApi(url) for url in way.admin}
        self._forwards: dict[str, PortForward] = {}

    async def close(self) -> None:
        """Hang up everywhere and end every child process."""
        await self._hang_up()
        if self._kube is not None:
            await self._kube.__aexit__(None, None, None)
            self._kube = None

    async def kube(self) -> KubeClient:
        """The API server, with the caller's own credentials."""
        if self._kube is None:
            config = ClusterConfig.load(self.way.kubeconfig, self.way.context)
            self._kube = await KubeClient(config, user_agent="noctaya-ops").__aenter__()
        return self._kube

    async def ask(self, name: str, **query: str | int) -> Answer:
        """The answer of one worker, the leader where it is known."""
        if self.way.admin:
            return await self._apis[self.way.admin[0]].ask(name, **query)
        for pod, api in list(self._apis.items()):
            try:
                return await api.ask(name, **query)
            except AdminUnreachable:  # its pod went, or kubectl did: find the workers anew
                await self._forget(pod)
        return await (await self._reach((await self._workers())[0])).ask(name, **query)

    async def ask_all(self, name: str, **query: str | int) -> dict[str, Answer]:
        """The answers of all workers by who gave them. Raises what the last one raised when none answers."""
        targets: dict[str, Callable[[], Awaitable[AdminApi]]]
        if self.way.admin:
            targets = {url: partial(self._given, url) for url in self.way.admin}
        else:
            targets = {pod.name: partial(self._reach, pod) for pod in await self._workers()}
        self.unreached = {}
        answers: dict[str, Answer] = {}
        failed: list[OpsError] = []

        async def one(who: str, reach: Callable[[], Awaitable[AdminApi]]) -> None:
            try:
                answers[who] = await (await reach()).ask(name, **query)
            except OpsError as error:
                self.unreached[who] = str(error)
                failed.append(error)

        async with asyncio.TaskGroup() as group:
            for who, reach in targets.items():
                group.create_task(one(who, reach))
        if failed and not answers:
            raise failed[-1]
        return {who: answers[who] for who in targets if who in answers}

    async def _workers(self) -> Sequence[Pod]:
        """Ready worker pods, the leader's first. Raises NoReadyWorker."""
        kube, namespace = await self.kube(), self.way.namespace
        try:
            found = (await kube.list(PODS, namespace, label_selector=WORKER_PODS, into=Pod)).items
        except Forbidden as error:
            raise NotAllowed("list", f"pods in namespace {namespace}", error) from error
        ready = [pod for pod in found if pod.is_ready and not pod.metadata.is_deleting]
        if not ready:
            raise NoReadyWorker(namespace, len(found))
        leader = await self._leader(kube)
        return sorted(ready, key=lambda pod: (pod.name != leader, pod.name))

    async def _leader(self, kube: KubeClient) -> str:
        """The leader's pod; empty when nobody leads or we may not see who does, which costs only its part of the story."""
        try:
            lease = await kube.get(LEASES, self.way.namespace, LEADER_LEASE, into=Lease)
        except (NotFound, Forbidden):
            return ""
        return pod_of_incarnation(lease.spec.holder_identity or "")

    async def _given(self, url: str) -> AdminApi:
        return self._apis[url]

    async def _reach(self, pod: Pod) -> AdminApi:
        if pod.name not in self._apis:
            if is_loopback(pod.status.pod_ip):
                self._apis[pod.name] = AdminApi(f"http://{pod.status.pod_ip}:{ADMIN_PORT}")
            else:
                forward = await port_forward(
                    pod.name,
                    self.way.namespace,
                    ADMIN_PORT,
                    kubeconfig=self.way.kubeconfig,
                    context=self.way.context,
                )
                self._forwards[pod.name] = forward
                self._apis[pod.name] = AdminApi(forward.url)
        return self._apis[pod.name]

    async def _forget(self, pod: str) -> None:
        if (api := self._apis.pop(pod, None)) is not None:
            await api.close()
        if (forward := self._forwards.pop(pod, None)) is not None:
            await forward.close()

    async def _hang_up(self) -> None:
        for pod in list(self._apis):
            await self._forget(pod)

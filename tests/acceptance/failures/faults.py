"""How parts are killed: as a machine kills them, without a word to anybody before.

Containers are killed through containerd, by the id that their pod shows, so that the kubelet finds them dead. How it fails:
`CommandFailed` when there is nothing to kill.
"""

import asyncio
import signal
from dataclasses import dataclass

from tests.acceptance.api import Api, Object
from tests.acceptance.models import is_ready
from tests.acceptance.waiting import until
from tests.cluster.cluster import Cluster
from tests.cluster.keda_release import NAMESPACE as KEDA
from tests.cluster.node import CTR
from tests.cluster.processes import ProcessId, run

OPERATOR = "app=keda-operator"
RESTART_SECONDS = 90.0


@dataclass(frozen=True, slots=True)
class Container:
    """A running container of a pod."""

    namespace: str
    pod: str
    name: str
    id: str


def container_of(pod: Object, name: str) -> Container:
    """The running container of that name."""
    metadata = pod["metadata"]
    (status,) = [found for found in pod["status"]["containerStatuses"] if found["name"] == name]
    return Container(
        metadata["namespace"], metadata["name"], name, status.get("containerID", "").rpartition("/")[2]
    )


async def send(cluster: Cluster, container: Container, number: signal.Signals) -> None:
    """A signal to the container's first process."""
    words = [*cluster.enter(everything=True), *CTR, "tasks", "kill", "--signal", number.name, container.id]
    await asyncio.to_thread(run, words)


async def kill(cluster: Cluster, container: Container) -> None:
    """SIGKILL: the container ends at once, and the kubelet starts it again."""
    await send(cluster, container, signal.SIGKILL)


async def kill_pod(api: Api, pod: str, namespace: str) -> None:
    """Delete a pod without grace: whoever made it makes another."""
    body = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
    await api.request("DELETE", f"/api/v1/namespaces/{namespace}/pods/{pod}", body=body)


async def kill_part(cluster: Cluster, name: str) -> None:
    """Kill one of the cluster's own programs and return when it was started again."""
    before = _started(cluster, name)
    process = await asyncio.to_thread(cluster.part, name)
    assert process.send(signal.SIGKILL), f"{name} is not there"

    async def is_back() -> bool:
        return _started(cluster, name) not in (None, before)

    await until(is_back, RESTART_SECONDS, f"{name} runs again")


def _started(cluster: Cluster, name: str) -> ProcessId | None:
    """The program's process as the cluster's own first process told it last."""
    state = cluster.directory.state()
    return None if state is None else state.parts.get(name)


async def operator_pod(api: Api) -> Object:
    """KEDA's operator, when it is there and serves."""

    async def claim() -> Object | None:
        found = [pod for pod in await api.list("pods", KEDA, selector=OPERATOR) if is_ready(pod)]
        return found[0] if len(found) == 1 else None

    return await until(claim, RESTART_SECONDS, "one operator of KEDA is ready")

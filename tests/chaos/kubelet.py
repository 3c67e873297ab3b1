"""The kubelet's word about the one container of a pod: what nobody else says on an API server without a node."""

from noctaya.kube import Client
from noctaya.kube.resources import PODS
from tests.workers.reconcile.cluster import SYSTEM


async def tell_status(
    client: Client, pod: str, component: str, *, restarts: int, container: str, state: dict[str, object]
) -> None:
    """`state` of the container is `{"running": …}`, and then it is ready, or `{"terminated": …}`."""
    is_running = "running" in state
    status = {
        "name": component,
        "image": "noctaya",
        "imageID": "",
        "ready": is_running,
        "restartCount": restarts,
        "containerID": container,
        "state": state,
    }
    told = {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": str(is_running)}],
        "containerStatuses": [status],
    }
    await client.patch(PODS, SYSTEM, pod, {"status": told}, subresource="status")

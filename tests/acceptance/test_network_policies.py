"""The network-policy component on a real API server (E5): accepted, and the fleet works beneath it.

Whether anything enforces it is the network plugin's affair; the test cluster has none, so nothing is claimed about that.
"""

import yaml

from tests.acceptance.api import Api
from tests.acceptance.conftest import Models
from tests.acceptance.fleet import NAMESPACE, SIZE, Fleet
from tests.acceptance.installation import MANIFESTS
from tests.acceptance.models import ENGINE
from tests.acceptance.waiting import until
from tests.cluster.cluster import Cluster

MINUTE = 60.0
ASK = """
import sys, urllib.request
with urllib.request.urlopen(sys.argv[1], timeout=5) as answer:
    print(answer.status, answer.read().decode())
"""


async def test_the_policies_are_accepted_and_the_fleet_works_beneath_them(
    cluster: Cluster, models: Models, fleet: Fleet, api: Api, namespace: str
) -> None:
    """E5 without enforcement: a pod in a labelled namespace reaches a model by its own name, KEDA and gateways stay linked."""
    model = await models("policed")
    rendered = yaml.safe_load_all(cluster.kubectl("kustomize", MANIFESTS / "overlays" / "hardened"))
    policies = [found for found in rendered if found["kind"] == "NetworkPolicy"]
    assert {"noctaya-gateway", "noctaya-worker"} <= {found["metadata"]["name"] for found in policies}
    cluster.kubectl.apply(policies)
    backends = MANIFESTS / "components" / "network-policy" / "backends"
    cluster.kubectl("apply", "-k", backends, namespace=namespace)
    try:
        held = {found["metadata"]["name"] for found in await api.list("networkpolicies", NAMESPACE)}
        assert held == {found["metadata"]["name"] for found in policies}
        assert await api.list("networkpolicies", namespace)
        cluster.kubectl("label", "namespace", namespace, "serving.noctaya.io/client-access=true")
        await api.create("pods", client_pod("client", f"http://{model.host}/healthz"), namespace)

        async def phase() -> str | None:
            status = (await api.get("pods", "client", namespace))["status"]
            return status["phase"] if status["phase"] in {"Succeeded", "Failed"} else None

        assert await until(phase, MINUTE, "the client's pod has ended") == "Succeeded"
        assert cluster.kubectl("logs", "client", namespace=namespace).startswith("200")
        for worker in await fleet.until_pods("worker"):
            await fleet.until_metric(worker, "noctaya_scaler_gateway_members", SIZE["gateway"], MINUTE)

        async def has_streams() -> bool:  # KEDA asks through any one worker
            return await fleet.total("worker", "noctaya_gateway_scaler_streams") >= 1

        await until(has_streams, MINUTE, "KEDA's streams are up")
    finally:
        for found in policies:
            await api.delete("networkpolicies", found["metadata"]["name"], NAMESPACE)


def client_pod(name: str, url: str) -> dict[str, object]:
    """A pod that asks once and ends; the engine's image has what it takes."""
    container = {
        "name": name,
        "image": ENGINE,
        "imagePullPolicy": "Never",
        "command": ["python3", "-c", ASK, url],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"restartPolicy": "Never", "containers": [container]},
    }

"""The product installed on a real cluster with the commands of docs/install.md, its manifests as they are.

Nothing in the manifests is patched. What a cluster of users brings and the test cluster lacks is added beside them:
accelerators (the node's status says that it has some; scripted engines never look for them), a default StorageClass, and
images that are loaded instead of pulled. How it fails: `CommandFailed` with kubectl's words.
"""

import json
import tarfile
from pathlib import Path

from tests.acceptance import volumes
from tests.acceptance.fleet import NAMESPACE, SIZE
from tests.acceptance.models import ACCELERATOR, ENGINE
from tests.cluster.cluster import Cluster
from tests.cluster.node import NAME as NODE
from tests.cluster.product_image import engine_image, product_image

MANIFESTS = Path(__file__).parents[2] / "deploy" / "kustomize"
ACCELERATORS = 8
APPLY_SECONDS = 60.0
READY_SECONDS = 300.0
GRACE_SECONDS = 20
"""Between two test runs nobody's answer is at stake."""


def install(cluster: Cluster, *, overlay: str = "default") -> None:
    """Load images, apply types and overlay, and return when gateways and workers are ready.

    On a cluster that has it already, pods of another build of the image are replaced.
    """
    kubectl = cluster.kubectl
    archive = provide(cluster)
    kubectl("apply", "-k", MANIFESTS / "crd", timeout_seconds=APPLY_SECONDS)
    kubectl("apply", "-k", MANIFESTS / "overlays" / overlay, timeout_seconds=APPLY_SECONDS)
    replace_other_builds(cluster, archive)
    wait_ready(cluster)


def provide(cluster: Cluster) -> Path:
    """Bring what a cluster of users has and this one lacks; gives the archive of the product's image."""
    give_accelerators(cluster)
    cluster.kubectl.apply([volumes.storage_class()])
    archive = product_image()
    cluster.load(archive)
    cluster.load(engine_image(ENGINE))
    return archive


def wait_ready(cluster: Cluster) -> None:
    """Return when the fleet can be used. A worker is *available* 35 s later only, for the sake of rolling updates."""
    for role, count in SIZE.items():
        cluster.kubectl.wait(
            f"deployment/noctaya-{role}",
            f"jsonpath={{.status.readyReplicas}}={count}",
            namespace=NAMESPACE,
            timeout_seconds=READY_SECONDS,
        )


def replace_other_builds(cluster: Cluster, archive: Path) -> None:
    """Delete the fleet's pods that run another image than the archive's, as a kept cluster may have."""
    wanted = config_digest(archive)
    pods = cluster.kubectl.get("pods", "--selector=app.kubernetes.io/name=noctaya", namespace=NAMESPACE)
    for pod in pods["items"]:
        statuses = pod["status"].get("containerStatuses", ())
        if any(status["imageID"] and wanted not in status["imageID"] for status in statuses):
            words = ("delete", "pod", pod["metadata"]["name"], f"--grace-period={GRACE_SECONDS}")
            cluster.kubectl(*words, namespace=NAMESPACE)


def config_digest(archive: Path) -> str:
    """The digest by which a node knows the image of an archive."""
    with tarfile.open(archive) as content:
        manifest = content.extractfile("manifest.json")
        assert manifest is not None
        return str(json.load(manifest)[0]["Config"]).removesuffix(".json")


def give_accelerators(cluster: Cluster) -> None:
    """Let the node say that it has some; a kubelet that was restarted has to be told again."""
    change = json.dumps({"status": {"capacity": {ACCELERATOR: str(ACCELERATORS)}}})
    cluster.kubectl("patch", "node", NODE, "--subresource=status", "--type=merge", "--patch", change)
    cluster.kubectl.wait(f"node/{NODE}", f"jsonpath={{.status.allocatable.nvidia\\.com/gpu}}={ACCELERATORS}")

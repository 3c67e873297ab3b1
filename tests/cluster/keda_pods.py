"""KEDA inside the cluster (node mode), as its users run it: its release's own manifests, rotation of certificates included.

Changed in them are only the images' names (there is no registry), the probes' initial delays (a test should not wait 20 s
for a program that is up after one) and the operator's Secret of certificates, which is made here so that pods find it when
they start; KEDA's rotation takes it over.
"""

import base64
from typing import Any

from tests.cluster import images, keda_release
from tests.cluster.binaries import Binaries
from tests.cluster.certificates import Authority
from tests.cluster.control_plane import ControlPlane
from tests.cluster.keda_release import ADAPTER, METRICS_API, NAMESPACE
from tests.cluster.kubectl import Kubectl, Object

IMAGES = {
    "keda-operator": images.KEDA_OPERATOR,
    "keda-metrics-apiserver": images.KEDA_ADAPTER,
    "keda-admission-webhooks": images.KEDA_WEBHOOKS,
}
WEBHOOKS = "keda-admission"
SECRET = "kedaorg-certs"
DEPLOYMENTS = ("keda-operator", "keda-metrics-apiserver", "keda-admission")
START_SECONDS = 180.0


def apply(plane: ControlPlane, binaries: Binaries, kubectl: Kubectl) -> None:
    """Create KEDA's objects; `wait` returns when it works."""
    objects = keda_release.read(binaries.keda_objects)
    for entry in objects:
        if entry["kind"] == "Deployment":
            _adapt(entry["spec"]["template"]["spec"]["containers"])
    objects.sort(key=lambda entry: entry["kind"] != "Namespace")
    kubectl.apply([objects[0], _certificates(plane), *objects[1:]], server_side=True)


def wait(kubectl: Kubectl) -> None:
    """Return when the operator runs, metrics are served and webhooks are answered."""
    names = [f"deployment/{name}" for name in DEPLOYMENTS]
    kubectl.wait(
        names[0], "condition=Available", *names[1:], namespace=NAMESPACE, timeout_seconds=START_SECONDS
    )
    # The API server trusts neither until the operator has told it whose certificates they have. (An APIService is
    # "Available" before that, and a webhook that is not trusted is ignored.)
    kubectl.wait(f"apiservice/{METRICS_API}", "jsonpath={.spec.caBundle}", timeout_seconds=START_SECONDS)
    trusted = "jsonpath={.webhooks[0].clientConfig.caBundle}"
    kubectl.wait(f"validatingwebhookconfiguration/{WEBHOOKS}", trusted, timeout_seconds=START_SECONDS)
    kubectl.wait(f"apiservice/{METRICS_API}", "condition=Available", timeout_seconds=START_SECONDS)


def _adapt(containers: list[dict[str, Any]]) -> None:
    for container in containers:
        container["image"] = IMAGES[container["name"]]
        container["imagePullPolicy"] = "Never"
        container["resources"] = {"requests": {"cpu": "10m", "memory": "50Mi"}}
        for probe in ("readinessProbe", "livenessProbe"):
            container[probe]["initialDelaySeconds"] = 1
            container[probe]["periodSeconds"] = 2 if probe == "readinessProbe" else 10


def _certificates(plane: ControlPlane) -> Object:
    """The Secret that KEDA's own rotation would make, by the names that it gives the files."""
    folder = plane.directory.certificates / "keda"
    authority = Authority(folder, "ca", "KEDA", dns_names=["KEDA"], with_rsa=True)
    services = ("keda-operator", ADAPTER, "keda-admission-webhooks")
    forms = ("", f".{NAMESPACE}", f".{NAMESPACE}.svc", f".{NAMESPACE}.svc.cluster.local")
    names = [f"{service}{form}" for service in services for form in forms]
    leaf = authority.leaf("tls", names[0], server_names=names)
    files = {
        "ca.crt": authority.pair.certificate,
        "ca.key": authority.pair.key,
        "tls.crt": leaf.certificate,
        "tls.key": leaf.key,
    }
    data = {name: base64.b64encode(path.read_bytes()).decode() for name, path in files.items()}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": SECRET, "namespace": NAMESPACE},
        "data": data,
    }

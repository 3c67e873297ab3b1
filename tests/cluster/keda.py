"""KEDA outside the cluster (quick mode): operator, metrics server and webhooks as processes beside the control plane.

The API server proxies an aggregated API to no loopback endpoint of a Service, but it follows an ExternalName Service to
"localhost" and checks the certificate against the Service's name; webhooks are reached by URL. KEDA's CRDs and roles are
those of its release. In node mode KEDA runs as pods: `keda_pods`.
"""

import base64
import os
from pathlib import Path

from tests.cluster import keda_release, kubeconfig
from tests.cluster.binaries import Binaries
from tests.cluster.certificates import Authority
from tests.cluster.control_plane import ControlPlane
from tests.cluster.errors import CommandFailed
from tests.cluster.keda_release import ADAPTER, METRICS_API, NAMESPACE
from tests.cluster.kubectl import Kubectl, Object
from tests.cluster.parts import Part, Parts
from tests.cluster.readiness import answers
from tests.ports import LOOPBACK, free_ports

RUN_IN_PODS = ("APIService", "Deployment", "Service", "ValidatingWebhookConfiguration")
"""Kinds that KEDA's release uses to run in the cluster."""
START_SECONDS = 90.0
TOKEN_LIFETIME = "48h"
OPERATOR_ARGUMENTS = "TEST_KEDA_ARGUMENTS"
"""Further arguments of the operator, such as its API rate, for measurements."""


def start(plane: ControlPlane, binaries: Binaries, parts: Parts, kubectl: Kubectl) -> None:
    """Start KEDA and return when its metrics are served and its webhooks are asked."""
    objects = keda_release.read(binaries.keda_objects)
    kubectl.apply([entry for entry in objects if entry["kind"] not in RUN_IN_PODS], server_side=True)
    parts.until("KEDA's kinds", lambda: _are_served(kubectl), START_SECONDS)
    folder = plane.directory.certificates / "keda"
    # KEDA's three programs read these very names (ca.crt, tls.crt, tls.key) from one folder.
    authority = Authority(folder, "ca", "noctaya-test-keda")
    authority.leaf("tls", "keda", server_names=["localhost", LOOPBACK, f"{ADAPTER}.{NAMESPACE}.svc"])
    token = kubectl(
        "create", "token", "keda-operator", f"--duration={TOKEN_LIFETIME}", namespace=NAMESPACE
    ).strip()
    client = kubeconfig.write(
        plane.directory.configuration / "keda.kubeconfig",
        plane.server,
        plane.authority.pair.certificate,
        token=token,
    )
    metrics, adapter, hooks, *rest = free_ports(8)
    health = rest[0]
    for part in _parts(binaries, client, folder, metrics, adapter, hooks, rest):
        parts.start(part)
    bundle = base64.b64encode(authority.pair.certificate.read_bytes()).decode()
    kubectl.apply(_metrics_api(adapter, bundle))
    parts.until("keda-operator", lambda: answers(f"http://{LOOPBACK}:{health}/readyz"), START_SECONDS)
    kubectl.wait(f"apiservice/{METRICS_API}", "condition=Available", timeout_seconds=START_SECONDS)
    kubectl.apply([_webhooks(objects, hooks, bundle)])


def _are_served(kubectl: Kubectl) -> bool:
    """`kubectl wait` is no help here: a CRD that is so new that it has no conditions yet is an error to it."""
    try:
        kubectl("get", "--raw", "/apis/keda.sh/v1alpha1")
    except CommandFailed:
        return False
    return True


def _parts(
    binaries: Binaries, client: Path, folder: Path, metrics: int, adapter: int, hooks: int, rest: list[int]
) -> list[Part]:
    health, operator_metrics, adapter_metrics, hook_metrics, hook_health = rest
    environment = {
        "KUBECONFIG": str(client),
        "WATCH_NAMESPACE": "",
        "POD_NAMESPACE": NAMESPACE,
        "POD_NAME": "keda-outside",
        "KEDA_CLUSTER_OBJECT_NAMESPACE": NAMESPACE,
    }
    return [
        Part(
            "keda-operator",
            [
                binaries.program("keda-operator"),
                f"--metrics-bind-address={LOOPBACK}:{operator_metrics}",
                f"--health-probe-bind-address={LOOPBACK}:{health}",
                f"--metrics-service-bind-address={LOOPBACK}:{metrics}",
                f"--cert-dir={folder}",
                "--enable-cert-rotation=false",
                "--leader-elect=false",
                "--zap-log-level=info",
                *os.environ.get(OPERATOR_ARGUMENTS, "").split(),
            ],
            environment,
        ),
        Part(
            "keda-adapter",
            [
                binaries.program("keda-adapter"),
                f"--secure-port={adapter}",
                f"--bind-address={LOOPBACK}",
                f"--port={adapter_metrics}",
                f"--metrics-service-address={LOOPBACK}:{metrics}",
                f"--cert-dir={folder}",
                f"--tls-cert-file={folder / 'tls.crt'}",
                f"--tls-private-key-file={folder / 'tls.key'}",
                f"--lister-kubeconfig={client}",
                f"--authentication-kubeconfig={client}",
                f"--authorization-kubeconfig={client}",
            ],
            environment,
        ),
        Part(
            "keda-webhooks",
            [
                binaries.program("keda-webhooks"),
                f"--port={hooks}",
                f"--cert-dir={folder}",
                f"--metrics-bind-address={LOOPBACK}:{hook_metrics}",
                f"--health-probe-bind-address={LOOPBACK}:{hook_health}",
            ],
            environment,
        ),
    ]


def _metrics_api(port: int, bundle: str) -> list[Object]:
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": ADAPTER, "namespace": NAMESPACE},
            "spec": {"type": "ExternalName", "externalName": "localhost"},
        },
        {
            "apiVersion": "apiregistration.k8s.io/v1",
            "kind": "APIService",
            "metadata": {"name": METRICS_API},
            "spec": {
                "group": "external.metrics.k8s.io",
                "version": "v1beta1",
                "groupPriorityMinimum": 100,
                "versionPriority": 100,
                "caBundle": bundle,
                "service": {"name": ADAPTER, "namespace": NAMESPACE, "port": port},
            },
        },
    ]


def _webhooks(objects: list[Object], port: int, bundle: str) -> Object:
    """KEDA's own webhook configuration, with a URL in place of its Service and no way around it."""
    (found,) = (entry for entry in objects if entry["kind"] == "ValidatingWebhookConfiguration")
    for hook in found["webhooks"]:
        address = f"https://localhost:{port}{hook['clientConfig']['service']['path']}"
        hook["clientConfig"] = {"url": address, "caBundle": bundle}
        hook["failurePolicy"] = "Fail"
    return found

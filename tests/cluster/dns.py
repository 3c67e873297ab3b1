"""Names inside the cluster: CoreDNS as a pod behind the usual Service, restricted as a workload should be.

Only names of the cluster are answered; anything else is refused at once, since there is no network to ask.
"""

from tests.cluster.images import DNS
from tests.cluster.kubectl import Kubectl, Object
from tests.cluster.node import DNS_ADDRESS

NAMESPACE = "kube-system"
NAME = "coredns"
PORT = 5353
"""Above 1024: no right is needed to listen there."""
COREFILE = f"""\
cluster.local:{PORT} in-addr.arpa:{PORT} {{
  errors
  health :8080
  ready :8181
  cache 5
  kubernetes cluster.local in-addr.arpa
}}
"""
START_SECONDS = 120.0


def apply(kubectl: Kubectl) -> None:
    """Create it; `wait` returns when it answers."""
    kubectl.apply(_objects(), namespace=NAMESPACE)


def wait(kubectl: Kubectl) -> None:
    """Return when names are answered."""
    kubectl.wait(
        f"deployment/{NAME}", "condition=Available", namespace=NAMESPACE, timeout_seconds=START_SECONDS
    )


def _objects() -> list[Object]:
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": NAME}
    ports = [
        {"name": f"dns-{protocol.lower()}", "port": 53, "targetPort": PORT, "protocol": protocol}
        for protocol in ("UDP", "TCP")
    ]
    return [
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": NAME}},
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": NAME}, "data": {"Corefile": COREFILE}},
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": NAME},
            "rules": [
                {
                    "apiGroups": [""],
                    "resources": ["services", "pods", "namespaces"],
                    "verbs": ["list", "watch"],
                },
                {
                    "apiGroups": ["discovery.k8s.io"],
                    "resources": ["endpointslices"],
                    "verbs": ["list", "watch"],
                },
            ],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRoleBinding",
            "metadata": {"name": NAME},
            "roleRef": role,
            "subjects": [{"kind": "ServiceAccount", "name": NAME, "namespace": NAMESPACE}],
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "kube-dns"},
            "spec": {"clusterIP": DNS_ADDRESS, "selector": {"app": NAME}, "ports": ports},
        },
        _deployment(),
    ]


def _deployment() -> Object:
    container = {
        "name": NAME,
        "image": DNS,
        "imagePullPolicy": "Never",
        "args": ["-conf", "/etc/coredns/Corefile"],
        "ports": [
            {"containerPort": PORT, "protocol": "UDP"},
            {"containerPort": PORT, "protocol": "TCP"},
        ],
        "readinessProbe": {"httpGet": {"path": "/ready", "port": 8181}, "periodSeconds": 1},
        "livenessProbe": {"httpGet": {"path": "/health", "port": 8080}, "failureThreshold": 5},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "runAsUser": 65532,
        },
        "volumeMounts": [{"name": "configuration", "mountPath": "/etc/coredns"}],
    }
    pod = {
        "serviceAccountName": NAME,
        "dnsPolicy": "Default",
        "priorityClassName": "system-cluster-critical",
        "containers": [container],
        "volumes": [{"name": "configuration", "configMap": {"name": NAME}}],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": NAME},
        "spec": {
            "replicas": 1,
            "selector": {"matchLabels": {"app": NAME}},
            "template": {"metadata": {"labels": {"app": NAME}}, "spec": pod},
        },
    }

"""The objects of `noctaya-system` on the embedded cluster: what `kubectl apply -k` makes on a real one, for one machine.

Differences from a real cluster, each because pods here are processes without a network of their own: every role binds its
pod's own loopback address, and the first contact with the workers goes through a node port, since there is no DNS.
"""

from pathlib import Path
from typing import Any

from noctaya.local.settings import LocalSettings

SYSTEM_NAMESPACE = "noctaya-system"
IMAGE = "noctaya:local"
SCALER_PORT = 9090
CONTROL_PORT = 9443
ADMIN_PORT = 8081
GATEWAY_PORT = 8080

Object = dict[str, Any]


def system_objects(
    settings: LocalSettings, *, kubeconfig: Path, gateway_port: int, control_port: int
) -> list[Object]:
    """Namespace, Deployments and Services of the workers and gateways, in the order in which to apply them."""
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SYSTEM_NAMESPACE}},
        _service("noctaya-scaler", "worker", [("grpc", SCALER_PORT, SCALER_PORT, None)], headless=True),
        _service(
            "noctaya-workers",
            "worker",
            [("control", CONTROL_PORT, CONTROL_PORT, control_port)],
            not_ready=True,
        ),
        _service("noctaya-gateway", "gateway", [("http", 80, GATEWAY_PORT, gateway_port)]),
        _deployment(
            "worker",
            settings.workers,
            _worker_environment(kubeconfig) + _further(settings, "worker"),
            grace=10,
        ),
        _deployment(
            "gateway",
            settings.gateways,
            _gateway_environment(control_port) + _further(settings, "gateway"),
            grace=30,
        ),
    ]


def _worker_environment(kubeconfig: Path) -> list[Object]:
    return [
        {"name": "NOCTAYA_KUBE__KUBECONFIG", "value": str(kubeconfig)},
        _from_field("NOCTAYA_POD__NAME", "metadata.name"),
        _from_field("NOCTAYA_POD__NAMESPACE", "metadata.namespace"),
        _from_field("NOCTAYA_POD__UID", "metadata.uid"),
        _from_field("NOCTAYA_POD__IP", "status.podIP"),
        _from_field("NOCTAYA_SCALER__HOST", "status.podIP"),
        _from_field("NOCTAYA_CONTROL__HOST", "status.podIP"),
        _from_field("NOCTAYA_ADMIN__HOST", "status.podIP"),
        {"name": "NOCTAYA_SCALER__DRAIN_SPREAD_SECONDS", "value": "0.2"},
        {"name": "NOCTAYA_SCALER__PROBE_ADDRESS", "value": f"$(NOCTAYA_POD__IP):{SCALER_PORT}"},
    ]


def _gateway_environment(control_port: int) -> list[Object]:
    return [
        _from_field("NOCTAYA_POD__NAME", "metadata.name"),
        _from_field("NOCTAYA_POD__NAMESPACE", "metadata.namespace"),
        _from_field("NOCTAYA_HTTP__HOST", "status.podIP"),
        _from_field("NOCTAYA_ADMIN__HOST", "status.podIP"),
        {"name": "NOCTAYA_LINK__WORKERS", "value": f"127.0.0.1:{control_port}"},
        {"name": "NOCTAYA_DRAIN__PROPAGATION_SECONDS", "value": "1"},
        {"name": "NOCTAYA_DRAIN__LIMIT_SECONDS", "value": "20"},
    ]


def _further(settings: LocalSettings, role: str) -> list[Object]:
    prefix = f"{role}:"
    return [
        {"name": name.removeprefix(prefix), "value": value}
        for name, value in settings.system_environment.items()
        if name.startswith(prefix)
    ]


def _from_field(name: str, path: str) -> Object:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _labels(component: str) -> dict[str, str]:
    return {"app.kubernetes.io/name": "noctaya", "app.kubernetes.io/component": component}


def _deployment(component: str, replicas: int, environment: list[Object], *, grace: int) -> Object:
    labels = _labels(component)
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": f"noctaya-{component}", "namespace": SYSTEM_NAMESPACE, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "strategy": {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
            "template": {
                "metadata": {"labels": labels},
                "spec": {
                    "terminationGracePeriodSeconds": grace,
                    "enableServiceLinks": False,
                    "containers": [
                        {
                            "name": component,
                            "image": IMAGE,
                            "args": [component],
                            "env": environment,
                            "readinessProbe": {
                                "httpGet": {"path": "/readyz", "port": ADMIN_PORT},
                                "periodSeconds": 1,
                            },
                        }
                    ],
                },
            },
        },
    }


def _service(
    name: str,
    component: str,
    ports: list[tuple[str, int, int, int | None]],
    *,
    headless: bool = False,
    not_ready: bool = False,
) -> Object:
    entries: list[Object] = []
    for port_name, port, target, node_port in ports:
        entry: Object = {"name": port_name, "port": port, "targetPort": target, "protocol": "TCP"}
        if node_port is not None:
            entry["nodePort"] = node_port
        entries.append(entry)
    spec: Object = {"selector": _labels(component), "ports": entries}
    if headless:
        spec["clusterIP"] = "None"
    elif any("nodePort" in entry for entry in entries):
        spec["type"] = "NodePort"
    if not_ready:
        spec["publishNotReadyAddresses"] = True
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": SYSTEM_NAMESPACE, "labels": _labels(component)},
        "spec": spec,
    }

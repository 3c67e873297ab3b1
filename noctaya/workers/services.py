"""The two Services of a model: the public name that clients call, and a headless one for people and scrapers.

The public one is a CNAME of the gateway fleet, so that nothing has to be rewritten when a gateway rolls; the Host header
tells the gateways which model is meant. The headless one has no cluster IP: ten thousand of them must not fill the tables
of kube-proxy.
"""

from __future__ import annotations

from typing import Any

from noctaya.api.names import selector_labels

PORT = {"name": "http", "port": 80, "protocol": "TCP"}


def public_service_spec(gateway_host: str) -> dict[str, Any]:
    """`spec` of `<svc>`; `gateway_host` is the fleet's full DNS name."""
    return {"type": "ExternalName", "externalName": gateway_host, "ports": [dict(PORT)]}


def backend_service_spec(name: str, port_name: str) -> dict[str, Any]:
    """`spec` of `<svc>-backend`; `port_name` is the serving container's port."""
    return {
        "type": "ClusterIP",
        "clusterIP": "None",
        "selector": selector_labels(name),
        "ports": [{**PORT, "targetPort": port_name}],
    }

"""Cluster IPs of Services. Nothing listens on them; they are there because people and manifests expect the field."""

from __future__ import annotations

import ipaddress

from noctaya.local.apiserver.status import Object
from noctaya.local.apiserver.storage import Storage
from noctaya.local.apiserver.tablecells import at

_NETWORK = ipaddress.ip_network("10.96.0.0/16")


def with_address(storage: Storage, service: Object) -> Object:
    """The service with a free address, when its type has one and it names none."""
    spec = service["spec"]
    if spec.get("type") == "ExternalName" or spec.get("clusterIP"):
        return service
    metadata = service["metadata"]
    before = storage.get("/services", metadata.get("namespace", ""), metadata["name"])
    address = at(before, "spec", "clusterIP") or _free(storage, metadata["uid"])
    return {**service, "spec": {**spec, "clusterIP": address, "clusterIPs": [address]}}


def _free(storage: Storage, uid: str) -> str:
    taken = {at(one, "spec", "clusterIP") for one in storage.list("/services")}
    number = int(uid[:4], 16)
    for step in range(_NETWORK.num_addresses - 2):
        address = str(_NETWORK[1 + (number + step) % (_NETWORK.num_addresses - 2)])
        if address not in taken:
            return address
    return ""

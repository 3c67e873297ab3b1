"""EndpointSlices of Services with selectors: who may be called, on which port, and who is going. Headless ones too.

One slice per Service and per set of resolved ports (pods of one Service may resolve a named port differently).
"""

from collections import defaultdict

from noctaya.kube.errors import AlreadyExists, NotFound
from noctaya.kube.reflector import Change
from noctaya.kube.resources import ENDPOINTSLICES, SERVICES
from noctaya.local.controllers.by_service import ServiceController
from noctaya.local.controllers.records import (
    Json,
    Record,
    matches,
    owner,
    pod_is_ready,
    short_hash,
)
from noctaya.local.controllers.view import NAMESPACE, SERVICE, SERVICE_LABEL, ClusterView

MANAGED_BY = {"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}


class EndpointSliceController(ServiceController):
    """Keyed by Service."""

    name = "endpointslice"

    def __init__(self, view: ClusterView) -> None:
        super().__init__(view)
        view.pods.subscribe(self._pod_changed)

    def _pod_changed(self, change: Change[Record]) -> None:
        pods = [pod for pod in (change.old, change.new) if pod is not None]
        for service in self._view.services.by_index(NAMESPACE, pods[0].namespace):
            selector = service.spec.get("selector")
            if selector and any(matches({"matchLabels": selector}, pod.metadata.labels) for pod in pods):
                self.enqueue(service.namespace, service.name)

    async def reconcile(self, namespace: str, name: str) -> float | None:
        service = self._view.services.get(namespace, name)
        present = {item.name: item for item in self._view.slices.by_index(SERVICE, f"{namespace}/{name}")}
        ours = {
            key: item for key, item in present.items() if MANAGED_BY.items() <= item.metadata.labels.items()
        }
        wanted = (
            slices_of(service, self._view.pods.by_index(NAMESPACE, namespace)) if service is not None else {}
        )
        for slice_name, body in wanted.items():
            current = ours.get(slice_name)
            if current is None:
                await self._create(namespace, body)
            elif (current.endpoints, current.ports) != (body["endpoints"], body["ports"]):
                body["metadata"]["resourceVersion"] = current.metadata.resource_version
                await self._view.client.replace(ENDPOINTSLICES, namespace, slice_name, body)
        for slice_name in ours.keys() - wanted.keys():
            try:
                await self._view.client.delete(ENDPOINTSLICES, namespace, slice_name)
            except NotFound:
                continue
        return None

    async def _create(self, namespace: str, body: Json) -> None:
        try:
            await self._view.client.create(ENDPOINTSLICES, namespace, body)
        except AlreadyExists:
            return  # our store is a moment behind; the slice's own event brings us back


def slices_of(service: Record, pods: list[Record]) -> dict[str, Json]:
    """The slices that a Service should have, by name. None without a selector or for ExternalName."""
    selector = service.spec.get("selector")
    if not selector or service.spec.get("type") == "ExternalName" or service.metadata.is_deleting:
        return {}
    groups: dict[tuple[tuple[str, int, str], ...], list[Json]] = defaultdict(list)
    for pod in sorted(pods, key=lambda item: item.name):
        if pod.status.get("podIP") and pod.status.get("phase") not in {"Succeeded", "Failed"}:
            if matches({"matchLabels": selector}, pod.metadata.labels):
                groups[ports_of(service, pod)].append(endpoint_of(service, pod))
    if not groups:
        groups[()] = []
    labels = {SERVICE_LABEL: service.name, **MANAGED_BY}
    if service.spec.get("clusterIP") == "None":
        labels["service.kubernetes.io/headless"] = ""
    slices = {}
    for ports, endpoints in groups.items():
        name = f"{service.name}-{short_hash([service.uid, ports], 5)}"
        slices[name] = {
            "apiVersion": ENDPOINTSLICES.api_version,
            "kind": ENDPOINTSLICES.kind,
            "metadata": {
                "name": name,
                "namespace": service.namespace,
                "labels": labels,
                "ownerReferences": [owner(SERVICES, service)],
            },
            "addressType": "IPv4",
            "endpoints": endpoints,
            "ports": [
                {"name": port, "port": number, "protocol": protocol} for port, number, protocol in ports
            ],
        }
    return slices


def endpoint_of(service: Record, pod: Record) -> Json:
    """One pod as an endpoint."""
    always = bool(service.spec.get("publishNotReadyAddresses"))
    is_serving = always or pod_is_ready(pod)
    is_going = pod.metadata.is_deleting
    return {
        "addresses": [pod.status["podIP"]],
        "conditions": {
            "ready": always or (is_serving and not is_going),
            "serving": is_serving,
            "terminating": is_going,
        },
        "nodeName": pod.spec.get("nodeName"),
        "targetRef": {"kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
    }


def ports_of(service: Record, pod: Record) -> tuple[tuple[str, int, str], ...]:
    """The Service's ports as numbers in this pod; a name that the pod does not have is left out."""
    named = {
        port["name"]: port["containerPort"]
        for container in pod.spec.get("containers") or ()
        for port in container.get("ports") or ()
        if port.get("name")
    }
    result = []
    for port in service.spec.get("ports") or ():
        target = port.get("targetPort", port["port"])
        number = named.get(target) if isinstance(target, str) and not target.isdigit() else int(target)
        if number is not None:
            result.append((port.get("name") or "", number, port.get("protocol") or "TCP"))
    return tuple(result)

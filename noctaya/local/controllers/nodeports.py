"""nodePorts of Services as listening ports of this machine, on 127.0.0.1 only. ClusterIPs are not implemented."""

import logging

from noctaya.kube.events import reference
from noctaya.kube.resources import SERVICES
from noctaya.local.controllers.by_service import ServiceController
from noctaya.local.controllers.errors import NodePortInUse
from noctaya.local.controllers.forwarding import Endpoint, Forwarder
from noctaya.local.controllers.records import Record
from noctaya.local.controllers.view import SERVICE, ClusterView

log = logging.getLogger(__name__)

HOST = "127.0.0.1"
RETRY_SECONDS = 5.0


class NodePortProxy(ServiceController):
    """Keyed by Service."""

    name = "nodeports"

    def __init__(self, view: ClusterView) -> None:
        self._open: dict[tuple[str, str], dict[int, Forwarder]] = {}
        super().__init__(view)

    async def run(self) -> None:
        """Until cancelled; then every port is closed."""
        try:
            await super().run()
        finally:
            for ports in self._open.values():
                for forwarder in ports.values():
                    await forwarder.close()

    async def reconcile(self, namespace: str, name: str) -> float | None:
        service = self._view.services.get(namespace, name)
        wanted = node_ports(service) if service is not None else {}
        ports = self._open.setdefault((namespace, name), {})
        for port in ports.keys() - wanted.keys():
            await ports.pop(port).close()
        again = None
        for port, port_name in wanted.items():
            if port not in ports and service is not None and not await self._listen(service, port, ports):
                again = RETRY_SECONDS
            if port in ports:
                ports[port].endpoints = self._endpoints(namespace, name, port_name)
        if not ports:
            del self._open[namespace, name]
        return again

    async def _listen(self, service: Record, port: int, ports: dict[int, Forwarder]) -> bool:
        forwarder = Forwarder(HOST, port)
        try:
            await forwarder.open()
        except OSError as error:
            cause = error.strerror or str(error)
            problem = NodePortInUse(port, f"{service.namespace}/{service.name}", cause)
            log.error("%s", problem)  # noqa: TRY400 - the sentence says it all
            self._view.recorder.record(reference(SERVICES, service), "NodePortInUse", str(problem), "Warning")
            return False
        ports[port] = forwarder
        return True

    def _endpoints(self, namespace: str, name: str, port_name: str) -> list[Endpoint]:
        result = []
        for found in self._view.slices.by_index(SERVICE, f"{namespace}/{name}"):
            number = next(
                (port["port"] for port in found.ports if (port.get("name") or "") == port_name), None
            )
            if number is not None:
                result += [
                    (endpoint["addresses"][0], number)
                    for endpoint in found.endpoints
                    if (endpoint.get("conditions") or {}).get("ready")
                ]
        return result


def node_ports(service: Record) -> dict[int, str]:
    """nodePort → port name of a Service that has some."""
    if service.metadata.is_deleting or service.spec.get("type") not in {"NodePort", "LoadBalancer"}:
        return {}
    ports = service.spec.get("ports") or ()
    return {int(port["nodePort"]): port.get("name") or "" for port in ports if port.get("nodePort")}

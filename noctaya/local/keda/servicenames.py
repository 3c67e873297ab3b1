"""The embedded cluster's answer to "which addresses has this Service?", for scaler addresses: there is no DNS there.

`<service>.<namespace>`, with or without `.svc` and anything after it, is looked up in EndpointSlices, ready endpoints only,
as a headless Service's DNS name would be. A name of another form has no addresses. Asked only when a connection is made or was
lost, so it lists rather than watches.
"""

from msgspec import field

from noctaya.kube.client import Client
from noctaya.kube.objects import Object, Slim
from noctaya.kube.resources import ENDPOINTSLICES

SERVICE_LABEL = "kubernetes.io/service-name"


class Conditions(Slim, frozen=True):
    """`ready` is unknown when it is absent, which counts as ready."""

    ready: bool | None = None


class EndpointOfSlice(Slim, frozen=True):
    """One pod."""

    addresses: list[str] = field(default_factory=list)
    conditions: Conditions = Conditions()


class EndpointSlice(Object, frozen=True):
    """Some of a Service's pods."""

    endpoints: list[EndpointOfSlice] = field(default_factory=list)


class ServiceNames:
    """`await ServiceNames(client).resolve("noctaya-scaler.noctaya-system.svc")`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def resolve(self, host: str) -> list[str]:
        """Addresses of the ready pods, sorted; empty for a name that is no Service's. Raises what the client raises."""
        labels = host.rstrip(".").split(".")
        if len(labels) < 2 or (len(labels) > 2 and labels[2] != "svc") or not all(labels):
            return []
        service, namespace = labels[:2]
        found = await self._client.list(
            ENDPOINTSLICES, namespace, label_selector=f"{SERVICE_LABEL}={service}", into=EndpointSlice
        )
        return sorted(
            {
                address
                for one in found.items
                for endpoint in one.endpoints
                if endpoint.conditions.ready is not False
                for address in endpoint.addresses
            }
        )

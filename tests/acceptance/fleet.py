"""The installed fleet, as tests look at it: its pods, its gateways' addresses, what its processes count."""

from dataclasses import dataclass
from typing import Literal

import httpx2
from prometheus_client.parser import text_string_to_metric_families

from tests.acceptance.api import Api, Object
from tests.acceptance.models import is_ready
from tests.acceptance.waiting import until, until_equal

NAMESPACE = "noctaya-system"
PUBLIC_PORT, ADMIN_PORT = 8080, 8081
FLEET_SECONDS = 120.0
LOOK_SECONDS = 5.0
Role = Literal["gateway", "worker"]


@dataclass(frozen=True, slots=True)
class Pod:
    """One of the fleet's pods."""

    name: str
    address: str

    @property
    def url(self) -> str:
        """A gateway's public port."""
        return f"http://{self.address}:{PUBLIC_PORT}"


@dataclass(frozen=True, slots=True)
class Fleet:
    """Workers and gateways."""

    api: Api
    url: str
    """The Service of the gateways, by its address."""

    async def pods(self, role: Role) -> list[Pod]:
        """Its pods of one role that are ready, by name."""
        found = [pod for pod in await self.objects(role) if is_ready(pod)]
        return sorted(
            (Pod(pod["metadata"]["name"], pod["status"]["podIP"]) for pod in found), key=lambda pod: pod.name
        )

    async def objects(self, role: Role) -> list[Object]:
        """Its pods of one role, whatever their state."""
        selector = f"app.kubernetes.io/name=noctaya,app.kubernetes.io/component={role}"
        return await self.api.list("pods", NAMESPACE, selector=selector)

    async def until_pods(self, role: Role, count: int, seconds: float = FLEET_SECONDS) -> list[Pod]:
        """Wait until exactly this many pods of a role are there and all are ready; gives them."""

        async def claim() -> list[Pod]:
            ready, all_of_them = await self.pods(role), await self.objects(role)
            return ready if len(ready) == len(all_of_them) == count else []

        return await until(claim, seconds, f"{count} {role}s are ready, and no other is there")

    async def leader(self) -> str:
        """The name of the pod that holds the leader's Lease; empty when nobody does."""
        lease = await self.api.get("leases", "noctaya-leader", NAMESPACE)
        holder: str = lease["spec"].get("holderIdentity") or ""
        return holder.partition("_")[0]

    async def metric(self, pod: Pod, name: str, **labels: str) -> float | None:
        """The sum of a series' values with these labels; None when there is none."""
        async with httpx2.AsyncClient(trust_env=False, timeout=LOOK_SECONDS) as client:
            answer = await client.get(f"http://{pod.address}:{ADMIN_PORT}/metrics")
        found = [
            sample.value
            for family in text_string_to_metric_families(answer.raise_for_status().text)
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]
        return sum(found) if found else None

    async def until_metric(
        self, pod: Pod, name: str, value: float | None, seconds: float, **labels: str
    ) -> None:
        """Wait until a series has this value (None: until it is gone)."""

        async def look() -> float | None:
            return await self.metric(pod, name, **labels)

        await until_equal(look, value, seconds, f"{name}{labels or ''} of {pod.name} is {value}")

"""The installed fleet, as tests look at it: its pods, its gateways' addresses, what its processes count."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Literal

import httpx2
from prometheus_client.parser import text_string_to_metric_families

from noctaya.api.names import SHARD_COUNT, shard_of
from noctaya.leader.lease_names import (
    LABEL_ROLE,
    LEADER_LEASE,
    ROLE_MEMBER,
    pod_of_incarnation,
    pod_of_lease,
    shard_lease,
    shard_of_lease,
)
from tests.acceptance.api import Api, Object
from tests.acceptance.models import is_ready
from tests.acceptance.waiting import until, until_equal

NAMESPACE = "noctaya-system"
PUBLIC_PORT, ADMIN_PORT = 8080, 8081
FLEET_SECONDS = 120.0
LOOK_SECONDS = 5.0
MOST_NAMES = 10_000
"""More than anybody has to try until one falls into a given third of the shards."""
Role = Literal["gateway", "worker"]
SIZE: Mapping[Role, int] = {"worker": 3, "gateway": 2}
"""How many pods of each role the overlay `default` has."""


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

    async def until_pods(
        self, role: Role, count: int | None = None, seconds: float = FLEET_SECONDS
    ) -> list[Pod]:
        """Wait until exactly this many pods of a role (the overlay's number) are there and all are ready; gives them."""
        count = SIZE[role] if count is None else count

        async def claim() -> list[Pod]:
            ready, all_of_them = await self.pods(role), await self.objects(role)
            return ready if len(ready) == len(all_of_them) == count else []

        return await until(claim, seconds, f"{count} {role}s are ready, and no other is there")

    async def leader(self) -> str:
        """The name of the pod that holds the leader's Lease; empty when nobody does."""
        return _holder(await self.api.get("leases", LEADER_LEASE, NAMESPACE))

    async def owner(self, model: str) -> str:
        """The name of the pod that the record of a model's shard names; empty for nobody."""
        lease = await self.api.find("leases", shard_lease(shard_of(*model.split("/"))), NAMESPACE)
        return "" if lease is None else _holder(lease)

    async def owner_pod(self, model: str, seconds: float = FLEET_SECONDS) -> Pod:
        """The ready worker that owns a model's shard, once there is one."""

        async def claim() -> Pod | None:
            owner = await self.owner(model)
            return next((pod for pod in await self.pods("worker") if pod.name == owner), None)

        return await until(claim, seconds, f"a ready worker owns the shard of {model}")

    async def name_with(self, pod: str, namespace: str, stem: str) -> str:
        """A name for a model, beginning with `stem`, that would be `pod`'s now."""
        owners = await self.owners()
        names = (f"{stem}-{number}" for number in range(MOST_NAMES))
        return next(name for name in names if owners.get(shard_of(namespace, name)) == pod)

    async def owners(self) -> dict[int, str]:
        """Who owns each shard, by the shards' records: names of pods."""
        leases = await self.api.list("leases", NAMESPACE)
        found = {shard_of_lease(lease["metadata"]["name"]): _holder(lease) for lease in leases}
        return {shard: pod for shard, pod in found.items() if shard is not None and pod}

    async def members(self) -> list[str]:
        """The pods whose member Leases are held."""
        leases = await self.api.list("leases", NAMESPACE, selector=f"{LABEL_ROLE}={ROLE_MEMBER}")
        return sorted(pod_of_lease(lease["metadata"]["name"]) or "" for lease in leases if _holder(lease))

    async def until_owned(self, *, by: Collection[str], seconds: float = FLEET_SECONDS) -> None:
        """Wait until every shard's record names one of these pods."""

        async def lost() -> dict[int, str]:
            owners = await self.owners()
            return {
                shard: owners.get(shard, "") for shard in range(SHARD_COUNT) if owners.get(shard) not in by
            }

        await until_equal(lost, {}, seconds, f"every shard belongs to one of {sorted(by)}")

    async def until_whole(self, seconds: float = FLEET_SECONDS) -> None:
        """Wait until everybody is there and ready, and every shard belongs to a worker that is."""
        workers = await self.until_pods("worker", seconds=seconds)
        await self.until_pods("gateway", seconds=seconds)
        await self.until_owned(by={pod.name for pod in workers}, seconds=seconds)

    async def total(self, role: Role, name: str, **labels: str) -> float:
        """The sum over the role's pods that are ready; those that have no such series count as nothing."""
        told = [await self.metric(pod, name, **labels) for pod in await self.pods(role)]
        return sum(value for value in told if value is not None)

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

    async def until_total(self, role: Role, name: str, value: float, seconds: float, **labels: str) -> None:
        """Wait until a series has this value, summed up over the role's pods."""

        async def look() -> float:
            return await self.total(role, name, **labels)

        await until_equal(look, value, seconds, f"{name}{labels or ''} of all {role}s is {value}")

    async def until_metric(
        self, pod: Pod, name: str, value: float | None, seconds: float, **labels: str
    ) -> None:
        """Wait until a series has this value (None: until it is gone)."""

        async def look() -> float | None:
            return await self.metric(pod, name, **labels)

        await until_equal(look, value, seconds, f"{name}{labels or ''} of {pod.name} is {value}")


def _holder(lease: Object) -> str:
    """The pod of the incarnation that holds a Lease; empty for nobody."""
    return pod_of_incarnation(lease["spec"].get("holderIdentity") or "")

"""A fleet whose workers are leadership alone: a tenure, a `Leading`, and member Leases that a test keeps or leaves to be silent.

What the API server stores is shown to every worker by lists, one after the other, as a watch would show it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

import pytest

from noctaya.kube.client import Client, PatchType
from noctaya.kube.clock import boottime
from noctaya.kube.errors import Call, NotFound, Unavailable
from noctaya.kube.leases import Leases, micro_now
from noctaya.kube.metadata import Metadata
from noctaya.kube.objects import ConfigMap, Lease, LeaseSpec
from noctaya.kube.resources import CONFIGMAPS, LEASES, NAMESPACES
from noctaya.leader.hold_off import HoldOffTiming
from noctaya.leader.leading import Leading
from noctaya.leader.lease_names import LABEL_ROLE, LEADER_LEASE, SHARDMAP, member_lease
from noctaya.leader.lease_views import leader_metadata, map_seen, member_metadata, member_view, shard_view
from noctaya.leader.member_record import MemberRecord, MemberState
from noctaya.leader.observation import ObservationTiming
from noctaya.leader.planner import Planner, PlannerTiming
from noctaya.leader.planner_events import LeasesListed, MapGone, Tick
from noctaya.leader.planning import PlanningTiming
from noctaya.leader.renewal import Renewal
from noctaya.leader.roster import RosterTiming
from noctaya.leader.rounds import RoundLimits
from noctaya.leader.shard_map import ShardMap
from noctaya.leader.tenure import Identity, Standing, Tenure, Timing
from tests.conformance.fixtures import OURS
from tests.faults.beside import running

TENURE = Timing(0.3, 2.0, 3.0, observe_every=0.1, observed_gap=1.5, retry_after=0.05)
PLANNER = PlannerTiming(
    observation=ObservationTiming(fence_after=2.0, healthy_gap=1.0),
    roster=RosterTiming(doubt_after=1.2, rejoin_within=2.0),
    planning=PlanningTiming(
        hold_off=HoldOffTiming(after_join=0.3, after_rollout=0.3, slack_after_crash=0.3),
        limits=RoundLimits(flight_seconds=0.3),
        gather_for=0.5,
    ),
    retry_after=0.1,
)
BEAT_SECONDS = 0.1
WAIT_SECONDS = 60.0
TICK_SECONDS = 0.01


async def until(claim: Callable[[], object]) -> None:
    """As soon as it holds."""
    async with asyncio.timeout(WAIT_SECONDS):
        while not claim():  # noqa: ASYNC110 - claims are about anything, events or not
            await asyncio.sleep(TICK_SECONDS)


class CutLeases(Leases):
    """A way to the Leases with a switch."""

    is_down = False

    async def read(self, name: str) -> Lease:
        self._check()
        return await super().read(name)

    async def create(self, lease: Lease) -> Lease:
        self._check()
        return await super().create(lease)

    async def replace(self, lease: Lease) -> Lease:
        self._check()
        return await super().replace(lease)

    def _check(self) -> None:
        if self.is_down:
            raise Unavailable(Call("test", f"leases {LEADER_LEASE}"), "cut off")


class LeadWorker:
    """One worker's leadership. Its tenure has a way of its own to the API server (`tenure_leases`)."""

    def __init__(
        self,
        pod: str,
        client: Client,
        tenure_client: Client,
        namespace: str,
        *,
        make: type[Leading] = Leading,
        is_first: bool,
    ) -> None:
        self.pod = pod
        self.tenure_leases = CutLeases(tenure_client, namespace)
        self.tenure = Tenure(Identity(pod, f"uid-{pod}", "n"), TENURE, is_first=is_first)
        self.renewal = Renewal(
            self.tenure,
            self.tenure_leases,
            namespace=namespace,
            name=LEADER_LEASE,
            describe=lambda metadata, write: leader_metadata(metadata),
            on_change=self._tenure_changed,
        )
        self.probed: list[tuple[str, str]] = []
        self.answer_probes = True
        self.maps: list[tuple[str, ShardMap]] = []
        self.leading = make(
            pod,
            self.renewal,
            Leases(client, namespace),
            client,
            namespace,
            probe=self._probe,
            on_map=lambda fleet, map_: self.maps.append((fleet, map_)),
            planner=Planner(pod, PLANNER),
        )

    @property
    def acts(self) -> bool:
        return self.tenure.standing(boottime()) is Standing.ACT

    @property
    def map(self) -> ShardMap | None:
        """What it was told last."""
        return self.maps[-1][1] if self.maps else None

    def heard(self, *kinds: type[Any]) -> int:
        """How many events of these kinds its planner has heard."""
        return sum(isinstance(event, kinds) for _, event in self.leading.planner.story.inputs())

    async def ticks(self, count: int) -> None:
        """Until its planner has heard so many more."""
        before = self.heard(Tick)
        await until(lambda: self.heard(Tick) >= before + count)

    def _tenure_changed(self) -> None:
        self.leading.tenure_changed()

    async def _probe(self, incarnation: str, address: str) -> bool:
        self.probed.append((incarnation, address))
        return self.answer_probes


@dataclass
class LeadingFleet:
    """Objects of one namespace. `client`: past every fault."""

    client: Client
    namespace: str
    silent: set[str] = field(default_factory=set)
    pods: list[str] = field(default_factory=list)
    workers: list[LeadWorker] = field(default_factory=list)

    async def join(self, *pods: str) -> None:
        """Member Leases of workers that are READY, with a note of somebody else's."""
        for pod in pods:
            record = MemberRecord(state=MemberState.READY, address=f"{pod}:9443", version="1")
            metadata = Metadata(
                name=member_lease(pod), namespace=self.namespace, annotations={"example.com/note": "mine"}
            )
            lease = Lease(
                metadata=member_metadata(metadata, record, pod=pod, pod_uid=""),
                spec=LeaseSpec(holder_identity=self.incarnation(pod), lease_transitions=1),
            )
            await self.client.create(LEASES, self.namespace, lease)
            self.pods.append(pod)

    @staticmethod
    def incarnation(pod: str) -> str:
        return f"{pod}_uid_1"

    async def member(self, pod: str) -> Lease:
        return await self.client.get(LEASES, self.namespace, member_lease(pod), Lease)

    async def stored_map(self) -> ConfigMap | None:
        try:
            return await self.client.get(CONFIGMAPS, self.namespace, SHARDMAP, ConfigMap)
        except NotFound:
            return None

    async def put_map(self, data: dict[str, str], **metadata: dict[str, str]) -> ConfigMap:
        """Make the ShardMap, or write over it whatever it says."""
        body = {"metadata": {"name": SHARDMAP, **metadata}, "data": data}
        if await self.stored_map() is None:
            return await self.client.create(CONFIGMAPS, self.namespace, body, into=ConfigMap)
        return await self.client.replace(CONFIGMAPS, self.namespace, SHARDMAP, body, into=ConfigMap)

    @asynccontextmanager
    async def worker(
        self, pod: str, client: Client | None = None, *, make: type[Leading] = Leading
    ) -> AsyncIterator[LeadWorker]:
        """A worker that runs, and is shown what is stored. `client`: its planner's way to the API server."""
        worker = LeadWorker(
            pod, client or self.client, self.client, self.namespace, make=make, is_first=not self.workers
        )
        self.workers.append(worker)
        async with running(worker.renewal.run(), worker.leading.run()):
            yield worker
        self.workers.remove(worker)

    async def live(self) -> None:
        """Members renew, and every worker is shown what is stored, until cancelled."""
        while True:
            # Decided once a beat: those that fall silent together were last seen in one and the same list.
            for pod in [pod for pod in self.pods if pod not in self.silent]:
                await self._renew(pod)
            await self._show()
            await asyncio.sleep(BEAT_SECONDS)

    async def _renew(self, pod: str) -> None:
        patch = {"spec": {"renewTime": micro_now()}}
        await self.client.patch(LEASES, self.namespace, member_lease(pod), patch, PatchType.MERGE)

    async def _show(self) -> None:
        listed = await self.client.list(LEASES, self.namespace, label_selector=LABEL_ROLE, into=Lease)
        members = tuple(view for lease in listed.items if (view := member_view(lease)) is not None)
        shards = tuple(record for lease in listed.items if (record := shard_view(lease)) is not None)
        found = await self.stored_map()
        for worker in self.workers:
            worker.leading.hear(LeasesListed(listed.resource_version, members, shards))
            worker.leading.hear(map_seen(found) if found is not None else MapGone())


async def new_namespace(client: Client) -> str:
    name = f"leading-{uuid4().hex[:8]}"
    await client.create(NAMESPACES, None, {"metadata": {"name": name, "labels": OURS}})
    return name


def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test that lets a request wait for something else must not have it given up meanwhile."""
    monkeypatch.setattr("noctaya.leader.leader_requests.REQUEST_SECONDS", WAIT_SECONDS)

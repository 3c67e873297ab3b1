"""This worker's place in its fleet, put together: what the API server shows of the fleet, membership, ownership, leading, peers.

Nothing is decided here; it is who hears what. Leading comes last to know: what a map says reaches ownership through the one
`MapKeeping` that refuses what may not be obeyed.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from noctaya import __version__
from noctaya.kube import Client
from noctaya.kube.clock import boottime
from noctaya.kube.leases import Leases
from noctaya.leader import planner_events as leads
from noctaya.leader.leading import Leading
from noctaya.leader.lease_names import LEADER_LEASE
from noctaya.leader.lease_views import leader_metadata
from noctaya.leader.member_record import MemberRecord, MemberState
from noctaya.leader.renewal import Renewal
from noctaya.leader.shard_map import ShardMap
from noctaya.leader.tenure import Identity, Standing, Tenure, Watched
from noctaya.telemetry import context
from noctaya.workers import shard_events as owns
from noctaya.workers.control_security import ControlSecurity
from noctaya.workers.fleet_views import Cores
from noctaya.workers.fleet_watch import FleetWatch
from noctaya.workers.introduction import KnownFleet
from noctaya.workers.member import Member
from noctaya.workers.own_container import own_container
from noctaya.workers.ownership import Acting, Ownership
from noctaya.workers.peers import Peers
from noctaya.workers.settings import WorkerSettings
from noctaya.workers.timings import Timings

log = logging.getLogger(__name__)


class Neighbourhood(Protocol):
    """What in this worker has to know about the fleet."""

    def standing_changed(self) -> None: ...
    def members_changed(self, workers: tuple[tuple[str, str], ...], ready: int) -> None:
        """(pod, host:port) of every worker that has told its address; how many are ready."""

    def refounded(self) -> None: ...


class Place:
    """See the module. `address()`: where other workers reach this one, empty while nobody can be told."""

    def __init__(
        self,
        settings: WorkerSettings,
        client: Client,
        lease_client: Client,
        *,
        fleet: KnownFleet,
        acting: Acting,
        neighbours: Neighbourhood,
        address: Callable[[], str],
        security: ControlSecurity,
        clock: Callable[[], float] = boottime,
    ) -> None:
        pod, timings = settings.pod, Timings.of(settings.tenure)
        self.went_back_event = asyncio.Event()
        """Set when the cluster was set back to an earlier state: what was learned since must be forgotten."""
        self._neighbours = neighbours
        self._address = address
        self._clock = clock
        leases = Leases(lease_client, pod.namespace)
        self.member = Member(
            pod,
            leases,
            timings.tenure,
            view_deadline=timings.view_deadline,
            record=self._record,
            on_began=lambda incarnation: self.ownership.began(incarnation),  # noqa: PLW0108 - not made yet
            on_state=lambda state: self.ownership.state_changed(state),  # noqa: PLW0108
            on_change=neighbours.standing_changed,
        )
        self.peers = Peers(
            fleet=lambda: self.ownership.fleet,
            me=lambda: self.incarnation,
            address_of=self._address_of,
            open_channel=security.open_channel,
            is_current=security.is_current,
        )
        self.ownership = Ownership(
            pod.name, self.member, leases, self.peers, acting, fleet=fleet.id, timing=timings.shards
        )
        self.leadership: Renewal[Tenure] = Renewal(
            Tenure(
                Identity(pod.name, pod.uid, secrets.token_hex(4)), timings.tenure, is_first=fleet.is_founder
            ),
            leases,
            namespace=pod.namespace,
            name=LEADER_LEASE,
            describe=lambda metadata, write: leader_metadata(metadata),
            may_stand=lambda: self.member.core.state is MemberState.READY,
            on_change=lambda: self.leading.tenure_changed(),  # noqa: PLW0108
        )
        self.leading = Leading(
            pod.name,
            self.leadership,
            leases,
            lease_client,
            pod.namespace,
            probe=self.peers.probe,
            on_map=self._map_changed,
            planner=timings.planner(pod.name),
        )
        self.watch = FleetWatch(
            client,
            pod.namespace,
            pod.name,
            self,
            watch=timings.lease_watch,
            map_watch=timings.map_watch,
        )
        self._told: tuple[tuple[tuple[str, str], ...], int] = ((), 0)

    # -- its life ------------------------------------------------------------------------------------------------------

    def works(self) -> dict[str, Coroutine[Any, Any, None]]:
        """What has to run until the place is left, by name; ownership first, which everything else tells things to."""
        return {
            "ownership": self.ownership.run(),
            "leading": self.leading.run(),
            "leadership": self.leadership.run(),
            "member": self._belong(),
        }

    def is_leading(self) -> bool:
        """Whether this worker's tenure of the leader's Lease acts at this instant."""
        return self.leadership.tenure.standing(self._clock()) is Standing.ACT

    @property
    def cores(self) -> Cores:
        """What people are shown of the fleet."""
        return Cores(self.leading.planner, self.ownership.core, self.member.core, self.leadership.tenure)

    @property
    def incarnation(self) -> str:
        """Ours of this moment, as ownership knows it; empty while there is none."""
        return self.ownership.core.state.incarnation

    async def drain(self, budget_seconds: float) -> None:
        """Hand everything over; give up what is left by then."""
        self.member.drain()
        try:
            async with asyncio.timeout(budget_seconds):
                await self.ownership.drained.wait()
        except TimeoutError:
            log.warning(
                "not all shards were handed over in time", extra=context(left=len(self.ownership.owned()))
            )

    async def leave(self, works: Sequence[asyncio.Task[Any]]) -> None:
        """Leadership first, then the member Lease. `works` run no more afterwards."""
        for work in works:
            work.cancel()
        await asyncio.wait(works)
        await self.leadership.leave()
        await self.member.leave()
        await self.peers.close()

    async def _belong(self) -> None:
        self.ownership.began(self.member.incarnation)
        await self.member.run()

    # -- the API server shows (FleetWatch's Listener) --------------------------------------------------------------------

    def plan(self, event: leads.Event) -> None:
        """Something for the planner."""
        self.leading.hear(event)
        if isinstance(event, leads.MemberSeen | leads.MemberGone | leads.LeasesListed):
            self._look_at_members()

    def own(self, event: owns.Event) -> None:
        """Something for ownership."""
        self.ownership.hear(event)

    def member_watched(self, event: Watched) -> None:
        """Our own Lease."""
        self.member.watched(event)

    def leader_watched(self, event: Watched) -> None:
        """The leader's Lease."""
        self.leading.rank(list(self.ownership.core.state.proof.receivers()))
        self.leadership.hear(event)

    def went_back(self) -> None:
        """The API server went back behind what it had shown."""
        log.error("the cluster was set back to an earlier state, as by a backup: this worker starts anew")
        self.went_back_event.set()

    # -- who hears what ----------------------------------------------------------------------------------------------

    def _map_changed(self, fleet: str, map_: ShardMap) -> None:
        if fleet != self.ownership.fleet:
            log.warning("the fleet has another id", extra=context(before=self.ownership.fleet, now=fleet))
            self.ownership.fleet = fleet
            self._neighbours.refounded()
        self.ownership.hear(owns.PlanSeen(fleet, map_.generation, map_.desired))

    def _look_at_members(self) -> None:
        members = self.leading.planner.fleet.roster.members.values()
        held = [member for member in members if member.view.incarnation]
        workers = sorted((member.view.pod, member.record.address) for member in held if member.record.address)
        ready = sum(member.record.state is MemberState.READY for member in held)
        if self._told != (now := (tuple(workers), ready)):
            self._told = now
            self._neighbours.members_changed(*now)

    def _address_of(self, pod: str) -> str:
        member = self.leading.planner.fleet.roster.members.get(pod)
        return member.record.address if member is not None else ""

    def _record(self) -> MemberRecord:
        pod, in_force = self.watch.own_pod, self.leading.planner.map
        template = pod.metadata.labels.get("pod-template-hash", "") if pod is not None else ""
        return MemberRecord(
            address=self._address(),
            version=f"{__version__}+{template}" if template else __version__,
            container=own_container(pod),
            shards=len(self.ownership.owned()),
            saw_map=in_force.generation if in_force is not None else 0,
        )

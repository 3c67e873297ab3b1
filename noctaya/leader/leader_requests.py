"""What a leader asks of the API server and of its peers: each request is done once and answered by exactly one event.

- Directly before a write is sent, the tenure under which it was asked for must still act; else it is not sent at all. What is
  read before it, of what the replaced object says besides, may have taken its time.
- A write replaces exactly the version that the planner named; an object that is found at another one is Refused unwritten.
- What decides nothing (no answer in time, a right that is missing, an object that the API server does not take) is
  Unreachable to the planner, which asks again as long as it wants to, and a sentence in `problem` for people meanwhile.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from noctaya.errors import NoctayaError
from noctaya.kube.client import Client
from noctaya.kube.clock import boottime
from noctaya.kube.errors import AlreadyExists, Conflict, NotFound, TooManyRequests, Unavailable
from noctaya.kube.leases import Leases
from noctaya.kube.objects import ConfigMap
from noctaya.kube.resources import CONFIGMAPS
from noctaya.leader.errors import NotLeading
from noctaya.leader.lease_names import SHARDMAP, member_lease
from noctaya.leader.lease_views import fenced, map_object, map_seen
from noctaya.leader.planner_events import (
    Accepted,
    FenceMember,
    MapGone,
    MapSeen,
    Probe,
    ProbeAnswered,
    ReadMap,
    Refused,
    Unreachable,
    WriteMap,
)
from noctaya.telemetry import context

log = logging.getLogger(__name__)

REQUEST_SECONDS: Final = 3.0
"""Of a request with all that it reads first; below the planner's own deadline, so that it always hears what became of it."""
PROBE_SECONDS: Final = 1.0
PROBLEM_SECONDS: Final = 10.0
"""A failure that was not repeated for so long hinders nobody: what was asked for is done by somebody else, or not wanted any
more. A planner that still wants it asks again after half a second."""

KubeRequest = FenceMember | WriteMap | ReadMap
Request = KubeRequest | Probe
Answer = Accepted | Refused | Unreachable | MapSeen | MapGone | ProbeAnswered


class LeaderRequests:
    """See the module. `acts_under(epoch)`: whether our tenure acts at this instant, under that very epoch."""

    def __init__(
        self,
        leases: Leases,
        client: Client,
        namespace: str,
        *,
        acts_under: Callable[[int | None], bool],
        probe: Callable[[str, str], Awaitable[bool]],
        clock: Callable[[], float] = boottime,
    ) -> None:
        self.on_write: Callable[[FenceMember | WriteMap, int | None], None] = lambda request, epoch: None
        """Hears of every write, directly before it is sent."""
        self._leases = leases
        self._client = client
        self._namespace = namespace
        self._acts_under = acts_under
        self._probe = probe
        self._clock = clock
        self._problems: dict[type[KubeRequest], tuple[float, Exception]] = {}

    @property
    def problem(self) -> str:
        """What keeps requests from being done, verb and resource named; empty when all is well."""
        since = self._clock() - PROBLEM_SECONDS
        return "; ".join(str(error) for at, error in self._problems.values() if at > since)

    def forget_problems(self) -> None:
        """Nobody leads here any more: whether the requests of then could be done now is not known."""
        self._problems.clear()

    async def carry_out(self, request: Request, epoch: int | None) -> Answer:
        """Do what the planner asked for under `epoch`; the event that answers it."""
        if isinstance(request, Probe):
            return await self._ask_peer(request)
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                answer = await self._ask(request, epoch)
        except NotLeading:
            return Unreachable(request.request)
        except TimeoutError:
            self._failed(request, TimeoutError(f"{_name(request)}: no answer within {REQUEST_SECONDS:g} s"))
            return Unreachable(request.request)
        except NoctayaError as error:
            self._failed(request, error)
            return Unreachable(request.request)
        self._answered(request)
        return answer

    async def _ask_peer(self, probe: Probe) -> ProbeAnswered:
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                is_alive = await self._probe(probe.incarnation, probe.address)
        except TimeoutError:
            is_alive = False
        return ProbeAnswered(probe.pod, probe.incarnation, is_alive)

    async def _ask(self, request: KubeRequest, epoch: int | None) -> Answer:
        match request:
            case ReadMap(number):
                found = await self._stored_map()
                return map_seen(found, number) if found is not None else MapGone(number)
            case WriteMap(resource_version=None):
                return await self._create_map(request, epoch)
            case WriteMap():
                return await self._replace_map(request, epoch)
            case FenceMember():
                return await self._fence(request, epoch)

    async def _create_map(self, write: WriteMap, epoch: int | None) -> Answer:
        wanted = map_object(self._namespace, write.map, None)
        self._check_tenure(write, epoch)
        try:
            made = await self._client.create(CONFIGMAPS, self._namespace, wanted, into=ConfigMap)
        except AlreadyExists:
            return Refused(write.request)
        # NotFound is no refusal here: it is the namespace that is missing.
        return Accepted(write.request, made.metadata.resource_version, made.uid)

    async def _replace_map(self, write: WriteMap, epoch: int | None) -> Answer:
        before = await self._stored_map()
        if before is None or before.metadata.resource_version != write.resource_version:
            return Refused(write.request)
        wanted = map_object(self._namespace, write.map, before)
        self._check_tenure(write, epoch)
        try:
            written = await self._client.replace(
                CONFIGMAPS, self._namespace, SHARDMAP, wanted, into=ConfigMap
            )
        except (NotFound, Conflict):
            return Refused(write.request)
        return Accepted(write.request, written.metadata.resource_version, written.uid)

    async def _fence(self, fence: FenceMember, epoch: int | None) -> Answer:
        try:
            lease = await self._leases.read(member_lease(fence.pod))
            if lease.metadata.resource_version != fence.resource_version:
                return Refused(fence.request)
            wanted = fenced(lease, fence.record, fence.resource_version)
            self._check_tenure(fence, epoch)
            written = await self._leases.replace(wanted)
        except (NotFound, Conflict):
            return Refused(fence.request)
        return Accepted(fence.request, written.metadata.resource_version)

    async def _stored_map(self) -> ConfigMap | None:
        try:
            return await self._client.get(CONFIGMAPS, self._namespace, SHARDMAP, ConfigMap)
        except NotFound:
            return None

    def _check_tenure(self, write: FenceMember | WriteMap, epoch: int | None) -> None:
        """Nothing may be awaited between this and the write."""
        if not self._acts_under(epoch):
            raise NotLeading
        self.on_write(write, epoch)

    def _failed(self, request: KubeRequest, error: Exception) -> None:
        if str(error) not in self.problem:
            log.warning("a leader's request failed", extra=context(request=_name(request), error=error))
        self._problems[type(request)] = (self._clock(), error)

    def _answered(self, request: KubeRequest) -> None:
        """That the API server answers one request is true of all; a right that is missing stays missing for its own kind."""
        self._problems = {
            kind: (at, error)
            for kind, (at, error) in self._problems.items()
            if kind is not type(request)
            and not isinstance(error, (Unavailable, TooManyRequests, TimeoutError))
        }


def _name(request: KubeRequest) -> str:
    match request:
        case FenceMember(pod=pod):
            return f"fencing of {member_lease(pod)}"
        case WriteMap():
            return f"writing of {SHARDMAP}"
        case ReadMap():
            return f"reading of {SHARDMAP}"

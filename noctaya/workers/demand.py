"""How many requests each service has at all gateways together, and whether that is known.

Invariants:
- A *known* value is never below what the live gateways have reported within `stale_after`; *unknown* is never zero.
- Demand is known only while the API's view of the gateways is followed, and every container that it shows as running has a
  stream open to here and a fresh full report. A report of the process before a restart does not count for the one after it.
- A gateway leaves the sum by `Bye`, or when the API says that its container ended or its pod is gone and no stream of it is
  open; never by age. Of a pod that the API has never shown, only a closed stream and `unlisted_linger` can tell.
- While unknown, a service's demand is at least what it was when it was last known in this tenure, and at least what the
  shard's former owner handed over (`adopt`), until our own sum is known for the first time since.
- Two processes that share a pod's name cannot be told from a restart until the replaced one speaks again. From then on demand
  is unknown, since one of the two is not counted, and its wakes count all the same.

Fails towards keeping a model awake. Per service it is max(sum of pending, 1 if any activation lease runs): leases do not add
up to replicas.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from noctaya.workers.gateways import GatewayContainer, Phase, PodName

RETIRED_BOOTS = 8
"""How many replaced boot ids of a pod are remembered, so that a late message of one is not taken for a new process."""
MAX_ADOPTED = 20_000
"""Services whose demand another worker has told us; of more than that, nothing is known."""
LAST_WORDS_SECONDS = 3.0
"""What a replaced process said before its end is read by then; gateways report every 2 s, so a live one is heard soon after."""


@dataclass(frozen=True, slots=True)
class Known:
    """Every live gateway has told: this is the demand."""

    value: int


@dataclass(frozen=True, slots=True)
class AtLeast:
    """Some gateway is silent; it was this when last known, or more."""

    value: int


@dataclass(frozen=True, slots=True)
class Unknown:
    """Never known in this tenure. `seen` is what some gateways told: above zero the service is active, but how much is not known."""

    seen: int = 0


Demand = Known | AtLeast | Unknown


def seen_of(demand: Demand) -> int:
    """What there is at least: enough to say that a service is active, never that it is not."""
    return demand.seen if isinstance(demand, Unknown) else demand.value


@dataclass(frozen=True, slots=True)
class Share:
    """One service at one gateway. `lease_until` is on our clock, 0 for no lease."""

    pending: int
    lease_until: float = 0.0

    def is_active(self, now: float) -> bool:
        return self.pending > 0 or self.lease_until > now


@dataclass(frozen=True, slots=True)
class Rose:
    """A service went from no demand to some."""

    key: str


@dataclass(frozen=True, slots=True)
class Fell:
    """A service's demand went to none: told by a report, or by `sweep` where a lease has run out."""

    key: str


Edge = Rose | Fell


@dataclass(slots=True)
class Member:
    """One gateway pod: its current process and what that said."""

    boot_id: str
    since: float
    sequence: int = 0
    shares: dict[str, Share] = field(default_factory=dict)
    full_at: float = float("-inf")
    streams: set[int] = field(default_factory=set)
    closed_at: float = float("-inf")
    retired: deque[str] = field(default_factory=lambda: deque(maxlen=RETIRED_BOOTS))


class DemandBook:
    """See the module. Times are seconds of one steady clock; a key is `namespace/name`."""

    def __init__(self, *, stale_after: float = 10.0, unlisted_linger: float = 10.0) -> None:
        self.stale_after = stale_after
        self.unlisted_linger = unlisted_linger
        self._members: dict[PodName, Member] = {}
        self._containers: Mapping[PodName, GatewayContainer] | None = None
        self._instance_since: dict[PodName, float] = {}
        self._listed: set[PodName] = set()
        self._since: float | None = None
        self._last_known: dict[str, int] | None = None
        self._adopted: dict[str, int] = {}
        """What former owners knew, until we know; of services without demand they said nothing."""
        self._dismissed: dict[PodName, str] = {}
        self._is_followed = True
        self._risen: set[str] = set()
        self._shadowed_at: dict[PodName, float] = {}
        """When a process was last heard that another one of the same pod's name had replaced long before."""

    # -- what happens ------------------------------------------------------------------------------------------------

    def begin(self, now: float) -> None:
        """A new tenure: what the last one knew does not count, what gateways and former owners said does."""
        self._since = now
        self._last_known = None

    def hello(self, pod: PodName, boot_id: str, stream: int, now: float) -> list[Edge]:
        """A gateway process opened `stream`. A new boot id replaces the pod's former process with all that it said."""
        self._remember(now)
        member = self._members.get(pod)
        if member is not None and boot_id in member.retired:
            self._is_shadowed(pod, boot_id, now)
            return []
        edges: list[Edge] = []
        if member is None or member.boot_id != boot_id:
            fresh = Member(boot_id, now)
            if member is not None:
                fresh.retired.extend([*member.retired, member.boot_id])
            edges = self._swap(pod, fresh, now)
            member = fresh
        self._dismissed.pop(pod, None)
        member.streams.add(stream)
        self._remember(now)
        return edges

    def closed(self, pod: PodName, boot_id: str, stream: int, now: float) -> list[Edge]:
        """`stream` ended without `Bye`: that says nothing about the demand."""
        member = self._members.get(pod)
        if member is None or member.boot_id != boot_id:
            return []
        self._remember(now)
        member.streams.discard(stream)
        member.closed_at = now
        edges = self._sweep(now)
        self._remember(now)
        return edges

    def bye(self, pod: PodName, boot_id: str, now: float) -> list[Edge]:
        """The process says that it is going and holds no request any more."""
        member = self._members.get(pod)
        if member is None or member.boot_id != boot_id:
            return []
        self._remember(now)
        if self._containers is not None and pod in self._containers:
            self._dismissed[pod] = self._containers[pod].instance
        edges = self._swap(pod, None, now)
        self._remember(now)
        return edges

    def report(
        self, pod: PodName, boot_id: str, sequence: int, shares: Mapping[str, Share], now: float
    ) -> list[Edge] | None:
        """A full report: a service that it leaves out has no demand there. None: it was not newer, or of a former process."""
        member = self._current(pod, boot_id, sequence)
        if member is None:
            self._is_shadowed(pod, boot_id, now)
            return None
        self._remember(now)
        member.sequence = sequence
        member.full_at = now
        edges = self._replace(
            member, {key: share for key, share in shares.items() if share.is_active(now)}, now
        )
        self._remember(now)
        return edges

    def wake(
        self, pod: PodName, boot_id: str, sequence: int, key: str, share: Share, now: float
    ) -> list[Edge] | None:
        """One service's demand rose; it never lowers. None: it was not newer, or of a former process."""
        member = self._current(pod, boot_id, sequence)
        if member is None and self._is_shadowed(pod, boot_id, now):
            member = self._members[
                pod
            ]  # its request waits, whoever else has its name; the next full report ends this share
        elif member is None:
            return None
        else:
            member.sequence = sequence
        self._remember(now)
        old = member.shares.get(key, Share(0))
        raised = Share(max(old.pending, share.pending), max(old.lease_until, share.lease_until))
        edges = self._replace(member, {**member.shares, key: raised}, now)
        self._remember(now)
        return edges

    def observe(self, containers: Mapping[PodName, GatewayContainer], now: float) -> list[Edge]:
        """The gateway containers as the API shows them (call it once the view is synced, and whenever it changed)."""
        self._remember(now)
        for pod, container in containers.items():
            before = self._containers.get(pod) if self._containers is not None else None
            if (
                before is not None
                and before.instance != container.instance
                and before.phase is not Phase.STARTING
            ):
                # Restarted in place: reports that came before this instant may be the former process's.
                self._instance_since[pod] = now
        self._containers = dict(containers)
        self._listed.update(containers)
        self._listed.intersection_update(containers.keys() | self._members.keys())
        for pod in self._instance_since.keys() - containers.keys():
            del self._instance_since[pod]
        for pod in self._dismissed.keys() - containers.keys():
            del self._dismissed[pod]
        for pod in [pod for pod, at in self._shadowed_at.items() if now - at >= self.stale_after]:
            del self._shadowed_at[pod]
        edges = self._sweep(now)
        self._remember(now)
        return edges

    def follow(self, is_followed: bool, now: float) -> None:
        """Whether `observe` is being kept current. While it is not, a gateway may have started that nobody has shown us."""
        self._remember(now)
        self._is_followed = is_followed
        self._remember(now)

    def adopt(self, at_least: Mapping[str, int], now: float) -> None:
        """What the former owner of these services knew. It can only raise what is not known; a zero says nothing, since
        requests may have come to gateways that we have not heard."""
        self._remember(now)
        if self.is_known(now):
            return
        for key, value in at_least.items():
            if value > 0 and (key in self._adopted or len(self._adopted) < MAX_ADOPTED):
                self._adopted[key] = max(value, self._adopted.get(key, 0))

    def sweep(self, now: float) -> list[Edge]:
        """Let go of gateways whose time in `unlisted_linger` is over, and tell of leases that ran out. Call it every second."""
        self._remember(now)
        edges = self._sweep(now)
        lapsed = [key for key in self._risen if self.seen(key, now) == 0]
        self._risen.difference_update(lapsed)
        self._remember(now)
        return [*edges, *map(Fell, lapsed)]

    # -- what is asked -----------------------------------------------------------------------------------------------

    def demand(self, key: str, now: float) -> Demand:
        """The demand of one service."""
        seen = self.seen(key, now)
        if self.is_known(now):
            return Known(seen)
        adopted = self._adopted.get(key, 0)
        if self._last_known is None:
            return AtLeast(max(seen, adopted)) if adopted else Unknown(seen)
        return AtLeast(max(seen, adopted, self._last_known.get(key, 0)))

    def seen(self, key: str, now: float) -> int:
        """What the gateways together have told of `key`, known or not."""
        pending, has_lease = 0, False
        for member in self._members.values():
            share = member.shares.get(key)
            if share is not None:
                pending += share.pending
                has_lease = has_lease or share.lease_until > now
        return max(pending, 1 if has_lease else 0)

    def is_known(self, now: float) -> bool:
        """Whether every running gateway has told, freshly."""
        return self.silent_gateways(now) == []

    def silent_gateways(self, now: float) -> list[str] | None:
        """Which running gateways cannot be relied on; None when it is not known which gateways there are."""
        if self._containers is None or self._since is None or not self._is_followed:
            return None
        running = [
            pod
            for pod, found in self._containers.items()
            if found.phase is Phase.RUNNING and self._dismissed.get(pod) != found.instance
        ]
        if not running and now - self._since < self.stale_after:
            # No gateway in sight so soon after a start: one outside the API's view gets the time to come back.
            return None
        silent = ["/".join(pod) for pod in running if not self._is_fresh(pod, now)]
        return silent + [name for name in self.shadowed(now) if name not in silent]

    def shadowed(self, now: float) -> list[str]:
        """Pods whose name more than one live process uses: only the newest of them is counted."""
        return ["/".join(pod) for pod, at in self._shadowed_at.items() if now - at < self.stale_after]

    def active(self, now: float) -> dict[str, int]:
        """Every service with demand that was told, for metrics and people."""
        keys = {key for member in self._members.values() for key in member.shares}
        return {key: seen for key in sorted(keys) if (seen := self.seen(key, now)) > 0}

    @property
    def members(self) -> Mapping[PodName, Member]:
        """Every gateway in the sum; read only."""
        return self._members

    # -- how ---------------------------------------------------------------------------------------------------------

    def _current(self, pod: PodName, boot_id: str, sequence: int) -> Member | None:
        member = self._members.get(pod)
        if member is None or member.boot_id != boot_id or sequence <= member.sequence:
            return None
        return member

    def _is_shadowed(self, pod: PodName, boot_id: str, now: float) -> bool:
        """Whether a live process speaks that another one of its name has replaced; noted if so."""
        member = self._members.get(pod)
        if member is None or boot_id not in member.retired or now - member.since < LAST_WORDS_SECONDS:
            return False
        self._remember(now)
        self._shadowed_at[pod] = now
        return True

    def _is_fresh(self, pod: PodName, now: float) -> bool:
        member = self._members.get(pod)
        if member is None or member.full_at <= self._instance_since.get(pod, float("-inf")):
            return False
        if not member.streams:
            return False  # what it has taken on since its stream broke, it could not tell
        return member.full_at >= now - self.stale_after

    def _has_left(self, pod: PodName, member: Member, now: float) -> bool:
        if member.streams or self._containers is None:
            return False
        container = self._containers.get(pod)
        if container is not None:
            return container.phase is Phase.ENDED
        return pod in self._listed or now - member.closed_at >= self.unlisted_linger

    def _sweep(self, now: float) -> list[Edge]:
        gone = [pod for pod, member in self._members.items() if self._has_left(pod, member, now)]
        return [edge for pod in gone for edge in self._swap(pod, None, now)]

    def _swap(self, pod: PodName, new: Member | None, now: float) -> list[Edge]:
        old = self._members.get(pod)
        keys = list(old.shares) if old else []
        before = {key: self.seen(key, now) for key in keys}
        if new is None:
            self._members.pop(pod, None)
        else:
            self._members[pod] = new
        return self._edges(before, now)

    def _replace(self, member: Member, shares: dict[str, Share], now: float) -> list[Edge]:
        before = {key: self.seen(key, now) for key in member.shares.keys() | shares.keys()}
        member.shares = shares
        return self._edges(before, now)

    def _edges(self, before: Mapping[str, int], now: float) -> list[Edge]:
        edges: list[Edge] = []
        for key, was in before.items():
            now_seen = self.seen(key, now)
            if was == 0 and now_seen > 0:
                self._risen.add(key)
                edges.append(Rose(key))
            elif was > 0 and now_seen == 0:
                self._risen.discard(key)
                edges.append(Fell(key))
        return edges

    def _remember(self, now: float) -> None:
        """Keep what is known at this instant. Called before an event, which may end the knowing, and after it."""
        if self.is_known(now):
            keys = {key for member in self._members.values() for key in member.shares}
            self._last_known = {key: seen for key in keys if (seen := self.seen(key, now)) > 0}
            self._adopted.clear()

"""The route table: the services of every shard, as the newest owner told them.

Invariants: a shard's `(epoch, version)` never falls; a refused update changes nothing; a new fleet id voids all positions,
but what was held of a shard goes on being served until the new fleet has told that shard (an empty table would refuse
requests that can be served). A fleet that was replaced never comes back.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from noctaya.gateway.service import Service
from noctaya.wire import control

Reason = control.Nack.Reason
Entry = TypeVar("Entry")


@dataclass(frozen=True, slots=True)
class Applied:
    """The update is in force (or was already); `changed` are the keys whose service came, changed or went."""

    changed: frozenset[str]


@dataclass(frozen=True, slots=True)
class Refused:
    """Nothing changed; `epoch` and `version` are what we hold."""

    reason: "control.Nack.Reason"
    epoch: int
    version: int
    detail: str


@dataclass(slots=True)
class ShardState:
    """What is held of one shard."""

    epoch: int = 0
    version: int = 0
    services: dict[str, Service] = field(default_factory=dict)


class RouteTable:
    """Services by key, by hostname and by short name."""

    def __init__(self) -> None:
        self.fleet = ""
        self._former_fleets: set[str] = set()
        self._shards: dict[int, ShardState] = {}
        self._services: dict[str, Service] = {}
        self._by_host: dict[str, set[str]] = {}
        self._by_name: dict[str, set[str]] = {}
        self._digests: Counter[bytes] = Counter()
        self._keyless: Counter[str] = Counter()
        """Namespace → services there that need no key."""

    # Updates

    def apply(self, update: "control.ShardUpdate") -> Applied | Refused:
        """Take one update from a worker, or refuse it and keep what is held."""
        held = self._shards.get(update.shard, ShardState())
        if refused := self._objection(update, held):
            return refused
        try:
            told = {service.key: service for service in self._read(update)}
        except ValueError as error:
            return Refused(Reason.INVALID, held.epoch, held.version, str(error))
        self._adopt_fleet(update.fleet)
        held = self._shards.setdefault(update.shard, held)
        if update.base_version == 0:
            gone = held.services.keys() - told.keys()
        else:
            gone = {key for key in update.removed if key in held.services and key not in told}
        changed = {key for key, service in told.items() if held.services.get(key) != service} | gone
        for key in changed:
            new = told.get(key)
            if new is not None and (elsewhere := self._services.get(key)) and elsewhere.shard != update.shard:
                # Told by two shards: another fleet may count them differently. The latest holds, and the other lets go of it.
                self._replace(key, self._shards[elsewhere.shard], None)
            self._replace(key, held, new)
        held.epoch, held.version = update.epoch, update.version
        return Applied(frozenset(changed))

    def _objection(self, update: "control.ShardUpdate", held: ShardState) -> Refused | None:
        def refuse(reason: "control.Nack.Reason", detail: str) -> Refused:
            return Refused(reason, held.epoch, held.version, detail)

        if not update.fleet or update.epoch == 0 or update.version == 0:
            return refuse(Reason.INVALID, "fleet, epoch and version must be set")
        if update.fleet in self._former_fleets:
            return refuse(Reason.STALE_EPOCH, f"fleet {update.fleet} was replaced by {self.fleet}")
        if self.fleet and update.fleet != self.fleet:
            if update.base_version:
                return refuse(Reason.VERSION_GAP, "a new fleet begins with a snapshot")
            return None
        if update.epoch < held.epoch:
            return refuse(Reason.STALE_EPOCH, f"epoch {update.epoch} is older than {held.epoch}")
        if update.epoch == held.epoch and update.version < held.version:
            return refuse(Reason.STALE_EPOCH, f"version {update.version} is older than {held.version}")
        if update.base_version and update.version == held.version and update.epoch == held.epoch:
            return None  # the same delta twice: what it says is what is held
        if update.base_version and (update.epoch, update.base_version) != (held.epoch, held.version):
            return refuse(Reason.VERSION_GAP, f"delta upon {update.base_version}, but {held.version} is held")
        return None

    @staticmethod
    def _read(update: "control.ShardUpdate") -> Iterator[Service]:
        for message in update.services:
            if not message.namespace or not message.name:
                raise ValueError(f"a service of shard {update.shard} has no namespace or no name")
            yield Service.from_message(message, update.shard)

    def _adopt_fleet(self, fleet: str) -> None:
        if fleet == self.fleet:
            return
        if self.fleet:
            self._former_fleets.add(self.fleet)
            for state in self._shards.values():
                state.epoch = state.version = 0
        self.fleet = fleet

    def _replace(self, key: str, shard: ShardState, new: Service | None) -> None:
        old = shard.services.pop(key, None)
        if old is not None:
            self._services.pop(key, None)
            for host in old.hostnames:
                _drop(self._by_host, host, key)
            for name in old.names:
                _drop(self._by_name, name, key)
            _count(self._digests, old.digests, -1)
            _count(self._keyless, _keyless_namespace(old), -1)
        if new is not None:
            shard.services[key] = self._services[key] = new
            for host in new.hostnames:
                self._by_host.setdefault(host, set()).add(key)
            for name in new.names:
                self._by_name.setdefault(name, set()).add(key)
            _count(self._digests, new.digests, 1)
            _count(self._keyless, _keyless_namespace(new), 1)

    # Questions

    def is_former(self, fleet: str) -> bool:
        """True for a fleet that was replaced by the one whose routes are held."""
        return fleet in self._former_fleets

    def get(self, key: str) -> Service | None:
        """The service `namespace/name`."""
        return self._services.get(key)

    def by_hostname(self, host: str) -> Service | None:
        """The service that declares `host`; of several the oldest (a younger claim loses)."""
        claims = [self._services[key] for key in self._by_host.get(host, ())]
        return min(claims, key=lambda service: (service.created_at, service.key), default=None)

    def by_name(self, name: str) -> list[Service]:
        """Every service with this short name, in any namespace."""
        return [self._services[key] for key in sorted(self._by_name.get(name, ()))]

    def knows_digest(self, digest: bytes) -> bool:
        """True when some service accepts this key."""
        return digest in self._digests

    def keyless_namespaces(self) -> Iterable[str]:
        """Namespaces with a service that needs no key. Small: asked for each request that brings no key."""
        return self._keyless.keys()

    def epoch_of(self, shard: int) -> int:
        """The highest epoch seen for a shard; 0 when there is none."""
        held = self._shards.get(shard)
        return held.epoch if held else 0

    def known(self) -> list["control.ShardVersion"]:
        """What Hello tells a worker: the shards whose position is known in this fleet."""
        return [
            control.ShardVersion(shard=shard, epoch=state.epoch, version=state.version)
            for shard, state in sorted(self._shards.items())
            if state.epoch
        ]

    def shards(self) -> Iterator[tuple[int, ShardState]]:
        """Every shard that is held, for the snapshot."""
        return iter(sorted(self._shards.items()))

    def __iter__(self) -> Iterator[Service]:
        return iter(self._services.values())

    def __len__(self) -> int:
        return len(self._services)


def _keyless_namespace(service: Service) -> tuple[str, ...]:
    return () if service.auth_required or service.digests else (service.namespace,)


def _count(counter: "Counter[Entry]", entries: Iterable[Entry], by: int) -> None:
    for entry in entries:
        counter[entry] += by
        if not counter[entry]:
            del counter[entry]


def _drop(index: dict[str, set[str]], entry: str, key: str) -> None:
    keys = index.get(entry)
    if keys is not None:
        keys.discard(key)
        if not keys:
            del index[entry]

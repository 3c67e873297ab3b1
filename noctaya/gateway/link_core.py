"""Whom to dial and whom to wake: the decisions of the control link. Pure; virtual time.

Invariants: a worker that any linked worker lists is dialled (one that is cut from the API server lists who was there), and so
are the first contacts while no listed worker is linked; two links to one worker do not last; a wake goes to the owner of its
shard (the worker that sent the shard's newest epoch), at once to all when nobody owns it or the last link to the owner ends, and
to all others when the owner has not confirmed it in time. A wake is kept until an owner confirms it or nobody wants it any more,
and every worker that links meanwhile gets it.
"""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class SendWake:
    """Write this wake on the link to `address`."""

    address: str
    wake_id: int
    key: str


@dataclass(slots=True)
class _Wake:
    wake_id: int
    shard: int
    told: set[str] = field(default_factory=set)
    escalate_at: float | None = None


@dataclass(slots=True)
class LinkCore:
    """The links of one gateway process; a worker is known by the address that it is dialled at."""

    contacts: tuple[str, ...]
    wake_ack_seconds: float
    _lists: dict[str, dict[str, str]] = field(default_factory=dict)
    """address of a linked worker → whom it lists."""
    _listed: dict[str, str] = field(default_factory=dict)
    """address → worker's name: all lists together, or the last that there were."""
    _linked: dict[str, str] = field(default_factory=dict)
    """address → worker's name, as its Welcome said."""
    _owners: dict[int, tuple[int, str]] = field(default_factory=dict)
    """shard → (newest epoch, worker's name)."""
    _wakes: dict[str, _Wake] = field(default_factory=dict)
    _last_wake_id: int = 0

    # Workers

    def listed(self, address: str, workers: dict[str, str]) -> None:
        """The worker at `address` sent the list of all (address → name). An empty list says nothing."""
        if workers:
            self._lists[address] = workers
            self._unite()

    def _unite(self) -> None:
        if self._lists:
            self._listed = {
                address: name for workers in self._lists.values() for address, name in workers.items()
            }

    def welcomed(self, address: str, worker: str) -> list[SendWake]:
        """A link is up."""
        self._linked[address] = worker
        return [
            self._send(key, wake, address) for key, wake in self._wakes.items() if address not in wake.told
        ]

    def closed(self, address: str) -> list[SendWake]:
        """A link ended, or never came up. Whoever waits for a word on it asks on another link to the owner, or asks all."""
        self._linked.pop(address, None)
        self._lists.pop(address, None)
        self._unite()
        actions: list[SendWake] = []
        for key, wake in self._wakes.items():
            if address not in wake.told:
                continue
            wake.told.remove(address)
            if wake.escalate_at is None:
                continue
            owner = self.owner_of(wake.shard)
            if owner is None:
                actions += self._escalate(key, wake)
            elif owner not in wake.told:
                actions.append(self._send(key, wake, owner))
        return actions

    def wanted(self) -> set[str]:
        """Every address that should have a link now."""
        if any(address in self._listed for address in self._linked):
            return set(self._listed)
        return set(self._listed) | set(self.contacts)

    @property
    def linked(self) -> dict[str, str]:
        """address → name of every worker whose link is up."""
        return dict(self._linked)

    # Shards

    def owner_spoke(self, address: str, shard: int, epoch: int, now: float) -> list[SendWake]:
        """An update of a shard was applied: whoever sent its newest epoch owns it."""
        worker = self._linked.get(address)
        before = self._owners.get(shard, (0, ""))
        if worker is None or epoch < before[0]:
            return []
        self._owners[shard] = (epoch, worker)
        if worker == before[1]:
            return []
        actions = []
        for key, wake in self._wakes.items():
            if wake.shard == shard and address not in wake.told:
                wake.escalate_at = now + self.wake_ack_seconds
                actions.append(self._send(key, wake, address))
        return actions

    def fleet_changed(self) -> None:
        """Epochs of another fleet mean nothing."""
        self._owners.clear()

    def owner_of(self, shard: int) -> str | None:
        """Address of the linked owner of a shard; of two links the one that will last."""
        worker = self._owners.get(shard, (0, ""))[1]
        leading = [address for address, name in self._linked.items() if name == worker]
        return max(leading, key=lambda address: address in self._listed, default=None)

    # Wakes

    def wake(self, key: str, shard: int, now: float) -> list[SendWake]:
        """Somebody needs a sleeping model."""
        self._last_wake_id += 1
        wake = self._wakes[key] = _Wake(self._last_wake_id, shard)
        owner = self.owner_of(shard)
        if owner is None:
            return [self._send(key, wake, address) for address in self._linked]
        wake.escalate_at = now + self.wake_ack_seconds
        return [self._send(key, wake, owner)]

    def acknowledged(
        self, address: str, wake_id: int, *, is_owner: bool
    ) -> tuple[str | None, list[SendWake]]:
        """A worker answered a wake: the key of a wake that is settled now, and the wakes to send to others."""
        key = next((key for key, wake in self._wakes.items() if wake.wake_id == wake_id), None)
        if key is None:
            return None, []
        if is_owner:
            del self._wakes[key]
            return key, []
        del address
        return None, self._escalate(key, self._wakes[key])

    def tick(self, now: float) -> list[SendWake]:
        """Wakes that their owner did not confirm in time go to all others."""
        actions: list[SendWake] = []
        for key, wake in self._wakes.items():
            if wake.escalate_at is not None and wake.escalate_at <= now:
                actions += self._escalate(key, wake)
        return actions

    def deadline(self) -> float | None:
        """When `tick` has something to do next."""
        times = [wake.escalate_at for wake in self._wakes.values() if wake.escalate_at is not None]
        return min(times, default=None)

    def outstanding(self) -> set[str]:
        """Services whose wake no owner has confirmed."""
        return set(self._wakes)

    def unwanted(self, key: str) -> None:
        """Nobody wants this service any more: its wake is not repeated."""
        self._wakes.pop(key, None)

    def _escalate(self, key: str, wake: _Wake) -> list[SendWake]:
        wake.escalate_at = None
        return [self._send(key, wake, address) for address in self._linked if address not in wake.told]

    def _send(self, key: str, wake: _Wake, address: str) -> SendWake:
        wake.told.add(address)
        return SendWake(address, wake.wake_id, key)

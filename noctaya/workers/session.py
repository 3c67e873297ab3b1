"""One gateway's end of the control link: what it has been sent, what waits to be sent.

The outbox holds no messages but marks: which shards moved, which wakes to acknowledge, whether the list of workers changed,
whether to say goodbye. Messages are built when they are written, so that the latest wins and a slow gateway costs no memory.
Acknowledgements go first: a gateway that waits for one asks every other worker.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from noctaya.wire import control
from noctaya.workers.gateways import PodName

MAX_ACKS = 1000
"""Unsent acknowledgements; the oldest are dropped, and their gateway asks again elsewhere."""


@dataclass(slots=True)
class Session:
    """A link that has said Hello."""

    number: int
    pod: PodName
    boot_id: str
    sent: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Shard → (epoch, version) that the gateway holds, or has been sent."""
    acknowledged: dict[int, tuple[int, int]] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    is_draining: bool = False
    _has_workers: bool = False
    _shards: set[int] = field(default_factory=set)
    _acks: OrderedDict[int, bool] = field(default_factory=OrderedDict)

    def mark(self, shards: Iterable[int]) -> None:
        """These shards moved, or may be told now."""
        self._shards.update(shards)
        self.changed.set()

    def acknowledge(self, wake_id: int, *, is_owner: bool) -> None:
        """Answer a wake."""
        self._acks[wake_id] = is_owner
        while len(self._acks) > MAX_ACKS:
            self._acks.popitem(last=False)
        self.changed.set()

    def tell_workers(self) -> None:
        """The list of workers changed."""
        self._has_workers = True
        self.changed.set()

    def drain(self) -> None:
        """Tell the gateway that this worker leaves."""
        self.is_draining = True
        self.changed.set()

    def forget(self, shard: int) -> None:
        """The gateway does not hold what we thought: the next update of this shard is a snapshot."""
        self.sent.pop(shard, None)
        self.mark([shard])

    def base(self, shard: int, epoch: int) -> int:
        """The version upon which an update may build; 0 for none."""
        held_epoch, version = self.sent.get(shard, (0, 0))
        return version if held_epoch == epoch else 0

    def take_ack(self) -> control.WorkerMessage | None:
        """The oldest unsent acknowledgement."""
        if not self._acks:
            return None
        wake_id, is_owner = self._acks.popitem(last=False)
        return control.WorkerMessage(wake_ack=control.WakeAck(wake_id=wake_id, is_owner=is_owner))

    def take_workers(self) -> bool:
        """Whether the list of workers is to be told."""
        had, self._has_workers = self._has_workers, False
        return had

    def take_shard(self) -> int | None:
        """A shard that moved."""
        return self._shards.pop() if self._shards else None

"""The shell of `Tenure`: one Lease read and written as the core asks.

A write is hedged (sharding.md 2.2): without an answer after `HEDGE_SECONDS` the very same bytes are sent again on another
connection, so that neither a slow API server nor a dead connection costs the tenure. A conflict is no refusal when the Lease
holds exactly what we wrote, to the microsecond of `renewTime`: one of the two was accepted, and it counts from the first send.

It runs as a task of one loop, on a client of its own: a loop that stalls loses the tenure, which is safe.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Protocol

import msgspec

from noctaya.kube.clock import boottime
from noctaya.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from noctaya.kube.objects import Lease, LeaseSpec, Metadata, format_micro_time
from noctaya.leader.tenure import (
    Accepted,
    Action,
    Event,
    HigherEpochSeen,
    LeaseView,
    Leaving,
    Read,
    Refused,
    Seen,
    Standing,
    Tenure,
    Tick,
    Unreachable,
    Write,
)
from noctaya.telemetry import context

log = logging.getLogger(__name__)

ATTEMPT_SECONDS = 3.0
"""Of a write and its hedge together: from a renewal's due time to the self-deadline there is room for this and one more try."""
HEDGE_SECONDS = 1.0
DURATION_SECONDS = 10
"""Published in the Lease: by then a takeover is over."""


class LeaseAccess(Protocol):
    """What of `noctaya.kube.leases.Leases` is used."""

    async def read(self, name: str) -> Lease: ...
    async def create(self, lease: Lease) -> Lease: ...
    async def replace(self, lease: Lease) -> Lease: ...


class Renewal:
    """Keeps `tenure` by the Lease `namespace/name`; `on_change` is called whenever standing or epoch changed."""

    def __init__(
        self,
        tenure: Tenure,
        leases: LeaseAccess,
        *,
        namespace: str,
        name: str,
        on_change: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = boottime,
    ) -> None:
        self.tenure = tenure
        self.problem: Exception | None = None
        """Why an attempt had no answer; None when all is well. A write that was refused is not made good by a read."""
        self._leases = leases
        self._namespace = namespace
        self._name = name
        self._on_change = on_change
        self._clock = clock
        self._lease: Lease | None = None
        self._unwritable: str | None = None
        """The version of the Lease (empty for none) that we failed to write, until a write succeeds or another one is seen."""
        self._nudge = asyncio.Event()
        self._last: tuple[Standing, int] = (Standing.NONE, 0)

    async def run(self) -> None:
        """Acquire, keep and, when lost, acquire again, until cancelled. Cancelling releases nothing: call `leave`."""
        while True:
            await self._perform(Tick())
            self._nudge.clear()
            await self._sleep()
            self._announce()  # the deadline may have passed without any event

    def see_epoch(self, epoch: int) -> None:
        """A status or a gateway carries `epoch`; above our own, standing is NONE until a write has decided."""
        self._feed(HigherEpochSeen(epoch))
        self._nudge.set()

    async def leave(self) -> None:
        """Act no more, and release the Lease if it is ours. `run` must have ended."""
        await self._perform(Leaving())

    async def _sleep(self) -> None:
        wait = max(self.tenure.next_at - self._clock(), 0.0)
        deadline_in = self.tenure.deadline_in(self._clock())
        if deadline_in is not None:
            wait = min(wait, deadline_in)
        try:
            async with asyncio.timeout(wait):
                await self._nudge.wait()
        except TimeoutError:
            return

    async def _perform(self, event: Event) -> None:
        actions = self._feed(event)
        while actions:
            (action,) = actions
            actions = self._feed(await self._attempt(action))

    def _feed(self, event: Event) -> list[Action]:
        # Before, too: a deadline that passed while this answer was under way was seen by whoever asked in between, and what
        # they left undone waits to hear that it may be done.
        self._announce()
        actions = self.tenure.on(event, self._clock())
        self._announce()
        return actions

    async def _attempt(self, action: Action) -> Event:
        sent = self._clock()
        try:
            async with asyncio.timeout(ATTEMPT_SECONDS):
                if isinstance(action, Read):
                    self._lease = await self._leases.read(self._name)
                    event: Event = Seen(view_of(self._lease))
                else:
                    self._lease = await self._write(action)
                    event = Accepted(sent, view_of(self._lease))
        except NotFound as error:
            if isinstance(action, Read):
                event = Seen(None)
            elif action.resource_version is not None:
                event = Refused()
            else:
                event = self._unanswered(error)  # a create: it is the namespace that is missing
        except (Conflict, AlreadyExists):
            event = Refused()
        except (KubeError, TimeoutError) as error:
            event = self._unanswered(error)
            if isinstance(action, Write):
                self._unwritable = action.resource_version or ""
        else:
            self._answered(action)
        return event

    def _answered(self, action: Action) -> None:
        """A Lease that others renew is well, whatever became of our attempts to take it."""
        version = self._lease.metadata.resource_version if self._lease is not None else ""
        if isinstance(action, Write) or version != self._unwritable:
            self._unwritable = None
            self.problem = None

    def _unanswered(self, error: Exception) -> Event:
        if self.problem is None:
            log.warning("the Lease cannot be reached", extra=context(lease=self._name, error=error))
        self.problem = error
        return Unreachable()

    async def _write(self, write: Write) -> Lease:
        lease = self._to_write(write)
        first = asyncio.create_task(self._send(lease))
        tries = {first}
        try:
            await asyncio.wait(tries, timeout=HEDGE_SECONDS)
            if not first.done():
                tries.add(asyncio.create_task(self._send(lease)))
            return await self._first_good(tries, lease)
        finally:
            for attempt in tries:
                attempt.cancel()
            await asyncio.gather(*tries, return_exceptions=True)

    async def _send(self, lease: Lease) -> Lease:
        if lease.metadata.resource_version:
            return await self._leases.replace(lease)
        return await self._leases.create(lease)

    async def _first_good(self, tries: set[asyncio.Task[Lease]], lease: Lease) -> Lease:
        """The first answer that says yes. Else the last error, unless the Lease shows that one of the two was accepted."""
        waiting, error, is_refused = set(tries), None, False
        while waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for attempt in done:
                error = attempt.exception()
                if error is None:
                    return attempt.result()
                is_refused = is_refused or isinstance(error, Conflict | AlreadyExists)
        if is_refused and len(tries) > 1:
            found = await self._leases.read(self._name)
            if found.spec == lease.spec:
                return found
        assert error is not None
        raise error

    def _to_write(self, write: Write) -> Lease:
        now = format_micro_time(datetime.now(UTC))
        old = self._lease.spec if self._lease is not None else LeaseSpec()
        is_new = old.holder_identity != write.holder or old.lease_transitions != write.epoch
        spec = LeaseSpec(
            holder_identity=write.holder,
            lease_duration_seconds=DURATION_SECONDS,
            acquire_time=now if is_new else old.acquire_time,
            renew_time=now,
            lease_transitions=write.epoch,
        )
        if write.resource_version is None or self._lease is None:
            metadata = Metadata(namespace=self._namespace, name=self._name)
        else:
            metadata = msgspec.structs.replace(self._lease.metadata, resource_version=write.resource_version)
        return Lease(metadata=metadata, spec=spec)

    def _announce(self) -> None:
        current = (self.tenure.standing(self._clock()), self.tenure.epoch)
        if current == self._last:
            return
        self._last = current
        log.info(
            "tenure changed",
            extra=context(
                lease=self._name,
                standing=current[0].value,
                epoch=current[1],
                holder=self.tenure.holder or "nobody",
            ),
        )
        self._on_change()


def view_of(lease: Lease) -> LeaseView:
    """What of a Lease decides anything. An absent holder is nobody, absent transitions are zero."""
    spec = lease.spec
    return LeaseView(spec.holder_identity or "", spec.lease_transitions or 0, lease.metadata.resource_version)

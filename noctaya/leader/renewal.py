"""The shell of `Tenure` and `Membership`: one Lease read and written as the core asks.

A write is hedged (sharding.md 2.2): without an answer after `HEDGE_SECONDS` the very same bytes are sent again on another
connection, so that neither a slow API server nor a dead connection costs the tenure. A conflict is no refusal when the Lease
holds exactly what we wrote, to the microsecond of `renewTime`: one of the two was accepted, and it counts from the first send.

A write carries what the Lease says besides (labels, an operator's annotations) from the very version that it replaces: what
others wrote there in between is never undone.

It runs as a task of one loop, on a client of its own: a loop that stalls loses the tenure, which is safe.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from noctaya.kube.clock import boottime
from noctaya.kube.errors import AlreadyExists, Call, Conflict, KubeError, NotFound
from noctaya.kube.leases import micro_now
from noctaya.kube.objects import Lease, LeaseSpec, Metadata
from noctaya.leader.lease_views import DURATION_SECONDS, lease_view
from noctaya.leader.tenure import (
    Accepted,
    Action,
    Event,
    HigherEpochSeen,
    Leaving,
    Read,
    Refused,
    Seen,
    Standing,
    Tick,
    Unreachable,
    Write,
)
from noctaya.telemetry import context

log = logging.getLogger(__name__)

ATTEMPT_SECONDS = 3.0
"""Of a write and its hedge together: from a renewal's due time to the self-deadline there is room for this and one more try."""
HEDGE_SECONDS = 1.0
LOOK_AGAIN_SECONDS = 0.25
"""How often somebody who may not stand looks whether it may."""


class LeaseAccess(Protocol):
    """What of `noctaya.kube.leases.Leases` is used."""

    async def read(self, name: str) -> Lease: ...
    async def create(self, lease: Lease) -> Lease: ...
    async def replace(self, lease: Lease) -> Lease: ...


class Core(Protocol):
    """A `Tenure`, or what stands on one (`Membership`). Of its actions those that are no Read or Write go to `on_action`."""

    def on(self, event: Any, now: float) -> list[Any]: ...
    def standing(self, now: float) -> Standing: ...
    def deadline_in(self, now: float) -> float | None: ...
    @property
    def next_at(self) -> float: ...
    @property
    def epoch(self) -> int: ...
    @property
    def holder(self) -> str: ...


CoreT = TypeVar("CoreT", bound=Core)


class Renewal(Generic[CoreT]):
    """Keeps `tenure` by the Lease `namespace/name`; `on_change` is called whenever standing or epoch changed."""

    def __init__(
        self,
        tenure: CoreT,
        leases: LeaseAccess,
        *,
        namespace: str,
        name: str,
        on_change: Callable[[], None] = lambda: None,
        on_action: Callable[[Any], None] = lambda action: None,
        describe: Callable[[Metadata, Write], Metadata] = lambda metadata, write: metadata,
        may_stand: Callable[[], bool] = lambda: True,
        clock: Callable[[], float] = boottime,
    ) -> None:
        """`describe` gives what else a write leaves in the metadata: labels, annotations, owners. While `may_stand` says no,
        a Lease that is not ours is not asked for; one that is goes on being renewed.
        """
        self.tenure = tenure
        self.problem: Exception | None = None
        """Why an attempt had no answer; None when all is well. A write that was refused is not made good by a read."""
        self._leases = leases
        self._namespace = namespace
        self._name = name
        self._on_change = on_change
        self._on_action = on_action
        self._describe = describe
        self._may_stand = may_stand
        self._clock = clock
        self._asked: Action | None = None
        """A read or write that the core has asked for and that is not under way yet."""
        self._lease: Lease | None = None
        self._unwritable: str | None = None
        """The version of the Lease (empty for none) that we failed to write, until a write succeeds or another one is seen."""
        self._was_refused = False
        """Whether the write under way, or its hedge, met another version."""
        self._nudge = asyncio.Event()
        self._last: tuple[Standing, int] = (Standing.NONE, 0)

    async def run(self) -> None:
        """Acquire, keep and, when lost, acquire again, until cancelled. Cancelling releases nothing: call `leave`."""
        while True:
            if self._is_candidate():
                self._feed(Tick())
            await self._do_what_is_asked()
            self._nudge.clear()
            if self._asked is None:
                await self._sleep()
            self._announce()  # the deadline may have passed without any event

    def hear(self, event: Any) -> None:
        """Something happened outside: the watch showed the Lease, a drain was asked for. What follows is done by `run`."""
        self._feed(event)
        self._nudge.set()

    def see_epoch(self, epoch: int) -> None:
        """A status or a gateway carries `epoch`; above our own, standing is NONE until a write has decided."""
        self.hear(HigherEpochSeen(epoch))

    async def leave(self) -> None:
        """Act no more, and release the Lease if it is ours. `run` must have ended."""
        await self.perform(Leaving())

    async def perform(self, event: Any) -> None:
        """Take `event` in and do all that follows."""
        self._feed(event)
        await self._do_what_is_asked()

    def _is_candidate(self) -> bool:
        """Whether the core may try to get the Lease, or to keep what it has of it."""
        return self.tenure.standing(self._clock()) is not Standing.NONE or self._may_stand()

    async def _do_what_is_asked(self) -> None:
        while (action := self._asked) is not None:
            self._asked = None
            self._feed(await self._attempt(action))

    async def _sleep(self) -> None:
        wait = max(self.tenure.next_at - self._clock(), 0.0) if self._is_candidate() else LOOK_AGAIN_SECONDS
        deadline_in = self.tenure.deadline_in(self._clock())
        if deadline_in is not None:
            wait = min(wait, deadline_in)
        try:
            async with asyncio.timeout(wait):
                await self._nudge.wait()
        except TimeoutError:
            return

    def _feed(self, event: Any) -> None:
        # Before, too: a deadline that passed while this answer was under way was seen by whoever asked in between, and what
        # they left undone waits to hear that it may be done.
        self._announce()
        for action in self.tenure.on(event, self._clock()):
            if isinstance(action, Read | Write):
                self._asked = action
            else:
                self._on_action(action)
        self._announce()

    async def _attempt(self, action: Action) -> Event:
        sent = self._clock()
        if isinstance(action, Write) and action.holder and not self._is_candidate():
            return Unreachable()  # the watch showed a Lease that is free, or the answer to a read came late
        try:
            async with asyncio.timeout(ATTEMPT_SECONDS):
                if isinstance(action, Read):
                    self._lease = await self._leases.read(self._name)
                    event: Event = Seen(lease_view(self._lease))
                else:
                    self._lease = await self._write(action)
                    event = Accepted(sent, lease_view(self._lease))
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
            if isinstance(action, Write) and self._was_refused:
                # By one of the two; the other one's fate is a matter for the next read. Asked for again as it was, this write
                # would be refused again, for as long as the server takes so long.
                return Refused()
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
        self._was_refused = False
        lease = self._to_write(write, await self._replaced(write))
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

    async def _replaced(self, write: Write) -> Lease | None:
        """What `write` replaces, whole; None for a Lease that is to be made.

        The core may know a version from the watch that was never read here: written from an older copy, the new Lease would
        undo what somebody else changed in it.
        """
        version = write.resource_version
        if version is None:
            return None
        if self._lease is None or self._lease.metadata.resource_version != version:
            self._lease = await self._leases.read(self._name)
        if self._lease.metadata.resource_version != version:
            raise Conflict(Call("update", f"leases {self._name}"), f"it is not at version {version} any more")
        return self._lease

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
                self._was_refused = is_refused
        if is_refused and len(tries) > 1:
            found = await self._leases.read(self._name)
            if found.spec == lease.spec:
                return found
        assert error is not None
        raise error

    def _to_write(self, write: Write, replaced: Lease | None) -> Lease:
        now = micro_now()
        old = replaced.spec if replaced is not None else LeaseSpec()
        is_new = old.holder_identity != write.holder or old.lease_transitions != write.epoch
        spec = LeaseSpec(
            holder_identity=write.holder,
            lease_duration_seconds=DURATION_SECONDS,
            acquire_time=now if is_new else old.acquire_time,
            renew_time=now,
            lease_transitions=write.epoch,
        )
        metadata = (
            replaced.metadata
            if replaced is not None
            else Metadata(namespace=self._namespace, name=self._name)
        )
        return Lease(metadata=self._describe(metadata, write), spec=spec)

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

"""This worker's membership: the shell of `leader/membership.py`, its Lease, and what it says about itself there."""

from __future__ import annotations

import secrets
from collections.abc import Callable

import msgspec

from noctaya.kube.clock import boottime
from noctaya.kube.leases import Leases
from noctaya.kube.metadata import Metadata
from noctaya.leader.lease_names import member_lease
from noctaya.leader.lease_views import member_metadata
from noctaya.leader.member_record import MemberRecord, MemberState
from noctaya.leader.membership import Began, Departed, DrainAsked, Ended, Membership, Synced
from noctaya.leader.renewal import Renewal
from noctaya.leader.tenure import Identity, Standing, Timing, Watched, Write
from noctaya.workers.settings import PodSettings


class Member:
    """See the module.

    `record()` gives what the Lease should say besides the state; `on_began` hears the incarnation that goes on from now
    (empty: none does), `on_state` every state that follows, `on_change` that the standing changed.
    """

    def __init__(
        self,
        pod: PodSettings,
        leases: Leases,
        timing: Timing,
        *,
        view_deadline: float,
        record: Callable[[], MemberRecord],
        on_began: Callable[[str], None],
        on_state: Callable[[MemberState], None],
        on_change: Callable[[], None],
        clock: Callable[[], float] = boottime,
    ) -> None:
        self.core = Membership(
            pod.name, pod.uid, timing, nonce=lambda: secrets.token_hex(4), view_deadline=view_deadline
        )
        self.renewal = Renewal(
            self.core,
            leases,
            namespace=pod.namespace,
            name=member_lease(pod.name),
            describe=self._describe,
            on_action=self._act,
            on_change=self._changed,
            clock=clock,
        )
        self._pod = pod
        self._record = record
        self._on_began = on_began
        self._on_state = on_state
        self._on_change = on_change
        self._clock = clock
        self._state = self.core.state

    @property
    def incarnation(self) -> str:
        """Of this moment, whether it has its Lease already or not."""
        return str(self.core.identity)

    @property
    def identity(self) -> Identity:
        """The same, as the object that stays the same for as long as the incarnation lives."""
        return self.core.identity

    @property
    def lease(self) -> str:
        """The name of its Lease."""
        return member_lease(self._pod.name)

    @property
    def problem(self) -> Exception | None:
        """Why the Lease could not be read or written just now; None when all is well."""
        return self.renewal.problem

    def standing(self, now: float) -> Standing:
        """What the present incarnation may do."""
        return self.core.standing(now)

    def synced(self) -> None:
        """Every cache is filled."""
        self._hear(Synced())

    def watched(self, event: Watched) -> None:
        """The watch of the Leases showed our own."""
        self._hear(event)

    def drain(self) -> None:
        """The process was told to end."""
        self._hear(DrainAsked())

    async def run(self) -> None:
        """Join, and stay a member, until cancelled. Cancelling releases nothing: `leave` does."""
        await self.renewal.run()

    async def leave(self) -> None:
        """Release the Lease: everything is handed over or given up. `run` must have ended."""
        await self.renewal.perform(Departed())

    def _hear(self, event: Synced | Watched | DrainAsked) -> None:
        self.renewal.hear(event)
        self._note_state()

    def _act(self, action: object) -> None:
        match action:
            case Ended():
                self._on_began("")
            case Began(identity):
                self._on_began(str(identity))
                self._note_state()

    def _changed(self) -> None:
        self._note_state()  # it becomes ready with the answer to its claim, if the watch was quicker
        self._on_change()

    def _note_state(self) -> None:
        state = self.core.state
        if state is not self._state:
            self._state = state
            if state is not MemberState.LEFT:
                self._on_state(state)

    def _describe(self, metadata: Metadata, write: Write) -> Metadata:
        state = self.core.state if write.holder else MemberState.LEFT
        record = msgspec.structs.replace(self._record(), state=state)
        return member_metadata(metadata, record, pod=self._pod.name, pod_uid=self._pod.uid)

"""A fleet's certificate Secrets and those who hold them, in virtual time: no keys, only who signed what and who trusts whom.

Holders read their Secret late, each by less than the overlap. After every step `check` compares every holder with every other
one: whoever's leaf is under a CA that somebody does not trust could not connect at this instant.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from noctaya.leader.certificate_views import (
    Action,
    AuthoritySeen,
    Certificate,
    LeafSeen,
    MakeAuthority,
    MakeNext,
    Promote,
    Seen,
    WriteLeaf,
)
from noctaya.leader.certificates import Certificates, CertificateTiming
from noctaya.wire.identity import Role

TIMING = CertificateTiming(authority=4000.0, leaf=900.0, overlap=100.0, look_every=10.0)


@dataclass
class Held:
    """What one process has read."""

    role: Role
    lateness: float
    issuer: str = ""
    ends: float = 0.0
    bundle: tuple[str, ...] = ()
    coming: list[tuple[float, LeafSeen]] = field(default_factory=list)

    def read(self, now: float) -> None:
        while self.coming and self.coming[0][0] <= now:
            _, leaf = self.coming.pop(0)
            if leaf.leaf is not None:  # garbage is not taken in
                self.issuer, self.ends, self.bundle = leaf.issuer, leaf.leaf.ends, leaf.bundle


class World:
    """See the module. `wall_error` is how much the leader's wall clock is ahead."""

    def __init__(self, *, workers: Iterable[float] = (0.0,), gateways: Iterable[float] = (0.0,)) -> None:
        self.now = 1_000_000.0
        self.wall_error = 0.0
        self.authority: AuthoritySeen | None = None
        self.leaves: dict[Role, LeafSeen | None] = dict.fromkeys(Role)
        self.written: list[Action] = []
        self.holders = [Held(Role.WORKER, late) for late in workers]
        self.holders += [Held(Role.GATEWAY, late) for late in gateways]
        self.core = Certificates(TIMING)
        self._made = 0
        self._version = 0

    # -- the leader ----------------------------------------------------------------------------------------------------

    def new_leader(self) -> None:
        self.core = Certificates(TIMING)

    def seen(self) -> Seen:
        return Seen(self.authority, dict(self.leaves))

    def look(self, *, writes_lost_after: int | None = None) -> tuple[str, ...]:
        """Looks until nothing is left to write; only so many writes arrive before the leader dies, where that is given."""
        left = writes_lost_after
        for _ in range(8):
            plan = self.core.look(self.seen(), self.now + self.wall_error, self.now)
            if not plan.actions:
                return plan.problems
            for action in plan.actions:
                if left is not None:
                    if left == 0:
                        self.new_leader()
                        return plan.problems
                    left -= 1
                self._perform(action)
                self.check()
        raise AssertionError(f"it writes without end: {self.written[-8:]}")

    def run(self, seconds: float, *, step: float = 10.0) -> None:
        """Time passes under a leader that looks regularly."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(self.now + step, end)
            self.check()
            self.look()

    def pass_time(self, seconds: float) -> None:
        """Time passes without any leader."""
        end = self.now + seconds
        while self.now < end:
            self.now = min(self.now + 10.0, end)
            self.check()

    def _perform(self, action: Action) -> None:
        self.written.append(action)
        self._version += 1
        version = str(self._version)
        match action:
            case MakeAuthority():
                assert action.version == (self.authority.version if self.authority else None)
                self.authority = AuthoritySeen(version, True, self._new(action.begins, action.ends))
            case MakeNext():
                assert self.authority is not None
                made = self._new(action.begins, action.ends)
                self.authority = replace(self.authority, version=version, next=made)
            case Promote():
                assert self.authority is not None
                self.authority = replace(
                    self.authority, version=version, current=self.authority.next, next=None
                )
            case WriteLeaf():
                self._write_leaf(action, version)

    def _write_leaf(self, action: WriteLeaf, version: str) -> None:
        found = self.leaves[action.role]
        assert action.version == (found.version if found else None)
        if action.ends is not None:
            assert self.authority is not None
            assert self.authority.current is not None
            made = LeafSeen(
                version,
                True,
                self._new(action.begins, action.ends),
                self.authority.current.id,
                action.bundle,
            )
        else:
            assert found is not None
            made = replace(found, version=version, bundle=action.bundle)
        self.put(action.role, made)

    def put(self, role: Role, leaf: LeafSeen) -> None:
        """The Secret holds this from now on; its holders read it when they do."""
        self.leaves[role] = leaf
        for holder in self.holders:
            if holder.role is role:
                holder.coming.append((self.now + holder.lateness, leaf))

    def _new(self, begins: float, ends: float) -> Certificate:
        self._made += 1
        return Certificate(f"certificate-{self._made}", begins, ends)

    # -- what must hold ------------------------------------------------------------------------------------------------

    def check(self) -> None:
        for holder in self.holders:
            holder.read(self.now)
        ready = [holder for holder in self.holders if holder.issuer]
        for one in ready:
            for other in ready:
                assert one.issuer in other.bundle, (
                    f"at {self.now} a {other.role.value} trusts {other.bundle} and refuses a {one.role.value} under "
                    f"{one.issuer}; written: {self.written[-6:]}"
                )

    def expired(self) -> list[Held]:
        return [holder for holder in self.holders if holder.issuer and holder.ends <= self.now]

    @property
    def current(self) -> str:
        assert self.authority is not None
        assert self.authority.current is not None
        return self.authority.current.id

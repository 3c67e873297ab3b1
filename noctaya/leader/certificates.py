"""What to write next so that every process of the fleet holds a certificate for the control link, and none stops working.

There are three Secrets: the CA with its private key (workers alone may read it), and one for each role with a leaf, its key and
the bundle of CAs that its holder trusts. A CA is replaced in steps, each a Secret's compare-and-swap, and each next one follows
from what the Secrets hold, so that any leader goes on where another one stopped:

1. *next*: a second CA, beside the one that signs. 2. Both bundles get it. 3. After `overlap` it begins to sign (*promote*).
4. Leaves are made anew under it. 5. After `overlap` the bundles lose the old one.

Invariants, provided that a holder takes a change of its own Secret in within `overlap`:
- At each instant every holder's leaf was signed by a CA that every other holder trusts. So a CA signs no leaf before all bundles
  have held it for `overlap`, and leaves no bundle before no leaf has been under it for `overlap`. A leaf that is already under a
  CA proves the former; else only what this leader has seen itself, without a gap, on its own CLOCK_BOOTTIME, counts: no clock of
  another machine, and no time written down.
- What we did not make is used and never overwritten; beside a leaf of somebody else's we make nothing.
- Nothing is valid only from now on: a certificate begins with the CA that it replaces or that signs it. So a leader whose clock
  is ahead makes none that others refuse; one whose clock is behind finds nothing due, and before the Secrets' own creation it
  makes nothing at all.

Garbage in a Secret of ours is made anew, in somebody else's it is a problem for people. Those who have it go on with what they
had. Deleting all three Secrets founds the fleet's trust anew at once, and costs the links of the seconds until all have read it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from noctaya.leader.certificate_views import (
    Action,
    AuthoritySeen,
    Certificate,
    LeafSeen,
    MakeAuthority,
    MakeNext,
    Plan,
    Promote,
    Seen,
    WriteLeaf,
)
from noctaya.leader.errors import CertificateTimingRefused
from noctaya.wire.identity import Role

DAY = 86_400.0
BACKDATE = 3_600.0
"""The first CA of a fleet begins so long before it was made: clocks of a cluster differ."""
CLOCK_TOLERANCE = 300.0
GAP_FACTOR = 3.0
"""Longer than so many `look_every` without a look, and what was seen before proves nothing about the time between."""
LEAST_GAIN = 0.1
"""A leaf is renewed only for at least this part of its lifetime: one that is cut short by its CA would be due for ever."""


@dataclass(frozen=True, slots=True)
class CertificateTiming:
    """Seconds."""

    authority: float = 365 * DAY
    leaf: float = 30 * DAY
    renew_at: float = 2 / 3
    """Of a lifetime."""
    overlap: float = 600.0
    """How long a holder may take to read a change of its Secret; kubelet needs up to two minutes."""
    look_every: float = 60.0

    def __post_init__(self) -> None:
        spare = self.leaf * (1 - self.renew_at)
        if not (
            0 < self.renew_at < 1
            and 0 < self.look_every
            and 0 < self.overlap
            and 2 * (self.overlap + self.look_every) <= spare
            and 2 * self.leaf <= self.authority
        ):
            raise CertificateTimingRefused(
                f"certificates need overlap > 0, leaf lifetimes whose last {1 - self.renew_at:.0%} hold the overlap twice, and a CA "
                f"that lives twice as long as a leaf; not CA {self.authority} s, leaf {self.leaf} s, overlap {self.overlap} s: one "
                "would end before its successor is trusted. Change NOCTAYA_TLS__… and start again."
            )


@dataclass(slots=True)
class _Steady:
    """Since when something has been seen to be so, without a gap."""

    value: Hashable = None
    since: float = 0.0

    def hold(self, value: Hashable, now: float) -> None:
        if value != self.value:
            self.value, self.since = value, now

    def seconds(self, now: float) -> float:
        return now - self.since if self.value is not None else float("-inf")


@dataclass(slots=True)
class Certificates:
    """See the module. One per tenure as leader, or `forget` between two."""

    timing: CertificateTiming = field(default_factory=CertificateTiming)
    _last_look: float = float("-inf")
    _trusted: dict[str, _Steady] = field(default_factory=dict)
    """CA → since when all bundles there are have held it."""
    _moved: _Steady = field(default_factory=_Steady)
    """Since when all leaves have been under one CA."""

    def forget(self) -> None:
        """Others may have written meanwhile: what was seen proves nothing any more."""
        self._last_look = float("-inf")
        self._trusted.clear()
        self._moved = _Steady()

    def look(self, seen: Seen, wall: float, now: float) -> Plan:
        """What follows from `seen`, read at `now` (CLOCK_BOOTTIME) and `wall` (Unix seconds)."""
        if not 0 <= now - self._last_look <= GAP_FACTOR * self.timing.look_every:
            self.forget()
        self._last_look = now
        self._observe(seen, now)
        problems = tuple(_problems(seen, wall))
        actions = () if _is_not_ours_to_keep(seen) or _is_behind(seen, wall) else self._act(seen, wall, now)
        return Plan(actions, now + self._wait(now), problems)

    # -- what was seen for how long ------------------------------------------------------------------------------------

    def _observe(self, seen: Seen, now: float) -> None:
        present = {role: leaf for role, leaf in seen.leaves.items() if leaf is not None}
        # Who has no Secret now will have one, and starts anew with reading it: that too ends what was seen before.
        who = frozenset(present)
        bundles = [set(leaf.bundle) for leaf in present.values()]
        everywhere = set.intersection(*bundles) if bundles else set()
        for gone in self._trusted.keys() - everywhere:
            del self._trusted[gone]
        for authority in everywhere:
            self._trusted.setdefault(authority, _Steady()).hold(who, now)
        issuers = {leaf.issuer if leaf is not None and leaf.leaf else "" for leaf in seen.leaves.values()}
        self._moved.hold(issuers.pop() or None if len(issuers) == 1 else None, now)

    def _may_sign(self, authority: str, seen: Seen, now: float) -> bool:
        """Whether every holder trusts `authority`."""
        present = [leaf for leaf in seen.leaves.values() if leaf is not None]
        if not present:
            return True  # the fleet's first leaves
        if any(leaf.leaf is not None and leaf.issuer == authority for leaf in present):
            return True
        return self._is_trusted(authority, now)

    def _is_trusted(self, authority: str, now: float) -> bool:
        steady = self._trusted.get(authority)
        return steady is not None and steady.seconds(now) >= self.timing.overlap

    def _has_moved(self, authority: str, now: float) -> bool:
        """Whether no holder's leaf is under another CA than `authority` any more."""
        return self._moved.value == authority and self._moved.seconds(now) >= self.timing.overlap

    def _wait(self, now: float) -> float:
        timers = [*self._trusted.values(), self._moved]
        left = [self.timing.overlap - timer.seconds(now) for timer in timers if timer.value is not None]
        return min([self.timing.look_every, *(seconds for seconds in left if seconds > 0)])

    # -- what follows --------------------------------------------------------------------------------------------------

    def _act(self, seen: Seen, wall: float, now: float) -> tuple[Action, ...]:
        authority = seen.authority
        if authority is None or authority.current is None:
            begins, ends = min([wall - BACKDATE, *_beginnings(seen)]), wall + self.timing.authority
            return (MakeAuthority(authority.version if authority else None, begins, ends),)
        if authority.is_ours and (step := self._authority_step(authority, wall, now)) is not None:
            return (step,)
        writes = (self._leaf_step(role, authority, seen, wall, now) for role in Role)
        return tuple(write for write in writes if write is not None)

    def _authority_step(self, seen: AuthoritySeen, wall: float, now: float) -> Action | None:
        assert seen.current is not None
        lifetime = self.timing.authority
        if seen.next is not None and self._is_trusted(seen.next.id, now):
            return Promote(seen.version)
        newest = seen.next or seen.current
        if self._is_due(newest, lifetime, wall):
            begins = min(wall - BACKDATE, seen.current.begins)
            return MakeNext(seen.version, begins, wall + lifetime)
        return None

    def _leaf_step(
        self, role: Role, authority: AuthoritySeen, seen: Seen, wall: float, now: float
    ) -> WriteLeaf | None:
        current = authority.current
        assert current is not None
        found = seen.leaves[role]
        bundle = self._bundle(authority, seen, now)
        ends = min(wall + self.timing.leaf, current.ends)
        if self._wants_leaf(found, current, ends, wall) and self._may_sign(current.id, seen, now):
            return WriteLeaf(role, found.version if found else None, bundle, current.begins, ends)
        if found is not None and set(found.bundle) != set(bundle):
            return WriteLeaf(role, found.version, bundle)
        return None

    def _wants_leaf(self, found: LeafSeen | None, current: Certificate, ends: float, wall: float) -> bool:
        if found is None or found.leaf is None or found.issuer != current.id:
            return True
        gain = ends - found.leaf.ends
        return self._is_due(found.leaf, self.timing.leaf, wall) and gain >= LEAST_GAIN * self.timing.leaf

    def _is_due(self, certificate: Certificate, lifetime: float, wall: float) -> bool:
        return wall >= certificate.ends - lifetime * (1 - self.timing.renew_at)

    def _bundle(self, authority: AuthoritySeen, seen: Seen, now: float) -> tuple[str, ...]:
        """The CAs that everybody should trust: those that sign or will, and until no leaf needs them, all that are there."""
        assert authority.current is not None
        wanted = [authority.current.id, *([authority.next.id] if authority.next is not None else [])]
        if not self._has_moved(authority.current.id, now):
            wanted += [each for leaf in seen.leaves.values() if leaf is not None for each in leaf.bundle]
        return tuple(dict.fromkeys(wanted))


def _is_not_ours_to_keep(seen: Seen) -> bool:
    """Leaves of two makers would not trust each other, so one that is somebody else's makes both theirs."""
    if any(leaf is not None and not leaf.is_ours for leaf in seen.leaves.values()):
        return True
    return seen.authority is not None and not seen.authority.is_ours and seen.authority.current is None


def _is_behind(seen: Seen, wall: float) -> bool:
    """Whether our clock says that the Secrets, or what is in them, are not there yet."""
    return max([seen.newest_creation, *_beginnings(seen)]) > wall + CLOCK_TOLERANCE


def _beginnings(seen: Seen) -> Iterator[float]:
    if seen.authority is not None:
        yield from (each.begins for each in (seen.authority.current, seen.authority.next) if each is not None)
    yield from (
        leaf.leaf.begins for leaf in seen.leaves.values() if leaf is not None and leaf.leaf is not None
    )


def _problems(seen: Seen, wall: float) -> Iterator[str]:
    """Sentences for whoever runs the cluster; only what does not mend itself."""
    others = [role for role, leaf in seen.leaves.items() if leaf is not None and not leaf.is_ours]
    for role in others:
        leaf = seen.leaves[role]
        assert leaf is not None
        if leaf.leaf is None:
            yield f"the {role.value}s' certificate was not made by Noctaya and cannot be used: {leaf.problem or 'garbage'}. Mend it."
        elif leaf.leaf.ends <= wall:
            yield f"the {role.value}s' certificate was not made by Noctaya and has expired. Renew it."
    if 0 < len(others) < len(Role):
        yield (
            f"only the {others[0].value}s' certificate was made by somebody else: both roles' must come from the same CA. Let that "
            "issuer make the other one too, or delete it."
        )
    authority = seen.authority
    if not others and authority is not None and not authority.is_ours:
        if authority.current is None:
            yield f"the CA was not made by Noctaya and cannot be used: {authority.problem or 'garbage'}. Mend it, or delete it."
        elif authority.current.ends <= wall:
            yield "the CA was not made by Noctaya and has expired. Put a new one in its place, or delete it."
    if not others and _is_behind(seen, wall):
        yield (
            "this machine's clock is behind the fleet's certificates: none is made or renewed. Set the clock; if it was another "
            "one that was ahead when they were made, delete the three Secrets."
        )

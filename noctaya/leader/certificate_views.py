"""What the fleet's certificate Secrets hold, as far as it decides anything, and what may be written into them.

Certificates are names and times here: `certificate_reading.py` makes views of Secrets, `certificates.py` decides on them, and
`certificate_making.py` makes Secrets of what was decided. No key is in any of these values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from noctaya.wire.identity import Role


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate that parses and whose key is there. Times are Unix seconds."""

    id: str
    begins: float
    ends: float


@dataclass(frozen=True, slots=True)
class AuthoritySeen:
    """The CA's Secret. `current` signs; None is garbage."""

    version: str
    is_ours: bool
    current: Certificate | None
    next: Certificate | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class LeafSeen:
    """The Secret of one role. `leaf` None is garbage, which includes one for another role and one that no CA known has signed."""

    version: str
    is_ours: bool
    leaf: Certificate | None
    issuer: str
    """The id of the CA that signed it; empty when no CA that we know did."""
    bundle: tuple[str, ...]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was read; None: there is no such Secret."""

    authority: AuthoritySeen | None
    leaves: Mapping[Role, LeafSeen | None]
    newest_creation: float = 0.0
    """Of the Secrets there are, by the API server's clock."""


@dataclass(frozen=True, slots=True)
class MakeAuthority:
    """A new CA that signs from now on, in place of `version`; None: there is no Secret."""

    version: str | None
    begins: float
    ends: float


@dataclass(frozen=True, slots=True)
class MakeNext:
    """A second CA beside the one that signs."""

    version: str
    begins: float
    ends: float


@dataclass(frozen=True, slots=True)
class Promote:
    """The second CA signs from now on; the private key of the first one is gone with that."""

    version: str


@dataclass(frozen=True, slots=True)
class WriteLeaf:
    """The bundle of a role's Secret, and a new leaf under the CA that signs when `ends` says until when."""

    role: Role
    version: str | None
    bundle: tuple[str, ...]
    begins: float = 0.0
    ends: float | None = None


Action = MakeAuthority | MakeNext | Promote | WriteLeaf


@dataclass(frozen=True, slots=True)
class Plan:
    """Write this, or nothing; look again at `next_at` (CLOCK_BOOTTIME), and at once after a write."""

    actions: tuple[Action, ...]
    next_at: float
    problems: tuple[str, ...] = ()

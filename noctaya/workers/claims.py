"""Who may use a name: hostnames across the fleet, aliases inside a namespace.

A service's own name and the in-cluster host names that follow from it are its by right. Anything else goes to the oldest
service that declares it (creationTimestamp, then uid, so that every worker decides alike); a younger one goes without, and
`conflicts` says so for its status. Nothing a younger service declares can take traffic from an older one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

HOST = ""
"""The scope of host names; an alias' scope is its namespace, which is never empty."""

Claim = tuple[str, str]
"""(scope, name)."""
Rank = tuple[str, str]
"""(creationTimestamp in RFC 3339 and UTC, which sorts as time does, uid): the lower is the older."""


@dataclass(slots=True)
class _Claimant:
    rank: Rank
    claims: frozenset[Claim] = field(default_factory=frozenset)


class Claims:
    """What every service claims, and who has it. A key is `namespace/name`."""

    def __init__(self, cluster_domain: str = "cluster.local") -> None:
        self._cluster_domain = cluster_domain
        self._claimants: dict[str, _Claimant] = {}
        self._by_claim: dict[Claim, set[str]] = {}

    def declare(
        self, key: str, rank: Rank, *, hostnames: Iterable[str] = (), aliases: Iterable[str] = ()
    ) -> set[str]:
        """Enter or change what `key` claims; returns the other services for which that may change something."""
        namespace = key.partition("/")[0]
        claims = frozenset(
            [(HOST, host.lower()) for host in hostnames] + [(namespace, alias) for alias in aliases]
        )
        before = self._claimants.get(key)
        if before is not None and before.rank == rank and before.claims == claims:
            return set()
        # By right: whoever has declared this service's own names loses them now that it exists.
        own = self._own(key) if before is None else frozenset()
        touched = claims | own | (before.claims if before else frozenset())
        self._unlist(key)
        self._claimants[key] = _Claimant(rank, claims)
        for claim in claims:
            self._by_claim.setdefault(claim, set()).add(key)
        return self._others(touched, key)

    def remove(self, key: str) -> set[str]:
        """`key` is gone; returns the services that may have gained by it."""
        before = self._claimants.get(key)
        if before is None:
            return set()
        self._unlist(key)
        del self._claimants[key]
        return self._others(before.claims | self._own(key), key)

    def winner(self, claim: Claim) -> str | None:
        """Who may use this name; None when nobody claims it."""
        owner = self._owner_by_right(claim)
        if owner is not None:
            return owner
        claimants = self._by_claim.get(claim, set())
        return min(claimants, key=lambda key: self._claimants[key].rank, default=None)

    def hostnames(self, key: str) -> list[str]:
        """The declared host names that `key` has."""
        return self._granted(key, HOST)

    def aliases(self, key: str) -> list[str]:
        """The declared aliases that `key` has."""
        return self._granted(key, key.partition("/")[0])

    def conflicts(self, key: str) -> str | None:
        """Which names `key` declares and does not get, in a sentence for its status; None when it gets all."""
        claimant = self._claimants.get(key)
        if claimant is None:
            return None
        lost = sorted(
            f"{name} belongs to {winner}"
            for scope, name in claimant.claims
            if (winner := self.winner((scope, name))) != key
        )
        if not lost:
            return None
        return (
            f"{'; '.join(lost)}, which is older or has it as its own name. Choose another in spec.endpoint."
        )

    def _granted(self, key: str, scope: str) -> list[str]:
        claimant = self._claimants.get(key)
        claims = claimant.claims if claimant else frozenset()
        return sorted(name for found, name in claims if found == scope and self.winner((scope, name)) == key)

    def _owner_by_right(self, claim: Claim) -> str | None:
        scope, name = claim
        if scope != HOST:
            key = f"{scope}/{name}"
            return key if key in self._claimants else None
        service, _, rest = name.partition(".")
        namespace, _, suffix = rest.partition(".")
        key = f"{namespace}/{service}"
        if key in self._claimants and suffix in ("", "svc", f"svc.{self._cluster_domain}"):
            return key
        return None

    def _own(self, key: str) -> frozenset[Claim]:
        namespace, _, name = key.partition("/")
        host = f"{name}.{namespace}"
        hosts = (host, f"{host}.svc", f"{host}.svc.{self._cluster_domain}")
        return frozenset([(namespace, name), *((HOST, found) for found in hosts)])

    def _others(self, claims: Iterable[Claim], key: str) -> set[str]:
        return {other for claim in claims for other in self._by_claim.get(claim, ())} - {key}

    def _unlist(self, key: str) -> None:
        claimant = self._claimants.get(key)
        for claim in claimant.claims if claimant else ():
            listed = self._by_claim[claim]
            listed.discard(key)
            if not listed:
                del self._by_claim[claim]

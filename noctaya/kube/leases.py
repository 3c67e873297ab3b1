"""Leases by compare-and-swap: read, create, replace, each one attempt with a deadline of its own.

Nothing is repeated and nothing is decided here: who holds what, and until when, is the elector's business, which wants to
know exactly which attempt failed. `replace` without a resourceVersion is refused, because it would overwrite whoever got
there first. A lost race raises `Conflict` (or `AlreadyExists`); an attempt that ran out of time raises `Unavailable` and
may still have happened, and its connection is closed, so that the next attempt uses another one.

Use a client of its own: renewals must not queue behind anything else.
"""

from __future__ import annotations

from datetime import UTC, datetime

from noctaya.kube.client import Client
from noctaya.kube.metadata import Metadata, format_micro_time
from noctaya.kube.objects import Lease
from noctaya.kube.resources import LEASES


class Leases:
    """The Leases of one namespace."""

    def __init__(self, client: Client, namespace: str, *, attempt_timeout_seconds: float = 3.0) -> None:
        self._client = client
        self.namespace = namespace
        self._seconds = attempt_timeout_seconds

    async def read(self, name: str) -> Lease:
        """The Lease as stored now (a quorum read). Raises NotFound."""
        return await self._client.get(LEASES, self.namespace, name, Lease, timeout_seconds=self._seconds)

    async def create(self, lease: Lease) -> Lease:
        """A Lease that must not exist yet. Raises AlreadyExists."""
        return await self._client.create(
            LEASES, self._namespace_of(lease.metadata), lease, into=Lease, timeout_seconds=self._seconds
        )

    async def replace(self, lease: Lease) -> Lease:
        """Overwrite exactly the version that `lease` was read as. Raises Conflict when it is another one by now."""
        if not lease.metadata.resource_version:
            raise ValueError(f"lease {lease.name}: replacing needs the resourceVersion it was read with")
        return await self._client.replace(
            LEASES,
            self._namespace_of(lease.metadata),
            lease.name,
            lease,
            into=Lease,
            timeout_seconds=self._seconds,
        )

    async def delete(self, lease: Lease) -> None:
        """Delete exactly the version that `lease` was read as. Raises Conflict or NotFound."""
        if not lease.metadata.resource_version:
            raise ValueError(f"lease {lease.name}: deleting needs the resourceVersion it was read with")
        await self._client.delete(
            LEASES,
            self._namespace_of(lease.metadata),
            lease.name,
            uid=lease.uid or None,
            resource_version=lease.metadata.resource_version,
            timeout_seconds=self._seconds,
        )

    def _namespace_of(self, metadata: Metadata) -> str:
        if metadata.namespace not in ("", self.namespace):
            raise ValueError(
                f"lease {metadata.name} is of namespace {metadata.namespace}, not {self.namespace}"
            )
        return self.namespace


def micro_now() -> str:
    """This moment as a MicroTime in UTC, for people who read the Lease; no decision compares it with a clock."""
    return format_micro_time(datetime.now(UTC))

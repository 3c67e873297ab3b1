"""Leases change by compare-and-swap only, within a deadline, and carry times that everyone can read."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import msgspec
import pytest

from noctaya.kube.client import Client
from noctaya.kube.errors import AlreadyExists, Conflict, NotFound, Unavailable
from noctaya.kube.leases import Leases, micro_now
from noctaya.kube.objects import Lease, LeaseSpec, Metadata, format_micro_time, format_time, parse_time
from tests.kube.fake_server import FakeServer, hang


@pytest.fixture
def leases(client: Client) -> Leases:
    return Leases(client, "noctaya-system", attempt_timeout_seconds=0.1)


def new_lease(name: str = "noctaya-leader", holder: str = "w0") -> Lease:
    spec = LeaseSpec(
        holder_identity=holder, lease_duration_seconds=10, renew_time=micro_now(), lease_transitions=0
    )
    return Lease(metadata=Metadata(name=name, labels={"a": "b"}), spec=spec)


async def test_a_lease_is_created_once(server: FakeServer, leases: Leases) -> None:
    with pytest.raises(NotFound):
        await leases.read("noctaya-leader")
    made = await leases.create(new_lease())
    assert made.metadata.resource_version
    assert await leases.read("noctaya-leader") == made
    with pytest.raises(AlreadyExists):
        await leases.create(new_lease(holder="w1"))
    sent = next(one.json for one in server.seen if one.method == "POST")
    assert (sent["apiVersion"], sent["kind"]) == ("coordination.k8s.io/v1", "Lease")
    assert sent["spec"]["leaseTransitions"] == 0


async def test_only_one_of_two_who_read_the_same_version_can_write(leases: Leases) -> None:
    seen = await leases.create(new_lease())
    mine = msgspec.structs.replace(seen, spec=msgspec.structs.replace(seen.spec, holder_identity=""))
    written = await leases.replace(mine)
    assert written.spec.holder_identity == "", "an empty holder is sent: that is how a lease is given back"
    with pytest.raises(Conflict):
        await leases.replace(seen)
    with pytest.raises(Conflict):
        await leases.delete(seen)
    await leases.delete(written)


async def test_a_blind_replace_is_refused_here(server: FakeServer, leases: Leases) -> None:
    with pytest.raises(ValueError, match="resourceVersion"):
        await leases.replace(new_lease())
    with pytest.raises(ValueError, match="resourceVersion"):
        await leases.delete(new_lease())
    elsewhere = Lease(metadata=Metadata(name="x", namespace="other", resource_version="1"))
    with pytest.raises(ValueError, match="namespace other"):
        await leases.replace(elsewhere)
    assert not server.seen


async def test_an_attempt_that_hangs_ends_and_the_next_uses_another_connection(
    server: FakeServer, leases: Leases
) -> None:
    made = await leases.create(new_lease())
    server.next(hang)
    with pytest.raises(Unavailable):
        await leases.replace(made)
    assert (await leases.replace(made)).uid == made.uid


def test_times_are_utc_and_exact() -> None:
    when = datetime(2026, 1, 2, 3, 4, 5, 60, tzinfo=timezone(timedelta(hours=-5)))
    assert format_micro_time(when) == "2026-01-02T08:04:05.000060Z"
    assert format_time(when) == "2026-01-02T08:04:05Z"
    assert parse_time(format_micro_time(when)) == when
    assert parse_time("2026-01-02T08:04:05Z") == datetime(2026, 1, 2, 8, 4, 5, tzinfo=UTC)
    with pytest.raises(ValueError, match="naive"):
        format_time(datetime(2026, 1, 2))
    with pytest.raises(ValueError, match="without a zone"):
        parse_time("2026-01-02T08:04:05")

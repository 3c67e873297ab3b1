"""The product's client under faults: deadlines hold, what may be repeated is, and what may have happened is told apart."""

from __future__ import annotations

import asyncio
import time

import pytest

from noctaya.kube.client import Client
from noctaya.kube.errors import AlreadyExists, Conflict, NotFound, Unavailable
from noctaya.kube.leases import Leases
from noctaya.kube.metadata import Metadata
from noctaya.kube.objects import Lease, LeaseSpec
from noctaya.kube.resources import CONFIGMAPS
from noctaya.kube.retry import retried
from tests.faults import ProxiedClient, Where
from tests.faults.conftest import Maps
from tests.faults.rules import WRITES, Fault

PATIENCE_SECONDS = 30.0


async def applied(client: Client, namespace: str, value: str) -> None:
    """An idempotent write, repeated until it has an answer."""
    body = {"metadata": {"name": "a"}, "data": {"k": value}}
    await retried(
        lambda: client.apply(CONFIGMAPS, namespace, "a", body, field_manager="through", force=True),
        deadline_seconds=PATIENCE_SECONDS,
        base_seconds=0.02,
        cap_seconds=0.1,
    )


@pytest.mark.parametrize("kind", ["reset", "lose_response", "status"])
async def test_an_idempotent_write_gets_through_a_bad_connection(
    through: Client, way: ProxiedClient, namespace: str, maps: Maps, kind: str
) -> None:
    fault = {
        "reset": lambda: way.reset(0.6, WRITES),
        "lose_response": lambda: way.lose_response(0.6, WRITES),
        "status": lambda: way.status(503, WRITES, 0.6),
    }[kind]()
    for number in range(10):
        await applied(through, namespace, str(number))
        assert await maps.value("a") == str(number)
    assert fault in way.faults.in_force
    counted = {"reset": "is_reset", "lose_response": "loses_response", "status": "status"}[kind]
    assert way.plans[counted] > 0


@pytest.mark.parametrize("fault", ["freeze", "black_hole"])
async def test_a_deadline_holds_whatever_the_server_does(
    through: Client, way: ProxiedClient, namespace: str, fault: str
) -> None:
    await through.list(CONFIGMAPS, namespace)  # the connection that is kept is the one that falls silent
    if fault == "freeze":
        way.freeze()
    else:
        way.black_hole()
    start = time.monotonic()
    with pytest.raises(Unavailable, match=r"within 0\.3 s"):
        await through.get(CONFIGMAPS, namespace, "a", timeout_seconds=0.3)
    with pytest.raises(Unavailable):
        await retried(
            lambda: through.get(CONFIGMAPS, namespace, "a", timeout_seconds=0.1), deadline_seconds=0.5
        )
    assert time.monotonic() - start < PATIENCE_SECONDS
    way.clear()
    with pytest.raises(NotFound):
        await through.get(CONFIGMAPS, namespace, "a")


async def test_a_create_whose_answer_was_lost_may_have_happened(
    through: Client, way: ProxiedClient, namespace: str
) -> None:
    fault = way.lose_response(where=WRITES)
    body = {"metadata": {"name": "a"}}
    with pytest.raises(Unavailable):
        await through.create(CONFIGMAPS, namespace, body)
    way.lift(fault)
    with pytest.raises(AlreadyExists):
        await through.create(CONFIGMAPS, namespace, body)


async def test_a_delete_whose_answer_was_lost_finds_nothing_the_second_time(
    through: Client, way: ProxiedClient, namespace: str, maps: Maps
) -> None:
    await maps.put("a", "1")
    fault = way.lose_response(where=WRITES)
    with pytest.raises(Unavailable):
        await through.delete(CONFIGMAPS, namespace, "a")
    way.lift(fault)
    with pytest.raises(NotFound):
        await through.delete(CONFIGMAPS, namespace, "a")


async def test_a_late_compare_and_swap_overwrites_nobody(
    through: Client, direct: Client, way: ProxiedClient, namespace: str
) -> None:
    """The write that we gave up arrives after somebody else's: it must meet another version."""
    mine, theirs = (Leases(client, namespace, attempt_timeout_seconds=0.2) for client in (through, direct))
    patient = Leases(direct, namespace, attempt_timeout_seconds=PATIENCE_SECONDS)
    made = await patient.create(Lease(metadata=Metadata(name="l"), spec=LeaseSpec(holder_identity="first")))
    late = way.late(1.0, 0.6, Where(path="/leases/"))
    with pytest.raises(Unavailable):
        await mine.replace(Lease(metadata=made.metadata, spec=LeaseSpec(holder_identity="late")))
    won = await patient.replace(Lease(metadata=made.metadata, spec=LeaseSpec(holder_identity="winner")))
    way.lift(late)
    assert way.plans["late_seconds"] == 1
    with pytest.raises(Conflict):
        await Leases(through, namespace).replace(
            Lease(metadata=made.metadata, spec=LeaseSpec(holder_identity="again"))
        )
    await _arrived(way)
    assert (await theirs.read("l")).metadata.resource_version == won.metadata.resource_version


async def _arrived(way: ProxiedClient) -> None:
    """Nothing of the client is under way any more."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while any(one.request is not None for one in way.connections):  # noqa: ASYNC110 - a tick is enough
            await asyncio.sleep(0.01)


async def test_a_refused_retry_waits_as_long_as_it_is_told(
    through: Client, way: ProxiedClient, namespace: str, maps: Maps
) -> None:
    faults: list[Fault] = [way.status(429, WRITES)]

    async def attempt() -> None:
        body = {"metadata": {"name": "a"}, "data": {"k": "1"}}
        try:
            await through.apply(CONFIGMAPS, namespace, "a", body, field_manager="through")
        finally:
            for fault in faults:
                way.lift(fault)

    start = time.monotonic()
    await retried(attempt, deadline_seconds=PATIENCE_SECONDS, base_seconds=0.01, cap_seconds=0.02)
    assert time.monotonic() - start >= 1.0
    assert await maps.value("a") == "1"

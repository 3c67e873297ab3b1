"""One request of a leader against an API server: the event that answers it, and what is stored afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import msgspec
import pytest

from noctaya.api.names import SHARD_COUNT
from noctaya.kube.client import Client, PatchType
from noctaya.kube.clock import boottime
from noctaya.kube.leases import Leases
from noctaya.kube.objects import Lease
from noctaya.kube.resources import CONFIGMAPS, LEASES
from noctaya.leader.leader_requests import PROBLEM_SECONDS, LeaderRequests
from noctaya.leader.lease_names import SHARDMAP, member_lease
from noctaya.leader.member_record import MemberRecord
from noctaya.leader.planner_events import (
    Accepted,
    FenceMember,
    MapGone,
    MapSeen,
    Probe,
    ProbeAnswered,
    ReadMap,
    Refused,
    Unreachable,
    WriteMap,
)
from noctaya.leader.shard_map import ShardMap
from tests.conformance.server import Server
from tests.leader.leading_fleet import WAIT_SECONDS, LeadingFleet, new_namespace, patient

EPOCH = 3
MAP = ShardMap(generation=7, leader_epoch=EPOCH, desired=("w0",) * SHARD_COUNT)


@pytest.fixture
async def fleet(api_server: Server, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[LeadingFleet]:
    patient(monkeypatch)
    async with Client(
        api_server.config, user_agent="requests", request_timeout_seconds=WAIT_SECONDS
    ) as client:
        yield LeadingFleet(client, await new_namespace(client))


async def answers(incarnation: str, address: str) -> bool:
    del address
    return incarnation == "w1_uid_1"


def requests_of(
    fleet: LeadingFleet,
    leases: Leases | None = None,
    namespace: str = "",
    clock: Callable[[], float] = boottime,
) -> LeaderRequests:
    """As a leader under `EPOCH` makes them."""
    where = namespace or fleet.namespace
    return LeaderRequests(
        leases or Leases(fleet.client, where),
        fleet.client,
        where,
        acts_under=lambda epoch: epoch == EPOCH,
        probe=answers,
        clock=clock,
    )


async def version_of(fleet: LeadingFleet) -> str:
    stored = await fleet.stored_map()
    return stored.metadata.resource_version if stored is not None else ""


async def test_a_map_is_made_read_and_replaced(fleet: LeadingFleet) -> None:
    requests = requests_of(fleet)
    assert await requests.carry_out(ReadMap(1), EPOCH) == MapGone(1)
    made = await requests.carry_out(WriteMap(2, MAP, None), EPOCH)
    stored = await fleet.stored_map()
    assert stored is not None
    assert made == Accepted(2, stored.metadata.resource_version, stored.uid)
    following = msgspec.structs.replace(MAP, generation=8)
    replaced = await requests.carry_out(WriteMap(3, following, stored.metadata.resource_version), EPOCH)
    assert replaced == Accepted(3, await version_of(fleet), stored.uid)
    seen = await requests.carry_out(ReadMap(4), EPOCH)
    assert seen == MapSeen(stored.uid, await version_of(fleet), following, request=4)
    assert requests.problem == ""


async def test_a_map_that_is_there_or_has_changed_or_is_gone_refuses(fleet: LeadingFleet) -> None:
    requests = requests_of(fleet)
    before = await fleet.put_map({"some": "map"})
    assert await requests.carry_out(WriteMap(1, MAP, None), EPOCH) == Refused(1)
    await fleet.put_map({"another": "map"})
    stale = before.metadata.resource_version
    assert await requests.carry_out(WriteMap(2, MAP, stale), EPOCH) == Refused(2)
    stored = await fleet.stored_map()
    assert stored is not None
    assert stored.data == {"another": "map"}
    await fleet.client.delete(CONFIGMAPS, fleet.namespace, SHARDMAP)
    assert await requests.carry_out(WriteMap(3, MAP, stale), EPOCH) == Refused(3)
    assert await fleet.stored_map() is None
    assert requests.problem == ""


async def test_a_map_that_cannot_be_written_is_a_problem_until_it_can(fleet: LeadingFleet) -> None:
    requests = requests_of(fleet)
    body = {"metadata": {"name": SHARDMAP}, "data": {"some": "map"}, "immutable": True}
    await fleet.client.create(CONFIGMAPS, fleet.namespace, body)
    frozen = await version_of(fleet)
    assert await requests.carry_out(WriteMap(1, MAP, frozen), EPOCH) == Unreachable(1)
    assert f"update configmaps {fleet.namespace}/{SHARDMAP}" in requests.problem
    assert isinstance(await requests.carry_out(ReadMap(2), EPOCH), MapSeen)
    assert "update configmaps" in requests.problem, "a read makes no write good"
    await fleet.client.delete(CONFIGMAPS, fleet.namespace, SHARDMAP)
    assert isinstance(await requests.carry_out(WriteMap(3, MAP, None), EPOCH), Accepted)
    assert requests.problem == ""


async def test_a_problem_of_what_nobody_asks_for_any_more_is_over_after_a_while(fleet: LeadingFleet) -> None:
    now = [100.0]
    requests = requests_of(fleet, namespace="noctaya-nowhere", clock=lambda: now[0])
    for _ in range(3):
        assert await requests.carry_out(WriteMap(1, MAP, None), EPOCH) == Unreachable(1)
        now[0] += PROBLEM_SECONDS - 0.5
        assert "create configmaps" in requests.problem, "whoever wants it repeats it sooner than that"
    now[0] += 1.0
    assert requests.problem == ""


async def test_a_namespace_that_is_missing_is_a_problem_and_no_race_that_was_lost(
    fleet: LeadingFleet,
) -> None:
    requests = requests_of(fleet, namespace="noctaya-nowhere")
    assert await requests.carry_out(ReadMap(1), EPOCH) == MapGone(1)
    assert await requests.carry_out(WriteMap(2, MAP, None), EPOCH) == Unreachable(2)
    assert f"create configmaps noctaya-nowhere/{SHARDMAP}" in requests.problem


@pytest.mark.parametrize("epoch", [None, EPOCH - 1, EPOCH + 1])
async def test_what_was_asked_for_under_another_tenure_is_not_written(
    fleet: LeadingFleet, epoch: int | None
) -> None:
    await fleet.join("w0")
    await fleet.put_map({"some": "map"})
    requests, member, version = requests_of(fleet), await fleet.member("w0"), await version_of(fleet)
    fence = fence_of(member, 2)
    assert await requests.carry_out(WriteMap(1, MAP, version), epoch) == Unreachable(1)
    assert await requests.carry_out(fence, epoch) == Unreachable(2)
    assert (await version_of(fleet), await fleet.member("w0")) == (version, member)
    await fleet.client.delete(CONFIGMAPS, fleet.namespace, SHARDMAP)
    assert await requests.carry_out(WriteMap(3, MAP, None), epoch) == Unreachable(3)
    assert await fleet.stored_map() is None
    assert requests.problem == "", "that a leader steps down is no problem"


def fence_of(lease: Lease, request: int, record: MemberRecord | None = None) -> FenceMember:
    record = (record or MemberRecord()).fenced("silent")
    return FenceMember(request, "w0", "w0_uid_1", lease.metadata.resource_version, record)


async def renew(fleet: LeadingFleet) -> None:
    patch = {"metadata": {"annotations": {"renewed": "yes"}}}
    await fleet.client.patch(LEASES, fleet.namespace, member_lease("w0"), patch, PatchType.MERGE)


async def test_a_fence_hits_what_was_observed_and_nothing_that_came_after(fleet: LeadingFleet) -> None:
    await fleet.join("w0")
    requests, observed = requests_of(fleet), await fleet.member("w0")
    await renew(fleet)
    assert await requests.carry_out(fence_of(observed, 1), EPOCH) == Refused(1)
    renewed = await fleet.member("w0")
    assert renewed.spec.holder_identity == "w0_uid_1"
    accepted = await requests.carry_out(fence_of(renewed, 2), EPOCH)
    fenced = await fleet.member("w0")
    assert accepted == Accepted(2, fenced.metadata.resource_version)
    assert fenced.spec.holder_identity == ""
    await fleet.client.delete(LEASES, fleet.namespace, member_lease("w0"))
    assert await requests.carry_out(fence_of(fenced, 3), EPOCH) == Refused(3)


class RacingLeases(Leases):
    """The member renews between our read and our write."""

    fleet: LeadingFleet

    async def read(self, name: str) -> Lease:
        found = await super().read(name)
        await renew(self.fleet)
        return found


async def test_a_member_that_renews_at_the_last_moment_is_not_fenced(fleet: LeadingFleet) -> None:
    await fleet.join("w0")
    leases = RacingLeases(fleet.client, fleet.namespace)
    leases.fleet = fleet
    observed = await fleet.member("w0")
    assert await requests_of(fleet, leases).carry_out(fence_of(observed, 1), EPOCH) == Refused(1)
    assert (await fleet.member("w0")).spec.holder_identity == "w0_uid_1"


async def test_a_record_that_must_not_be_written_is_a_problem_and_no_defect(fleet: LeadingFleet) -> None:
    await fleet.join("w0")
    requests, observed = requests_of(fleet), await fleet.member("w0")
    garbage = MemberRecord(address="x" * 1000)
    assert await requests.carry_out(fence_of(observed, 1, garbage), EPOCH) == Unreachable(1)
    assert "address" in requests.problem
    assert await fleet.member("w0") == observed


async def test_a_probe_says_whether_that_very_incarnation_answers(fleet: LeadingFleet) -> None:
    requests = requests_of(fleet)
    for incarnation, is_alive in (("w1_uid_1", True), ("w1_uid_2", False)):
        found = await requests.carry_out(Probe("w1", incarnation, "w1:9443"), EPOCH)
        assert found == ProbeAnswered("w1", incarnation, is_alive)


async def test_a_probe_without_an_answer_is_given_up(
    fleet: LeadingFleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("noctaya.leader.leader_requests.PROBE_SECONDS", 0.05)

    async def never(incarnation: str, address: str) -> bool:
        await asyncio.Event().wait()
        return True

    requests = LeaderRequests(
        Leases(fleet.client, fleet.namespace), fleet.client, fleet.namespace, acts_under=bool, probe=never
    )
    found = await requests.carry_out(Probe("w1", "w1_uid_1", "w1:9443"), EPOCH)
    assert found == ProbeAnswered("w1", "w1_uid_1", is_alive=False)

"""The planner's shell against an API server: maps that are claimed, written and left alone, members that are fenced."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from noctaya.api.names import HASH_NAME, SHARD_COUNT
from noctaya.kube.client import Client
from noctaya.kube.objects import Lease
from noctaya.kube.resources import CONFIGMAPS, LEASES
from noctaya.leader.leading import Leading
from noctaya.leader.lease_names import LABEL_ROLE, LEADER_LEASE, ROLE_LEADER, SHARDMAP
from noctaya.leader.member_record import MemberState, read_record
from noctaya.leader.membership import rank_of
from noctaya.leader.planner_events import Accepted, BecameLeader, LostLeadership, Refused, Unreachable
from noctaya.leader.shard_map import ShardMap, read_map
from tests.conformance.server import Server
from tests.faults import FaultProxy, ProxiedClient, Where
from tests.faults.beside import running
from tests.leader.leading_fleet import WAIT_SECONDS, LeadingFleet, LeadWorker, new_namespace, patient, until

FOUNDED = {"shards": str(SHARD_COUNT), "hash": HASH_NAME}
MAP_WRITES = Where(path="/configmaps", methods=frozenset({"PUT", "POST"}))
FENCES = Where(path="/leases/noctaya-worker-", methods=frozenset({"PUT"}))


@pytest.fixture
async def fleet(api_server: Server) -> AsyncIterator[LeadingFleet]:
    async with Client(
        api_server.config, user_agent="leading", request_timeout_seconds=WAIT_SECONDS
    ) as client:
        fleet = LeadingFleet(client, await new_namespace(client))
        async with running(fleet.live()):
            yield fleet


@pytest.fixture
async def way(api_server: Server) -> AsyncIterator[ProxiedClient]:
    """To the API server through faults."""
    async with FaultProxy(api_server.config, seed=5) as proxy:
        yield await proxy.client("leader")


def is_assigned(worker: LeadWorker, *pods: str) -> bool:
    return worker.map is not None and set(worker.map.desired) == set(pods)


async def test_a_new_leader_claims_the_map_and_assigns_every_shard_and_all_workers_hear_of_it(
    fleet: LeadingFleet,
) -> None:
    notes: dict[str, dict[str, str]] = {
        "labels": {"team": "ours"},
        "annotations": {"example.com/note": "kept"},
    }
    founded = await fleet.put_map(FOUNDED, **notes)
    await fleet.join("w0", "w1")
    async with fleet.worker("w0") as first, fleet.worker("w1") as second:
        await until(lambda: is_assigned(first, "w0", "w1") and second.map == first.map)
        assert (first.acts, second.acts) == (True, False)
        stored = await fleet.stored_map()
        assert stored is not None
        assert (stored.uid, first.maps[-1][0], second.maps[-1][0]) == (founded.uid,) * 3
        assert read_map(stored.data) == first.map
        assert read_map(stored.data).leader_epoch == first.tenure.epoch
        assert stored.metadata.labels == notes["labels"]
        assert stored.metadata.annotations == notes["annotations"]
        assert (first.leading.problem, first.leading.map_problem) == ("", "")
        lease = await fleet.client.get(LEASES, fleet.namespace, LEADER_LEASE, Lease)
        assert lease.metadata.labels[LABEL_ROLE] == ROLE_LEADER


async def test_a_map_is_told_once_however_often_it_is_shown(fleet: LeadingFleet) -> None:
    await fleet.put_map(FOUNDED)
    await fleet.join("w0")
    async with fleet.worker("w0") as worker:
        await until(lambda: is_assigned(worker, "w0"))
        told = list(worker.maps)
        await worker.ticks(4)
        assert worker.maps == told
        assert [map_.generation for _, map_ in told] == sorted({map_.generation for _, map_ in told})


async def test_a_map_that_is_deleted_is_made_anew_under_a_new_fleet_with_the_same_owners(
    fleet: LeadingFleet,
) -> None:
    founded = await fleet.put_map(FOUNDED)
    await fleet.join("w0")
    async with fleet.worker("w0") as worker:
        await until(lambda: is_assigned(worker, "w0"))
        before = worker.map
        await fleet.client.delete(CONFIGMAPS, fleet.namespace, SHARDMAP)
        await until(lambda: worker.maps[-1][0] != founded.uid)
        stored = await fleet.stored_map()
        assert stored is not None
        assert worker.maps[-1][0] == stored.uid
        assert before is not None
        assert read_map(stored.data).desired == before.desired


async def test_the_next_leader_goes_on_from_its_predecessors_map(fleet: LeadingFleet) -> None:
    await fleet.put_map(FOUNDED)
    await fleet.join("w0", "w1")
    async with AsyncExitStack() as stack:
        async with fleet.worker("w0") as first:
            await until(lambda: is_assigned(first, "w0", "w1"))
            second = await stack.enter_async_context(fleet.worker("w1"))
            await until(lambda: second.map == first.map)
        before = second.map
        assert before is not None
        await until(lambda: second.acts and second.leading.planner.is_leading)
        assert second.map is not None
        assert second.map.leader_epoch == second.tenure.epoch > before.leader_epoch
        assert second.map.desired == before.desired


async def test_a_silent_member_is_fenced_on_exactly_what_was_seen_and_its_shards_move(
    fleet: LeadingFleet,
) -> None:
    await fleet.put_map(FOUNDED)
    await fleet.join("w0", "w1", "w2")
    async with fleet.worker("w0") as leader, fleet.worker("w1") as other:
        await until(lambda: is_assigned(leader, "w0", "w1", "w2"))
        fleet.silent.add("w2")
        await until(lambda: is_assigned(other, "w0", "w1"))
        lease = await fleet.member("w2")
        record = read_record(lease.metadata.annotations)
        assert lease.spec.holder_identity == ""
        assert (record.state, record.address, record.shards) == (MemberState.FENCED, "w2:9443", 0)
        assert record.reason.startswith("fenced by w0: ")
        assert lease.metadata.annotations["example.com/note"] == "mine"
        assert [(await fleet.member(pod)).spec.holder_identity for pod in ("w0", "w1")] == [
            fleet.incarnation("w0"),
            fleet.incarnation("w1"),
        ]


async def test_when_most_seem_silent_they_are_probed_by_name_and_address_and_who_answers_is_not_fenced(
    fleet: LeadingFleet,
) -> None:
    await fleet.put_map(FOUNDED)
    await fleet.join("w0", "w1", "w2")
    async with fleet.worker("w0") as leader:
        await until(lambda: is_assigned(leader, "w0", "w1", "w2"))
        fleet.silent |= {"w1", "w2"}
        await until(lambda: {("w1_uid_1", "w1:9443"), ("w2_uid_1", "w2:9443")} <= set(leader.probed))
        probes = len(leader.probed)
        await until(
            lambda: len(leader.probed) >= probes + 2
        )  # silent again for long enough, and probed again
        for pod in ("w1", "w2"):
            assert (await fleet.member(pod)).spec.holder_identity == fleet.incarnation(pod)
        leader.answer_probes = False
        await until(lambda: is_assigned(leader, "w0"))


async def test_a_foreign_map_is_refused_shown_and_never_written(fleet: LeadingFleet) -> None:
    foreign = await fleet.put_map({"shards": "64", "hash": "another"})
    await fleet.join("w0")
    async with fleet.worker("w0") as worker:
        await until(lambda: worker.leading.map_problem and worker.leading.planner.epoch is not None)
        assert "shards is '64'" in worker.leading.map_problem
        await worker.ticks(6)
        assert await fleet.stored_map() == foreign
        assert worker.maps == []
        await fleet.put_map(FOUNDED)  # and it was ready to write all the time
        await until(lambda: is_assigned(worker, "w0"))
        assert worker.leading.map_problem == ""


@pytest.mark.parametrize(
    "garbage", [{"desired": "nonsense"}, {"generation": "-1"}, {"leaderEpoch": "9" * 20}]
)
async def test_a_garbage_map_is_refused_and_written_anew(
    fleet: LeadingFleet, garbage: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "noctaya.leader.leading")
    await fleet.put_map(FOUNDED)
    await fleet.join("w0")
    async with fleet.worker("w0") as worker:
        await until(lambda: is_assigned(worker, "w0"))
        before = worker.map
        told = len(worker.maps)
        await fleet.put_map({**FOUNDED, **garbage})
        await until(lambda: len(worker.maps) > told)
        assert before is not None
        assert worker.map is not None
        assert (worker.map.desired, worker.map.supersedes(before)) == (before.desired, True)
        assert all(map_.desired for _, map_ in worker.maps[told:])
    assert any("refused" in text for text in told_of(caplog, "map"))


async def test_a_map_under_a_higher_epoch_makes_a_leader_step_down_and_lead_above_it(
    fleet: LeadingFleet,
) -> None:
    await fleet.put_map(FOUNDED)
    await fleet.join("w0")
    async with fleet.worker("w0") as worker:
        await until(lambda: is_assigned(worker, "w0"))
        assert worker.map is not None
        above = ShardMap(generation=worker.map.generation + 1, leader_epoch=40, desired=worker.map.desired)
        await fleet.put_map(above.data())
        await until(lambda: worker.map is not None and worker.map.leader_epoch > 40)
        assert worker.tenure.epoch == 41
        assert worker.heard(LostLeadership) >= 1


@pytest.mark.parametrize(
    ("where", "said"),
    [
        (MAP_WRITES, "update configmaps"),
        (Where(path="/configmaps"), "get configmaps"),
        (FENCES, "update leases"),
    ],
    ids=["writing the map", "everything about maps", "fencing"],
)
async def test_a_right_that_is_missing_is_named_until_it_is_there(
    fleet: LeadingFleet, way: ProxiedClient, where: Where, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("noctaya.leader.leader_requests.PROBLEM_SECONDS", 2.0)
    await fleet.put_map(FOUNDED)
    await fleet.join("w0", "w1", "w2")
    way.status(403, where)
    async with Client(way.config, user_agent="leader") as client, fleet.worker("w0", client) as leader:
        if where is FENCES:
            await until(lambda: is_assigned(leader, "w0", "w1", "w2"))
            fleet.silent.add("w2")
        await until(lambda: said in leader.leading.problem)
        await leader.ticks(4)
        assert said in leader.leading.problem
        assert leader.leading.planner.epoch is not None, "a leader stays one, and tries again"
        way.clear()
        fleet.silent.add("w2")
        await until(lambda: is_assigned(leader, "w0", "w1") and not leader.leading.problem)


async def test_an_api_server_that_does_not_answer_is_a_problem_while_it_does_not(
    fleet: LeadingFleet, way: ProxiedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("noctaya.leader.leader_requests.REQUEST_SECONDS", 0.3)
    await fleet.put_map(FOUNDED)
    await fleet.join("w0")
    async with Client(way.config, user_agent="leader") as client, fleet.worker("w0", client) as leader:
        await until(lambda: is_assigned(leader, "w0"))
        fault = way.black_hole()
        await fleet.join("w1")
        await until(lambda: "no answer within 0.3 s" in leader.leading.problem)
        monkeypatch.setattr("noctaya.leader.leader_requests.REQUEST_SECONDS", 3.0)
        way.lift(fault)
        await until(lambda: is_assigned(leader, "w0", "w1") and not leader.leading.problem)


class LapsingClient(Client):
    """While it reads the map, the leader's tenure is cut off and ends."""

    leader: LeadWorker | None = None

    async def get(self, *args: Any, **options: Any) -> Any:
        found = await super().get(*args, **options)
        if (leader := self.leader) is not None and leader.acts:
            leader.tenure_leases.is_down = True
            await until(lambda: not leader.acts)
        return found


class CarelessLeading(Leading):
    """The rule is switched off: it does not ask whether it may write."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._requests._acts_under = lambda epoch: True


async def writes_after_its_tenure(fleet: LeadingFleet, server: Server, make: type[Leading]) -> bool:
    """Whether a leader wrote the map whose tenure ended while it was about to."""
    await fleet.put_map(FOUNDED)
    await fleet.join("w0")
    client = LapsingClient(server.config, user_agent="lapsing")
    async with client, fleet.worker("w0", client, make=make) as leader:
        await until(lambda: is_assigned(leader, "w0"))
        before = await fleet.stored_map()
        answers = leader.heard(Accepted, Refused, Unreachable)
        client.leader = leader
        await fleet.join("w1")
        await until(lambda: leader.heard(LostLeadership))
        await until(lambda: leader.heard(Accepted, Refused, Unreachable) > answers)
        return await fleet.stored_map() != before


async def test_a_leader_whose_tenure_ended_while_it_was_about_to_write_writes_nothing(
    fleet: LeadingFleet, api_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    patient(monkeypatch)
    assert not await writes_after_its_tenure(fleet, api_server, Leading)


async def test_without_that_rule_it_would_have_written(
    fleet: LeadingFleet, api_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    patient(monkeypatch)
    assert await writes_after_its_tenure(fleet, api_server, CarelessLeading)


async def test_a_tenure_that_lapses_and_comes_back_leads_again_and_repeats_nothing(
    fleet: LeadingFleet,
) -> None:
    await fleet.put_map(FOUNDED)
    await fleet.join("w0")
    async with fleet.worker("w0") as worker:
        await until(lambda: is_assigned(worker, "w0"))
        generation = worker.map.generation if worker.map is not None else 0
        worker.tenure_leases.is_down = True
        await until(lambda: worker.heard(LostLeadership))
        assert worker.leading.planner.epoch is None
        worker.tenure_leases.is_down = False
        await until(lambda: worker.heard(BecameLeader) >= 2 and worker.leading.planner.is_leading)
        await worker.ticks(4)
        assert worker.map is not None
        assert worker.map.generation == generation


def told_of(caplog: pytest.LogCaptureFixture, subject: str, level: int = logging.INFO) -> list[str]:
    said = [record for record in caplog.records if record.name == "noctaya.leader.leading"]
    values = [(record.levelno, getattr(record, "context", {})) for record in said]
    return [one["text"] for at, one in values if at == level and one.get("subject") == subject]


async def test_what_a_leader_does_is_logged_once_and_by_the_leader_alone(
    fleet: LeadingFleet, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "noctaya.leader.leading")
    await fleet.put_map(FOUNDED)
    await fleet.join("w0", "w1", "w2")
    async with fleet.worker("w0") as leader, fleet.worker("w1") as other:
        await until(lambda: is_assigned(leader, "w0", "w1", "w2"))
        fleet.silent.add("w2")
        await until(lambda: is_assigned(other, "w0", "w1"))
        written = [text for text in told_of(caplog, "map") if text.startswith("to be generation ")]
    assert len(written) == len(set(written)) >= 2
    assert told_of(caplog, "leader")[0] == "leading under epoch 1"
    assert len([text for text in told_of(caplog, "worker/w2") if text.startswith("to be fenced: ")]) == 1
    assert told_of(caplog, "shard/0") == []
    assert told_of(caplog, "shard/0", logging.DEBUG) != []


async def test_a_candidates_place_follows_from_who_is_ready(fleet: LeadingFleet) -> None:
    async with fleet.worker("w0") as worker:
        await until(lambda: worker.acts)
        ready = ["w1", "w2", "w3"]
        worker.leading.rank(ready)
        assert worker.tenure.rank == rank_of("w0", worker.tenure.epoch, ready)
        ranks = {rank_of(pod, worker.tenure.epoch, ["w0", *ready]) for pod in ["w0", *ready]}
        assert ranks == {0, 1, 2, 3}

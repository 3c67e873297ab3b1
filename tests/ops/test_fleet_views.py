"""What a worker says about the fleet: figures that agree with the cores, and nothing that JSON cannot carry."""

from __future__ import annotations

import json
from collections import Counter

import msgspec
import pytest

from noctaya.api.names import SHARD_COUNT
from noctaya.workers.errors import QueryRefused
from noctaya.workers.fleet_queries import fleet_queries
from noctaya.workers.fleet_views import (
    fleet_view,
    plan_view,
    rebalance_view,
    shards_view,
    story_view,
    why_view,
)
from noctaya.workers.shard_replay import replay
from noctaya.workers.shard_story import chapters
from tests.ops.fleet import ME, Fleet, fleet_of


@pytest.fixture
def fleet() -> Fleet:
    return fleet_of(3)


def test_a_settled_fleet_shows_leader_map_and_every_shard_in_one_place(fleet: Fleet) -> None:
    shown = fleet_view(fleet.cores, fleet.now)
    assert shown["fleet"] == fleet.world.fleet
    assert (shown["leader"]["pod"], shown["leader"]["epoch"], shown["leader"]["is_here"]) == (ME, 1, True)
    assert fleet.world.map is not None
    assert shown["map"]["generation"] == fleet.world.map.generation
    assert (shown["map"]["problem"], shown["map"]["is_frozen"]) == (None, False)
    assert shown["shards"] == {"total": SHARD_COUNT, "owned": SHARD_COUNT, "unowned": 0, "moving": 0}
    assert shown["imbalance"] == 1
    assert shown["moves"] == []
    owned = {member["pod"]: member["shards_owned"] for member in shown["members"]}
    assert owned == dict(Counter(fleet.world.map.desired))
    assert all(member["shards_owned"] == member["shards_desired"] for member in shown["members"])


def test_a_silent_worker_shows_since_when_and_what_it_still_has(fleet: Fleet) -> None:
    fleet.world.crash("w1")
    fleet.step(7.0)
    (silent,) = [found for found in fleet_view(fleet.cores, fleet.now)["members"] if found["pod"] == "w1"]
    assert silent["silent_seconds"] >= 5.0
    assert silent["is_doubted"]
    assert silent["shards_owned"] > 0


def test_a_fenced_worker_owns_nothing_and_says_why_it_was_fenced(fleet: Fleet) -> None:
    fleet.world.crash("w1")
    fleet.world.until(lambda: bool(fleet.world.fenced))
    fleet.follow()
    shown = fleet_view(fleet.cores, fleet.now)
    (fenced,) = [found for found in shown["members"] if found["pod"] == "w1"]
    assert (fenced["state"], fenced["incarnation"], fenced["shards_owned"]) == ("Fenced", None, 0)
    assert fenced["reason"].startswith("fenced by w0")
    assert shown["shards"]["unowned"] > 0, "what its records still name is nobody's, as the alert counts it"
    assert sum(member["shards_owned"] for member in shown["members"]) == shown["shards"]["owned"]


def test_wishes_are_shown_beside_what_the_leader_made_of_them(fleet: Fleet) -> None:
    fleet.world.wish("w1", cordon=True)
    fleet.world.is_freeze_asked = True
    fleet.world.touch_map()
    fleet.step()
    shown = fleet_view(fleet.cores, fleet.now)
    (cordoned,) = [found for found in shown["members"] if found["is_cordoned"]]
    assert (cordoned["pod"], cordoned["role"]) == ("w1", "cordoned")
    assert shown["map"]["is_freeze_asked"]


def test_a_blind_worker_says_that_it_is(fleet: Fleet) -> None:
    later = fleet.now + 60.0
    told_by = fleet_view(fleet.cores, later)["told_by"]
    assert (told_by["is_current"], told_by["standing"]) == (False, "grow")


def test_every_shard_is_shown_with_record_plan_and_the_phase_here(fleet: Fleet) -> None:
    shown = shards_view(fleet.cores, fleet.now)["shards"]
    assert [shard["shard"] for shard in shown] == list(range(SHARD_COUNT))
    mine = [shard for shard in shown if shard["pod"] == ME]
    assert {shard["here"]["phase"] for shard in mine} == {"active"}
    assert {shard["here"]["permission"] for shard in mine} == {"act"}
    assert {shard["here"]["phase"] for shard in shown if shard["pod"] != ME} == {"none"}
    assert all(shard["is_settled"] and shard["epoch"] == shard["here"]["epoch"] for shard in mine)
    assert all(shard["here"]["since_seconds"] >= 0 for shard in mine)


def test_a_drain_shows_its_moves_while_they_are_under_way(fleet: Fleet) -> None:
    fleet.world.wish("w1", drain=True)
    seen = set[int]()
    for _ in range(40):
        fleet.step(0.25)
        seen |= {
            move["shard"] for move in fleet_view(fleet.cores, fleet.now)["moves"] if move["from"] == "w1"
        }
    assert len(seen) > 16
    recent = fleet_view(fleet.cores, fleet.now)["recent_moves"]
    assert any("drained: from w1 to" in move["text"] for move in recent)


def test_a_story_is_in_the_order_of_time_and_about_its_subject_alone(fleet: Fleet) -> None:
    everything = story_view(fleet.cores, fleet.now)["entries"]
    ago = [entry["seconds_ago"] for entry in everything]
    assert ago == sorted(ago, reverse=True)
    assert {entry["by"] for entry in everything} == {"leading", "owning"}
    about = story_view(fleet.cores, fleet.now, "worker/w1")["entries"]
    assert about
    assert {entry["subject"] for entry in about} == {"worker/w1"}


def test_why_names_every_worker_in_the_order_of_preference(fleet: Fleet) -> None:
    explained = why_view(fleet.cores, 17, fleet.now)
    scores = [preference["score"] for preference in explained["preferences"]]
    assert scores == sorted(scores, reverse=True)
    assert {preference["pod"] for preference in explained["preferences"]} == {"w0", "w1", "w2"}
    assert explained["owner"] in explained["because"]


def test_a_plan_for_more_workers_shares_all_shards_among_them(fleet: Fleet) -> None:
    plan = plan_view(fleet.cores, 5, fleet.now)
    assert sum(plan["counts"].values()) == SHARD_COUNT
    assert len(plan["counts"]) == 5
    assert plan["moves"] == sum(count for pod, count in plan["counts"].items() if pod.startswith("new-"))


def test_what_levelling_would_move_comes_with_what_holds_it_off(fleet: Fleet) -> None:
    assert rebalance_view(fleet.cores, fleet.now)["moves"] == []
    fleet.world.is_freeze_asked = True
    fleet.world.touch_map()
    fleet.world.join("w3")
    fleet.step(30.0)
    frozen = rebalance_view(fleet.cores, fleet.now)
    assert len(frozen["moves"]) == SHARD_COUNT // 4
    assert {move["to"] for move in frozen["moves"]} == {"w3"}
    assert frozen["held_off_by"] == ["the map is frozen (noctaya unfreeze)"]


def test_a_worker_that_just_joined_is_named_as_the_reason_to_wait(fleet: Fleet) -> None:
    fleet.world.join("w3")
    fleet.step(1.0)
    (reason,) = rebalance_view(fleet.cores, fleet.now)["held_off_by"]
    assert "joined" in reason


def test_every_answer_is_json(fleet: Fleet) -> None:
    fleet.world.crash("w2")
    fleet.step(20.0)
    parameters = {"why": {"shard": "3"}, "plan": {"workers": "4"}}
    for name, query in fleet_queries(fleet.cores, fleet.clock).items():
        answer = query(parameters.get(name, {}))
        assert json.loads(json.dumps(answer, allow_nan=False)) == json.loads(msgspec.json.encode(answer)), (
            name
        )


def test_a_dump_can_be_replayed_by_who_was_not_there(fleet: Fleet) -> None:
    dump = fleet_queries(fleet.cores, fleet.clock)["dump"]({})
    chapter = chapters(json.dumps(dump["recording"]).encode())[-1]
    assert chapter.heard
    *_, (_, _, core) = replay(chapter)
    assert core.state.checkpoint() == fleet.ownership.state.checkpoint()
    assert dump["planner"]["inputs"][0]["event"] == "LeasesListed"


@pytest.mark.parametrize(
    ("name", "query"),
    [("why", {}), ("why", {"shard": "128"}), ("why", {"shard": "-1"}), ("plan", {"workers": "0"}), ("plan", {"workers": "x" * 99})],
)  # fmt: skip
def test_a_parameter_that_cannot_be_is_refused_by_its_name(
    fleet: Fleet, name: str, query: dict[str, str]
) -> None:
    with pytest.raises(QueryRefused, match=r"^(shard|workers) must be a number from"):
        fleet_queries(fleet.cores, fleet.clock)[name](query)


def test_looking_changes_nothing_that_is_decided(fleet: Fleet) -> None:
    watched, quiet = fleet_of(3), fleet
    for each in (watched, quiet):
        each.world.join("w3")
        each.world.crash("w1")
        for _ in range(120):
            each.step(0.5)
            if each is watched:
                for name, query in fleet_queries(each.cores, each.clock).items():
                    query({"shard": "5", "workers": "7"}) if name != "dump" else None
    assert [map_ for _, map_ in watched.world.written] == [map_ for _, map_ in quiet.world.written]

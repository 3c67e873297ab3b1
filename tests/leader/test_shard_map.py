"""The ShardMap as text: what is written is read back, and what cannot be right is refused with what is wrong."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noctaya.api.names import HASH_NAME, SHARD_COUNT
from noctaya.leader.errors import ShardMapForeign, ShardMapInvalid
from noctaya.leader.shard_map import MAX_BYTES, MAX_LISTED, ShardMap, read_map
from noctaya.leader.tenure import HIGHEST_CLAIM, HIGHEST_LEAP

PODS = st.sampled_from(["noctaya-worker-5d8f-abcde", "w0", "w1", "a.b", "x" * 253])
FOUNDED = {"shards": str(SHARD_COUNT), "hash": HASH_NAME}


def whole(owner: str = "w0", **changes: str) -> dict[str, str]:
    desired = {str(shard): owner for shard in range(SHARD_COUNT)} | changes
    return FOUNDED | {"generation": "3", "leaderEpoch": "2", "desired": json.dumps(desired)}


@settings(max_examples=40, deadline=None)
@given(
    st.builds(
        ShardMap,
        generation=st.integers(0, 2**53),
        leader_epoch=st.integers(0, HIGHEST_CLAIM + HIGHEST_LEAP),
        desired=st.one_of(st.just(()), st.lists(PODS, min_size=SHARD_COUNT, max_size=SHARD_COUNT).map(tuple)),
        draining=st.lists(PODS, max_size=3).map(tuple),
        cordoned=st.lists(PODS, max_size=3).map(tuple),
        frozen=st.booleans(),
        reason=st.text(max_size=200),
    )
)
def test_what_is_written_is_read_back(map_: ShardMap) -> None:
    assert read_map(map_.data()) == map_


def test_a_fleet_that_was_just_founded_has_an_unassigned_map() -> None:
    assert read_map(FOUNDED) == ShardMap()
    assert ShardMap().owner(5) is None


def test_a_whole_map_says_who_owns_what() -> None:
    map_ = read_map(whole(**{"5": "w1", "127": "w1"}))
    assert (map_.owner(5), map_.owner(6), map_.shards_of("w1")) == ("w1", "w0", [5, 127])


@pytest.mark.parametrize(
    "changed", [{"shards": "64"}, {"hash": "md5"}, {"shards": "0128"}, {"shards": ""}, {"hash": ""}]
)
def test_another_count_or_hash_is_a_foreign_map(changed: dict[str, str]) -> None:
    with pytest.raises(ShardMapForeign, match=next(iter(changed))):
        read_map(whole() | changed)


def test_a_config_map_that_is_no_shard_map_is_foreign() -> None:
    with pytest.raises(ShardMapForeign, match="shards is None"):
        read_map({})


@pytest.mark.parametrize(
    ("changed", "problem"),
    [
        ({"generation": "-1"}, "generation is '-1'"),
        ({"generation": "1e3"}, "generation"),
        ({"generation": "\u0663"}, "generation"),
        ({"generation": "99999999999999999999"}, "generation"),
        ({"leaderEpoch": str(HIGHEST_CLAIM + HIGHEST_LEAP + 1)}, "leaderEpoch"),
        ({"desired": "{"}, "desired is not the JSON"),
        ({"desired": "[" * 100_000}, "desired is not the JSON"),
        ({"desired": '["w0"]'}, "desired is not the JSON"),
        ({"desired": '{"0": 5}'}, "desired is not the JSON"),
        ({"desired": '{"0": "w0"}'}, "leaves shards to nobody: '1', '2'"),
        ({"frozen": "yes"}, "frozen"),
        ({"reason": "x" * 501}, "reason"),
        ({"draining": '["W 0"]'}, "draining has names that no pod can have: 'W 0'"),
        ({"cordoned": json.dumps(["w"] * (MAX_LISTED + 1))}, "cordoned lists more than"),
        ({"note": "x" * MAX_BYTES}, "larger than"),
    ],
)
def test_garbage_is_refused_with_what_is_wrong(changed: dict[str, str], problem: str) -> None:
    with pytest.raises(ShardMapInvalid, match=problem) as refused:
        read_map(whole() | changed)
    assert not isinstance(refused.value, ShardMapForeign)


@pytest.mark.parametrize("key", ["128", "01", "-1", "x", "\u0661"])
def test_a_shard_that_does_not_exist_is_refused(key: str) -> None:
    with pytest.raises(ShardMapInvalid, match="shards that do not exist"):
        read_map(whole(**{key: "w0"}))


@pytest.mark.parametrize("name", ["", "W0", "w0 ", "-w", "w_0", "x" * 254, "w0\n"])
def test_an_owner_that_no_pod_can_be_called_is_refused(name: str) -> None:
    with pytest.raises(ShardMapInvalid, match="names that no pod can have"):
        read_map(whole(**{"7": name}))


def test_an_owner_that_nobody_knows_is_no_error() -> None:
    assert read_map(whole(**{"7": "long-gone"})).owner(7) == "long-gone"


def test_a_map_that_readers_would_refuse_cannot_be_written() -> None:
    with pytest.raises(ShardMapInvalid, match="leaves shards to nobody"):
        ShardMap(desired=("w0",) * 5).data()


@pytest.mark.parametrize(
    ("generation", "epoch", "expected"),
    [(4, 2, True), (4, 3, True), (3, 2, False), (3, 3, False), (2, 9, False), (9, 1, False)],
)
def test_a_map_follows_only_with_a_higher_generation_and_no_lower_epoch(
    generation: int, epoch: int, *, expected: bool
) -> None:
    force = read_map(whole())
    following = msgspec.structs.replace(force, generation=generation, leader_epoch=epoch)
    assert following.supersedes(force) is expected
    assert following.supersedes(None)


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.sampled_from([*whole(), "draining", "cordoned"]), st.text(max_size=50)))
def test_no_text_makes_reading_fail_otherwise(changed: dict[str, str]) -> None:
    try:
        map_ = read_map(whole() | changed)
    except ShardMapInvalid:
        return
    assert len(map_.desired) in (0, SHARD_COUNT)

"""Member records as annotations, and the names of Leases."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noctaya.api.names import SHARD_COUNT
from noctaya.leader.errors import MemberRecordInvalid
from noctaya.leader.lease_names import (
    ANNOTATION_CORDON,
    is_wished,
    member_lease,
    pod_of_incarnation,
    pod_of_lease,
    shard_lease,
    shard_of_lease,
)
from noctaya.leader.member_record import MAX_TEXT, MemberRecord, MemberState, read_record
from noctaya.leader.tenure import Identity

TEXT = st.text(st.characters(codec="ascii", min_codepoint=33, max_codepoint=126), max_size=40)


@settings(max_examples=40, deadline=None)
@given(
    st.builds(
        MemberRecord,
        state=st.sampled_from(MemberState),
        address=TEXT,
        version=TEXT,
        zone=TEXT,
        container=TEXT,
        capacity=st.sampled_from([0.01, 0.5, 1.0, 2.5, 100.0]),
        load=st.sampled_from([0.0, 0.25, 12.0]),
        shards=st.integers(0, SHARD_COUNT),
        saw_map=st.integers(0, 2**53),
        reason=TEXT,
    )
)
def test_what_is_written_is_read_back_and_other_annotations_stay(record: MemberRecord) -> None:
    theirs = {ANNOTATION_CORDON: "true", "example.com/note": "mine"}
    before = MemberRecord(reason="old").annotate(theirs)
    after = record.annotate(before)
    assert read_record(after) == record
    assert theirs.items() <= after.items()


def test_a_lease_without_annotations_is_of_one_that_joins() -> None:
    assert read_record({}) == MemberRecord()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("state", "Confused"),
        ("capacity", "many"),
        ("capacity", "0"),
        ("capacity", "nan"),
        ("capacity", "inf"),
        ("load", "-1"),
        ("shards", "129"),
        ("shards", "1.5"),
        ("saw-map", "-3"),
        ("saw-map", "1" * 200),
        ("address", "x" * (MAX_TEXT + 1)),
        ("zone", "a\nb"),
    ],
)
def test_an_annotation_that_no_worker_writes_is_named(name: str, text: str) -> None:
    with pytest.raises(MemberRecordInvalid) as refused:
        read_record({f"serving.noctaya.io/{name}": text})
    assert refused.value.annotation == f"serving.noctaya.io/{name}"


def test_a_fence_says_why_and_takes_the_shards_away() -> None:
    fenced = MemberRecord(state=MemberState.READY, shards=9, version="1").fenced("silent " * 100)
    assert (fenced.state, fenced.shards, fenced.version) == (MemberState.FENCED, 0, "1")
    assert read_record(fenced.annotate({})) == fenced


@pytest.mark.parametrize(
    ("text", "expected"), [("true", True), ("false", False), ("True", False), ("", False)]
)
def test_only_true_is_a_wish(text: str, *, expected: bool) -> None:
    assert is_wished({ANNOTATION_CORDON: text}, ANNOTATION_CORDON) is expected


def test_names_of_leases_lead_back_to_what_they_are_for() -> None:
    assert pod_of_lease(member_lease("noctaya-worker-5d8f-abcde")) == "noctaya-worker-5d8f-abcde"
    assert [shard_of_lease(shard_lease(shard)) for shard in range(SHARD_COUNT)] == list(range(SHARD_COUNT))
    assert pod_of_incarnation(str(Identity("w-0", "0123456789", "n1"))) == "w-0"
    assert pod_of_incarnation("") == ""


@pytest.mark.parametrize(
    "name",
    [
        "noctaya-leader",
        "noctaya-shard-",
        "noctaya-shard-128",
        "noctaya-shard-17",
        "noctaya-shard-\u0660\u0660\u0661",
        "x",
    ],
)
def test_other_names_are_nobodys(name: str) -> None:
    assert shard_of_lease(name) is None
    assert pod_of_lease(name) is None


def test_a_prefix_alone_names_no_pod() -> None:
    assert pod_of_lease("noctaya-worker-") is None

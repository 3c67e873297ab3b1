"""Between Kubernetes' objects and what the cores know: nothing strange is taken for ours, nothing of others is lost."""

from __future__ import annotations

import msgspec
import pytest

from noctaya.api.names import HASH_NAME, SHARD_COUNT
from noctaya.kube.metadata import Metadata, OwnerReference, parse_time
from noctaya.kube.objects import ConfigMap, Lease, LeaseSpec
from noctaya.leader.errors import ShardMapForeign, ShardMapInvalid
from noctaya.leader.lease_names import (
    ANNOTATION_CORDON,
    ANNOTATION_DRAIN,
    ANNOTATION_FREEZE,
    LABEL_ROLE,
    LEADER_LEASE,
    ROLE_LEADER,
    ROLE_MEMBER,
    ROLE_SHARD,
    SHARDMAP,
    member_lease,
    shard_lease,
)
from noctaya.leader.lease_views import (
    fenced,
    leader_metadata,
    lease_view,
    map_object,
    map_seen,
    member_metadata,
    member_view,
    shard_record,
    shard_view,
)
from noctaya.leader.member_record import MemberRecord, MemberState, read_record
from noctaya.leader.planner_events import MapSeen, MemberView, ShardView
from noctaya.leader.shard_map import ShardMap
from noctaya.leader.tenure import LeaseView

ROLES = (ROLE_LEADER, ROLE_MEMBER, ROLE_SHARD, "", "another")
RECORD = MemberRecord(state=MemberState.READY, address="10.0.0.1:9443", version="1", shards=43)
NOTE = {"example.com/note": "somebody's"}


def lease(name: str, role: str, holder: str | None = "w0_uid_1", **annotations: str) -> Lease:
    metadata = Metadata(
        name=name,
        resource_version="7",
        creation_timestamp="2026-01-02T03:04:05Z",
        labels={LABEL_ROLE: role} if role else {},
        annotations=annotations,
    )
    return Lease(metadata=metadata, spec=LeaseSpec(holder_identity=holder, lease_transitions=3))


def test_a_member_lease_shows_who_holds_it_what_it_says_and_what_operators_wish() -> None:
    wishes = {ANNOTATION_CORDON: "true", ANNOTATION_DRAIN: "false"}
    shown = lease(member_lease("w0"), ROLE_MEMBER, **RECORD.annotate(wishes))
    assert member_view(shown) == MemberView(
        "w0", "w0_uid_1", "7", RECORD, "2026-01-02T03:04:05Z", is_cordon_asked=True, is_drain_asked=False
    )


def test_a_member_whose_record_cannot_be_read_is_still_seen() -> None:
    view = member_view(lease(member_lease("w0"), ROLE_MEMBER, **{"serving.noctaya.io/state": "Dozing"}))
    assert view is not None
    assert (view.incarnation, view.record) == ("w0_uid_1", None)


def test_a_shard_lease_shows_its_owner_and_epoch() -> None:
    assert shard_view(lease(shard_lease(17), ROLE_SHARD)) == ShardView(17, "w0_uid_1", 3)


def test_a_lease_that_says_nothing_is_held_by_nobody() -> None:
    empty = Lease(metadata=Metadata(name=member_lease("w0"), labels={LABEL_ROLE: ROLE_MEMBER}))
    assert lease_view(empty) == LeaseView("", 0, "")
    view = member_view(empty)
    assert view is not None
    assert (view.incarnation, view.record, view.created) == ("", MemberRecord(), "")


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    "name",
    [
        LEADER_LEASE,
        member_lease("w0"),
        shard_lease(17),
        "noctaya-worker-",
        "noctaya-shard-128",
        "noctaya-shard-17",
        "somebody-elses",
        "",
    ],
)
def test_only_the_name_and_the_role_together_make_a_lease_ours(name: str, role: str) -> None:
    found = lease(name, role)
    assert (member_view(found) is not None) == ((name, role) == (member_lease("w0"), ROLE_MEMBER))
    assert (shard_view(found) is not None) == ((name, role) == (shard_lease(17), ROLE_SHARD))


def test_labels_of_others_stay_and_each_lease_says_its_role() -> None:
    theirs = Metadata(name="x", labels={"team": "ours", LABEL_ROLE: "wrong"}, annotations=NOTE)
    leader = leader_metadata(theirs)
    member = member_metadata(theirs, RECORD, pod="w0", pod_uid="uid")
    assert [one.labels["team"] for one in (leader, member)] == ["ours", "ours"]
    assert [one.labels[LABEL_ROLE] for one in (leader, member)] == [ROLE_LEADER, ROLE_MEMBER]
    assert leader.annotations == NOTE
    assert NOTE.items() <= member.annotations.items()
    assert theirs.labels == {"team": "ours", LABEL_ROLE: "wrong"}, "what was read is not changed"


def test_a_member_lease_is_collected_with_its_pod_where_there_is_one() -> None:
    inside = member_metadata(Metadata(), RECORD, pod="w0", pod_uid="uid")
    assert inside.owner_references == [OwnerReference(api_version="v1", kind="Pod", name="w0", uid="uid")]
    assert member_metadata(inside, RECORD, pod="w0", pod_uid="").owner_references == []


def test_what_is_written_of_a_member_is_what_is_read() -> None:
    written = Lease(
        metadata=member_metadata(Metadata(name=member_lease("w0")), RECORD, pod="w0", pod_uid=""),
        spec=LeaseSpec(holder_identity="w0_uid_1"),
    )
    view = member_view(written)
    assert view is not None
    assert (view.record, view.incarnation) == (RECORD, "w0_uid_1")


def test_a_fence_takes_holder_and_record_and_leaves_everything_else() -> None:
    wishes = {ANNOTATION_CORDON: "true", **NOTE}
    before = lease(member_lease("w0"), ROLE_MEMBER, **RECORD.annotate(wishes))
    after = fenced(before, RECORD.fenced("silent"), "6")
    assert (after.spec.holder_identity, after.metadata.resource_version) == ("", "6")
    assert read_record(after.metadata.annotations) == RECORD.fenced("silent")
    assert wishes.items() <= after.metadata.annotations.items()
    restored = msgspec.structs.replace(
        after.metadata, annotations=before.metadata.annotations, resource_version="7"
    )
    assert restored == before.metadata
    assert msgspec.structs.replace(after.spec, holder_identity="w0_uid_1") == before.spec


def test_a_shard_record_is_read_back_as_it_was_written() -> None:
    written = shard_record("sys", 5, "w1_uid_2", 9, "")
    assert shard_view(written) == ShardView(5, "w1_uid_2", 9)
    assert (written.namespace, written.metadata.resource_version) == ("sys", "")
    assert written.spec.lease_duration_seconds == 10
    assert parse_time(written.spec.renew_time or "") == parse_time(written.spec.acquire_time or "")


WHOLE = ShardMap(generation=4, leader_epoch=2, desired=("w0",) * SHARD_COUNT)


def stored(data: dict[str, str], **annotations: str) -> ConfigMap:
    return ConfigMap(
        metadata=Metadata(name=SHARDMAP, uid="fleet", resource_version="9", annotations=annotations),
        data=data,
    )


def test_a_map_is_shown_with_its_fleet_and_version_and_whether_a_freeze_is_asked() -> None:
    found = stored(WHOLE.data(), **{ANNOTATION_FREEZE: "true"})
    assert map_seen(found, 5) == MapSeen("fleet", "9", WHOLE, is_freeze_asked=True, request=5)
    assert map_seen(stored(WHOLE.data())) == MapSeen("fleet", "9", WHOLE)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        ({}, ShardMapForeign),
        ({"shards": "64", "hash": HASH_NAME}, ShardMapForeign),
        ({"shards": str(SHARD_COUNT), "hash": HASH_NAME, "desired": "["}, ShardMapInvalid),
    ],
)
def test_a_map_that_cannot_be_obeyed_is_shown_as_what_is_wrong_with_it(
    data: dict[str, str], problem: type[ShardMapInvalid]
) -> None:
    assert type(map_seen(stored(data)).map) is problem


def test_a_map_is_written_upon_what_was_read_with_all_that_others_wrote_there() -> None:
    before = stored({"old": "data"}, **NOTE)
    after = map_object("sys", WHOLE, before)
    assert (after.metadata, after.data) == (before.metadata, WHOLE.data())
    made = map_object("sys", WHOLE, None)
    assert (made.name, made.namespace, made.metadata.resource_version) == (SHARDMAP, "sys", "")
    assert map_seen(made).map == WHOLE


def test_a_map_that_readers_would_refuse_is_not_written() -> None:
    with pytest.raises(ShardMapInvalid):
        map_object("sys", msgspec.structs.replace(WHOLE, desired=("w0",)), None)

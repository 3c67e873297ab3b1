"""Leases and the ShardMap as the cores see them: from Kubernetes objects to views and back. Nothing is decided here.

Whose a Lease is says its name *and* the label of its role: the watch selects by the label, so a Lease without it is one that
nobody was shown, and one with the label and a name that means nothing is somebody else's and None.
"""

from __future__ import annotations

from typing import Final

import msgspec

from noctaya.api.names import LABEL_NAME
from noctaya.kube.leases import micro_now
from noctaya.kube.metadata import Metadata, OwnerReference
from noctaya.kube.objects import ConfigMap, Lease, LeaseSpec
from noctaya.leader.errors import MemberRecordInvalid, ShardMapInvalid
from noctaya.leader.lease_names import (
    ANNOTATION_CORDON,
    ANNOTATION_DRAIN,
    ANNOTATION_FREEZE,
    LABEL_ROLE,
    ROLE_LEADER,
    ROLE_MEMBER,
    ROLE_SHARD,
    SHARDMAP,
    is_wished,
    pod_of_lease,
    shard_lease,
    shard_of_lease,
)
from noctaya.leader.member_record import MemberRecord, read_record
from noctaya.leader.planner_events import MapSeen, MemberView, ShardView
from noctaya.leader.shard_map import ShardMap, read_map
from noctaya.leader.tenure import LeaseView

DURATION_SECONDS: Final = 10
"""Published in every Lease: by then a takeover is over."""
LABELS: Final = {LABEL_NAME: "noctaya"}


# --- from the API server's objects ------------------------------------------------------------------------------------------


def lease_view(lease: Lease) -> LeaseView:
    """What of a Lease decides anything. An absent holder is nobody, absent transitions are zero."""
    spec = lease.spec
    return LeaseView(spec.holder_identity or "", spec.lease_transitions or 0, lease.metadata.resource_version)


def member_view(lease: Lease) -> MemberView | None:
    """A worker's Lease; None when it is none."""
    pod = pod_of_lease(lease.name)
    if pod is None or lease.metadata.labels.get(LABEL_ROLE) != ROLE_MEMBER:
        return None
    annotations = lease.metadata.annotations
    record: MemberRecord | None
    try:
        record = read_record(annotations)
    except MemberRecordInvalid:
        record = None
    return MemberView(
        pod=pod,
        incarnation=lease.spec.holder_identity or "",
        resource_version=lease.metadata.resource_version,
        record=record,
        created=lease.metadata.creation_timestamp or "",
        is_cordon_asked=is_wished(annotations, ANNOTATION_CORDON),
        is_drain_asked=is_wished(annotations, ANNOTATION_DRAIN),
    )


def shard_view(lease: Lease) -> ShardView | None:
    """The fencing record of a shard; None when it is none."""
    shard = shard_of_lease(lease.name)
    if shard is None or lease.metadata.labels.get(LABEL_ROLE) != ROLE_SHARD:
        return None
    return ShardView(shard, lease.spec.holder_identity or "", lease.spec.lease_transitions or 0)


def map_seen(found: ConfigMap, request: int | None = None) -> MapSeen:
    """The ShardMap as the planner hears of it; one that cannot be obeyed says why. `request`: the `ReadMap` it answers."""
    told: ShardMap | ShardMapInvalid
    try:
        told = read_map(found.data)
    except ShardMapInvalid as error:
        told = error
    metadata = found.metadata
    return MapSeen(
        metadata.uid,
        metadata.resource_version,
        told,
        is_freeze_asked=is_wished(metadata.annotations, ANNOTATION_FREEZE),
        request=request,
    )


# --- to the API server's objects --------------------------------------------------------------------------------------------


def leader_metadata(metadata: Metadata) -> Metadata:
    """The leader Lease's metadata, so that the watch of the fleet's Leases shows it too."""
    return msgspec.structs.replace(metadata, labels={**metadata.labels, **LABELS, LABEL_ROLE: ROLE_LEADER})


def member_metadata(metadata: Metadata, record: MemberRecord, *, pod: str, pod_uid: str) -> Metadata:
    """A member Lease's metadata with this record; it is collected with its pod, where there is one."""
    owners = [OwnerReference(api_version="v1", kind="Pod", name=pod, uid=pod_uid)] if pod_uid else []
    return msgspec.structs.replace(
        metadata,
        labels={**metadata.labels, **LABELS, LABEL_ROLE: ROLE_MEMBER},
        annotations=record.annotate(metadata.annotations),
        owner_references=owners,
    )


def fenced(lease: Lease, record: MemberRecord, version: str) -> Lease:
    """A member Lease that nobody holds any more, to be written upon exactly `version`."""
    metadata = msgspec.structs.replace(
        lease.metadata, resource_version=version, annotations=record.annotate(lease.metadata.annotations)
    )
    return msgspec.structs.replace(
        lease, metadata=metadata, spec=msgspec.structs.replace(lease.spec, holder_identity="")
    )


def shard_record(namespace: str, shard: int, holder: str, epoch: int, version: str) -> Lease:
    """The fencing record to write: at `version`, or new where that is empty. It is never renewed."""
    now = micro_now()
    return Lease(
        metadata=Metadata(
            name=shard_lease(shard),
            namespace=namespace,
            resource_version=version,
            labels={**LABELS, LABEL_ROLE: ROLE_SHARD},
        ),
        spec=LeaseSpec(
            holder_identity=holder,
            lease_duration_seconds=DURATION_SECONDS,
            acquire_time=now,
            renew_time=now,
            lease_transitions=epoch,
        ),
    )


def map_object(namespace: str, map_: ShardMap, before: ConfigMap | None) -> ConfigMap:
    """The ShardMap to write: upon exactly `before`, whose labels and annotations stay, or new where there is none.

    Raises:
        ShardMapInvalid: readers would refuse it.
    """
    metadata = (
        before.metadata
        if before is not None
        else Metadata(name=SHARDMAP, namespace=namespace, labels=dict(LABELS))
    )
    return ConfigMap(metadata=metadata, data=map_.data())

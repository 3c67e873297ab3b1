"""What the API server shows of the fleet, told to the cores in the order in which it happened.

Member Leases, shard Leases and the leader's come from *one* list+watch, so that whoever listens sees a prefix of their common
history (`shard_proof.py` and `membership.py` rest on that). Of a complete list members are told before shards, and what it
lacks as gone; only then that the list is complete. The ShardMap, the workers' pods and their Deployment have watches of their
own: nothing that decides about safety compares them with the Leases.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

from noctaya.api.names import LABEL_NAME
from noctaya.kube import Change, Client, Step, Store
from noctaya.kube.objects import ConfigMap, Deployment, Lease, Pod
from noctaya.kube.reflector import WatchSettings
from noctaya.kube.resources import CONFIGMAPS, DEPLOYMENTS, LEASES, PODS
from noctaya.leader import planner_events as leads
from noctaya.leader.lease_names import (
    LABEL_ROLE,
    LEADER_LEASE,
    SHARDMAP,
    member_lease,
    pod_of_lease,
    shard_of_lease,
)
from noctaya.leader.lease_views import lease_view, map_seen, member_view, shard_view
from noctaya.leader.rollout import is_rolling_out, newest_version, pod_events
from noctaya.leader.tenure import Watched
from noctaya.workers import shard_events as owns

WORKERS = f"{LABEL_NAME}=noctaya,app.kubernetes.io/component=worker"


class Listener(Protocol):
    """Who wants to know: the cores behind their shells. Called from the loop, in order; must be quick and must not raise."""

    def plan(self, event: leads.Event) -> None: ...
    def own(self, event: owns.Event) -> None: ...
    def member_watched(self, event: Watched) -> None: ...
    def leader_watched(self, event: Watched) -> None: ...
    def went_back(self) -> None: ...


class FleetWatch:
    """See the module. `pod`: ours; `watch`: of the Leases, `map_watch`: of the map. Whoever iterates over it gets the stores that are to be run."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        pod: str,
        listener: Listener,
        *,
        watch: WatchSettings,
        map_watch: WatchSettings,
    ) -> None:
        self.leases = Store(
            client, LEASES, Lease, namespace=namespace, label_selector=LABEL_ROLE, settings=watch
        )
        self.maps = Store(
            client,
            CONFIGMAPS,
            ConfigMap,
            namespace=namespace,
            field_selector=f"metadata.name={SHARDMAP}",
            settings=map_watch,
        )
        self.pods = Store(client, PODS, Pod, namespace=namespace, label_selector=WORKERS)
        self.deployments = Store(client, DEPLOYMENTS, Deployment, namespace=namespace, label_selector=WORKERS)
        self._namespace = namespace
        self._pod = pod
        self._to = listener
        self._rewinds = 0
        self.leases.follow(self._leases_moved)
        self.maps.follow(self._map_moved)
        self.pods.subscribe(self._pod_changed)
        self.deployments.subscribe(lambda change: self._tell_rollout())

    def __iter__(self) -> Iterator[Store[Any]]:
        yield self.leases
        yield self.maps
        yield self.pods
        yield self.deployments

    @property
    def own_pod(self) -> Pod | None:
        """The pod that this worker runs in, as last seen."""
        return self.pods.get(self._namespace, self._pod)

    # -- Leases ------------------------------------------------------------------------------------------------------

    def _leases_moved(self, step: Step[Lease]) -> None:
        if self.leases.rewinds != self._rewinds:
            self._rewinds = self.leases.rewinds
            self._to.went_back()
        if step.is_list:
            self._listed(step)
        elif not step.changes:
            self._to.plan(leads.WatchAlive())
        for change in step.changes if not step.is_list else ():
            self._changed(change, step.resource_version)

    def _listed(self, step: Step[Lease]) -> None:
        leases = {lease.name: lease for lease in self.leases.items()}
        members = self._members()
        records = [(lease, record) for lease in leases.values() if (record := shard_view(lease)) is not None]
        self._to.plan(
            leads.LeasesListed(step.resource_version, tuple(members), tuple(record for _, record in records))
        )
        for view in members:
            self._to.own(_member_seen(view))
        for change in step.changes:
            if change.new is None and change.subject.name not in leases:
                self._owner_lost(change.subject.name, step.resource_version)
        for lease, record in records:
            self._to.own(_record_seen(lease, record))
        self._to.own(owns.Listed())
        for name, tell in (
            (LEADER_LEASE, self._to.leader_watched),
            (member_lease(self._pod), self._to.member_watched),
        ):
            found = leases.get(name)
            tell(Watched(lease_view(found) if found is not None else None))

    def _members(self) -> list[leads.MemberView]:
        return [view for lease in self.leases.items() if (view := member_view(lease)) is not None]

    def _changed(self, change: Change[Lease], version: str) -> None:
        lease = change.new
        name = change.subject.name
        if lease is None:
            self._planner_lost(name, version)
            self._owner_lost(name, version)
        elif (member := member_view(lease)) is not None:
            self._to.plan(leads.MemberSeen(member))
            self._to.own(_member_seen(member))
            is_new = change.old is None or change.old.spec.holder_identity != lease.spec.holder_identity
            if is_new and self.deployments.items():  # without a Deployment the planner goes by the members
                self._tell_rollout()
        elif (shard := shard_view(lease)) is not None:
            self._to.plan(leads.ShardSeen(shard))
            self._to.own(_record_seen(lease, shard))
        watched = Watched(lease_view(lease) if lease is not None else None)
        if name == LEADER_LEASE:
            self._to.leader_watched(watched)
        elif name == member_lease(self._pod):
            self._to.member_watched(watched)

    def _planner_lost(self, name: str, version: str) -> None:
        if (pod := pod_of_lease(name)) is not None:
            self._to.plan(leads.MemberGone(pod, version))
        elif (shard := shard_of_lease(name)) is not None:
            self._to.plan(leads.ShardSeen(leads.ShardView(shard, "", 0)))

    def _owner_lost(self, name: str, version: str) -> None:
        if (pod := pod_of_lease(name)) is not None:
            self._to.own(owns.MemberGone(pod))
        elif (shard := shard_of_lease(name)) is not None:
            self._to.own(owns.RecordGone(shard, version))

    # -- the rest ----------------------------------------------------------------------------------------------------

    def _map_moved(self, step: Step[ConfigMap]) -> None:
        found = self.maps.get(self._namespace, SHARDMAP)
        if found is None:
            if step.is_list or step.changes:
                self._to.plan(leads.MapGone())
        elif step.changes:
            self._to.plan(map_seen(found))

    def _pod_changed(self, change: Change[Pod]) -> None:
        for event in pod_events(change.subject, is_gone=change.new is None):
            self._to.plan(event)

    def _tell_rollout(self) -> None:
        is_running = any(is_rolling_out(deployment) for deployment in self.deployments.items())
        self._to.plan(leads.RolloutSeen(is_running, newest_version(self._members())))


def _member_seen(view: leads.MemberView) -> owns.MemberSeen:
    return owns.MemberSeen(view.pod, view.incarnation, view.record.state if view.record is not None else None)


def _record_seen(lease: Lease, view: leads.ShardView) -> owns.RecordSeen:
    return owns.RecordSeen(view.shard, view.holder, view.epoch, lease.metadata.resource_version)

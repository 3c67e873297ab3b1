"""A worker's metrics, read from its parts when they are scraped: nothing to keep in step, nothing to remove.

Demand has a series per service, for at most `MAX_SERVICES` of them; the rest is summed up as `_other`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from prometheus_client import CollectorRegistry, Metric
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from noctaya.api.names import SHARD_COUNT
from noctaya.kube.clock import boottime
from noctaya.leader.member_record import MemberState
from noctaya.workers.permission import Permission
from noctaya.workers.problems import Problems
from noctaya.workers.views import Parts

MAX_SERVICES: Final = 200
OTHER: Final = "_other"


class WorkerCollector(Collector):
    """Turns the parts' state into metric families."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts

    def collect(self) -> Iterator[Metric]:
        """One family after the other."""
        yield self._demand()
        yield from self._gateways()
        yield from self._scaler()
        yield from self._ownership()
        yield from self._fleet()
        yield from self._peers()
        yield from self._work()

    def _demand(self) -> Metric:
        family = GaugeMetricFamily(
            "noctaya_scaler_demand",
            "Requests waiting or in flight, over all gateways.",
            labels=("namespace", "service"),
        )
        active = self._parts.intake.book.active(boottime())
        shown = sorted(active, key=lambda key: active[key], reverse=True)[:MAX_SERVICES]
        for key in shown:
            family.add_metric(key.split("/", 1), active[key])
        if rest := sum(active.values()) - sum(active[key] for key in shown):
            family.add_metric((OTHER, OTHER), rest)
        return family

    def _gateways(self) -> Iterator[Metric]:
        intake, link = self._parts.intake, self._parts.link
        now = boottime()
        yield _gauge(
            "noctaya_scaler_gateway_members", "Gateways in the sum of demand.", len(intake.book.members)
        )
        yield _gauge("noctaya_worker_gateway_links", "Open control links.", len(list(link.sessions)))
        yield _gauge(
            "noctaya_scaler_demand_known",
            "1 while every running gateway has reported.",
            intake.book.is_known(now),
        )
        unknown = 0.0 if intake.unknown_since is None else now - intake.unknown_since
        yield _gauge("noctaya_scaler_demand_unknown_seconds", "How long demand has been unknown.", unknown)
        reports = CounterMetricFamily(
            "noctaya_scaler_demand_reports", "Reports and wakes taken in.", labels=("result",)
        )
        for result, count in intake.reports.items():
            reports.add_metric((result,), count)
        yield reports
        nacks = CounterMetricFamily(
            "noctaya_worker_route_nacks", "Updates that a gateway refused.", labels=("reason",)
        )
        for reason, count in link.nacks.items():
            nacks.add_metric((reason,), count)
        yield nacks

    def _scaler(self) -> Iterator[Metric]:
        scaler = self._parts.scaler
        yield _gauge(
            "noctaya_gateway_scaler_streams", "Open StreamIsActive streams of KEDA.", scaler.stream_count
        )
        asked = CounterMetricFamily(
            "noctaya_scaler_requests", "Calls of KEDA, by method.", labels=("method",)
        )
        for method, count in scaler.asked.items():
            asked.add_metric((method,), count)
        yield asked
        pushed = CounterMetricFamily(
            "noctaya_scaler_pushes", "Times that true was pushed to KEDA.", labels=("cause",)
        )
        for cause, count in scaler.pushed.items():
            pushed.add_metric((cause.value,), count)
        yield pushed

    def _ownership(self) -> Iterator[Metric]:
        place, ownership = self._parts.place, self._parts.ownership
        now = boottime()
        family = GaugeMetricFamily(
            "noctaya_worker_permission",
            "1 for what this worker may do for the shards that it owns.",
            labels=("permission",),
        )
        standing = place.member.standing(now)
        for permission in Permission:
            family.add_metric((permission.value,), permission.value == standing.value)
        yield family
        yield _gauge(
            "noctaya_worker_lease_margin_seconds",
            "Until this worker may not act any more, for want of a renewal of its Lease; 0 when it may not.",
            max(place.member.core.deadline_in(now) or 0.0, 0.0),
        )
        epochs = GaugeMetricFamily(
            "noctaya_shard_epoch", "Epoch of every shard that this worker owns.", labels=("shard",)
        )
        owned = ownership.owned()
        for shard in owned:
            epochs.add_metric((str(shard),), ownership.epoch(shard))
        yield epochs
        yield _gauge("noctaya_worker_shards", "Shards that this worker owns.", len(owned))
        writes = CounterMetricFamily(
            "noctaya_worker_shard_writes",
            "Writes of shards' Leases, by what became of them.",
            labels=("result",),
        )
        for result, count in ownership.writes.items():
            writes.add_metric((result,), count)
        yield writes

    def _fleet(self) -> Iterator[Metric]:
        planner = self._parts.place.leading.planner
        yield _gauge(
            "noctaya_worker_is_leader", "1 at the worker that assigns the shards.", planner.is_leading
        )
        states = GaugeMetricFamily(
            "noctaya_fleet_members",
            "Workers whose Lease is held, as this one sees them, by state.",
            labels=("state",),
        )
        members = [member for member in planner.fleet.roster.members.values() if member.view.incarnation]
        for state in (MemberState.JOINING, MemberState.READY, MemberState.DRAINING):
            states.add_metric((state.value,), sum(member.record.state is state for member in members))
        yield states
        yield _gauge(
            "noctaya_fleet_unowned_shards",
            "Shards that no living worker owns, as this one sees them.",
            SHARD_COUNT - len(planner.fleet.actual()),
        )
        generation = planner.map.generation if planner.map is not None else 0
        yield _gauge(
            "noctaya_fleet_map_generation", "Generation of the ShardMap that this worker obeys.", generation
        )

    def _peers(self) -> Iterator[Metric]:
        parts = self._parts
        for name, text, counts in (
            (
                "noctaya_worker_peer_notes",
                "Notes to other workers, by what became of them.",
                parts.place.peers.told,
            ),
            (
                "noctaya_scaler_relayed",
                "Questions of KEDA passed on to a shard's owner, by result.",
                parts.relay.relayed,
            ),
            (
                "noctaya_scaler_ownerless",
                "Answers to KEDA about other workers' shards without their owner's word.",
                parts.scaler.answering.ownerless,
            ),
        ):
            family = CounterMetricFamily(name, text, labels=("result",))
            for result, count in counts.items():
                family.add_metric((result,), count)
            yield family
        refused = CounterMetricFamily(
            "noctaya_worker_calls_refused",
            "Calls on 9443 refused for the caller's role.",
            labels=("service", "role"),
        )
        for (service, role), count in parts.security.refused.items():
            refused.add_metric((service, role), count)
        yield refused

    def _work(self) -> Iterator[Metric]:
        parts = self._parts
        yield _gauge(
            "noctaya_worker_backlog", "Services that are due to be reconciled and wait.", parts.reconciler.due
        )
        yield _gauge("noctaya_worker_services", "LLMServices in the cluster.", len(parts.stores.services))
        yield _gauge(
            "noctaya_worker_scaledobjects", "ScaledObjects of ours.", len(parts.stores.scaledobjects)
        )
        yield _problems(parts.problems)


class ProblemCollector(Collector):
    """What a worker that has not begun yet can tell."""

    def __init__(self, problems: Problems) -> None:
        self._problems = problems

    def collect(self) -> Iterator[Metric]:
        """The problems."""
        yield _problems(self._problems)


def registry(parts: Parts) -> CollectorRegistry:
    """A registry of its own, so that two workers in one test process do not meet."""
    made = CollectorRegistry()
    made.register(WorkerCollector(parts))
    return made


def waiting_registry(problems: Problems) -> CollectorRegistry:
    """The registry of a worker that waits for its fleet."""
    made = CollectorRegistry()
    made.register(ProblemCollector(problems))
    return made


def _problems(problems: Problems) -> Metric:
    family = GaugeMetricFamily("noctaya_worker_problem", "1 for every present problem.", labels=("problem",))
    for problem in problems.current():
        family.add_metric((problem.name,), 1)
    return family


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)

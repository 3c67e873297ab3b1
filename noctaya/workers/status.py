"""From what was seen to what `kubectl get llmservice` shows: phase, conditions, and the rest of the status. Pure.

Phase, first match: ready replicas → Ready; a failure or a hard observation → Degraded; replicas asked for → Loading; `scaling.min` 0 → ScaledToZero; else Pending. A failure to render or apply never hides replicas that serve: they
stay Ready, with Degraded beside it.

Words are stable: the same class of failure on the same pod keeps its first message, and a pod that alternates between
CrashLoopBackOff and its next attempt stays in CrashLoopBackOff, so that a crash loop neither rewrites the status nor emits an
event every few minutes.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from noctaya.api.conditions import (
    Condition,
    ConditionType,
    Phase,
    Reason,
    Status,
    find_condition,
    set_condition,
)
from noctaya.api.names import endpoint_url
from noctaya.kube.objects import Condition as LiveCondition
from noctaya.workers.autoscaling import Verdict
from noctaya.workers.objects import LLMService, LLMServiceStatus
from noctaya.workers.observe import Backend, Observation


@dataclass(frozen=True, slots=True)
class Failure:
    """The service could not be rendered or applied."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Seen:
    """Everything that the status is made from."""

    backend: Backend
    autoscaling: Verdict | None
    """None keeps the present condition."""
    endpoint: Verdict | None
    """None keeps the present condition."""
    minimum_replicas: int | None
    """`scaling.min`; None when the spec cannot be read."""
    runtime: str
    """Name of the resolved runtime; empty when there is none."""
    epoch: int
    failure: Failure | None = None


def compute(service: LLMService, seen: Seen, now: str) -> LLMServiceStatus:
    """The status of `service`; `now` is the API's time format."""
    old = service.status
    backend = seen.backend
    conditions = tuple(map(_known, old.conditions))
    hard = _hard_reason(seen, find_condition(conditions, ConditionType.DEGRADED))
    phase = _phase(seen, hard)
    wanted = [
        (ConditionType.READY, _ready(seen, phase, hard)),
        (ConditionType.DEGRADED, _degraded(phase, hard)),
        (ConditionType.AUTOSCALING_READY, seen.autoscaling),
        (ConditionType.ENDPOINT_READY, seen.endpoint),
    ]
    for type_, verdict in wanted:
        if verdict is not None:
            new = Condition(
                type=type_,
                status=verdict.status,
                reason=verdict.reason,
                message=verdict.message,
                last_transition_time=now,
                observed_generation=service.metadata.generation,
            )
            conditions = set_condition(conditions, new)
    return LLMServiceStatus(
        phase=phase,
        resolved_runtime=seen.runtime or old.resolved_runtime,
        replicas=backend.ready,
        endpoint_url=endpoint_url(service.namespace, service.name),
        conditions=[LiveCondition(**msgspec.structs.asdict(condition)) for condition in conditions],
        shard_epoch=seen.epoch,
        last_activation=now if _wakes(old, backend) else old.last_activation,
        resolved_revision=old.resolved_revision,
    )


def differs(old: LLMServiceStatus, new: LLMServiceStatus) -> bool:
    """Whether `new` is worth a write. A new epoch alone is not: a takeover must not rewrite every status."""
    return msgspec.structs.replace(old, shard_epoch=new.shard_epoch) != new


def _phase(seen: Seen, hard: Failure | None) -> Phase:
    if seen.backend.ready > 0:
        return Phase.READY
    if hard is not None:
        return Phase.DEGRADED
    if seen.backend.is_awake:
        return Phase.LOADING
    return Phase.SCALED_TO_ZERO if seen.minimum_replicas == 0 else Phase.PENDING


def _hard_reason(seen: Seen, before: Condition | None) -> Failure | None:
    """The failure to show in Degraded, in the words of `before` where it says the same."""
    if seen.failure is not None:
        return seen.failure
    observation = seen.backend.observation
    if observation is None or not observation.is_hard:
        return None
    if before is not None and before.status == "True" and _is_same(before, observation):
        return Failure(before.reason, before.message)
    return Failure(observation.reason, observation.message)


def _is_same(before: Condition, observation: Observation) -> bool:
    if observation.pod and f"pod {observation.pod}" not in before.message:
        return False
    return before.reason == observation.reason or (
        before.reason == Reason.CRASH_LOOP_BACK_OFF and observation.reason == Reason.CONTAINER_RESTARTING
    )


def _ready(seen: Seen, phase: Phase, hard: Failure | None) -> Verdict:
    if phase is Phase.READY:
        count = seen.backend.ready
        return _said("True", Reason.AVAILABLE, f"{count} replica{'s' * (count != 1)} can serve requests")
    if hard is not None:
        return _said("False", hard.reason, hard.message)
    if phase is Phase.SCALED_TO_ZERO:
        return _said("False", Reason.SCALED_TO_ZERO, "the model sleeps; a request wakes it")
    if phase is Phase.PENDING:
        return _said("False", Reason.PENDING, "no replica was asked for yet")
    observation = seen.backend.observation
    if observation is None:
        return _said("False", Reason.ACTIVATING, "replicas were asked for; no pod exists yet")
    return _said("False", observation.reason, observation.message)


def _degraded(phase: Phase, hard: Failure | None) -> Verdict:
    if hard is not None:
        return _said("True", hard.reason, hard.message)
    if phase is Phase.READY:
        return _said("False", Reason.HEALTHY, "no failure is observed")
    if phase is Phase.SCALED_TO_ZERO:
        return _said("False", Reason.INACTIVE, "nothing runs")
    return _said("False", Reason.PROGRESSING, "no failure is observed so far")


def _wakes(old: LLMServiceStatus, backend: Backend) -> bool:
    return old.phase == Phase.SCALED_TO_ZERO and backend.is_awake


def _said(status: Status, reason: str, message: str) -> Verdict:
    return Verdict(status, str(reason), message)


def _known(live: LiveCondition) -> Condition:
    status: Status = "True" if live.status == "True" else "False" if live.status == "False" else "Unknown"
    return Condition(
        type=live.type,
        status=status,
        reason=live.reason,
        message=live.message,
        last_transition_time=live.last_transition_time or "1970-01-01T00:00:00Z",
        observed_generation=live.observed_generation,
    )

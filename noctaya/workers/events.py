"""Which events a change of status is worth: each transition once, named after what happened. Pure.

Events follow a status that was written, so a repeated observation, which changes no status, emits nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from noctaya.api.conditions import ConditionType, Phase, Reason
from noctaya.kube.objects import Condition, condition
from noctaya.workers.objects import LLMServiceStatus

ACTIVATED = "Activated"
READY = "Ready"
SCALED_TO_ZERO = "ScaledToZero"
RECONCILE_FAILED = "ReconcileFailed"


class Note(NamedTuple):
    """An event about the service."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str


def transitions(old: LLMServiceStatus, new: LLMServiceStatus) -> list[Note]:
    """What to tell, in the order in which a reader wants it."""
    return [*_degraded(old, new), *_phase(old, new), *_side(old, new)]


def _degraded(old: LLMServiceStatus, new: LLMServiceStatus) -> Iterator[Note]:
    before, after = _of(old, ConditionType.DEGRADED), _of(new, ConditionType.DEGRADED)
    if after.is_true and (not before.is_true or before.reason != after.reason):
        yield Note("Warning", after.reason, after.message)
    elif before.is_true and not after.is_true:
        yield Note("Normal", Reason.BACKEND_RECOVERED, f"{before.reason} is over")


def _phase(old: LLMServiceStatus, new: LLMServiceStatus) -> Iterator[Note]:
    if old.phase == new.phase:
        return
    if old.phase == Phase.SCALED_TO_ZERO and new.last_activation != old.last_activation:
        yield Note("Normal", ACTIVATED, "the model wakes: replicas were asked for")
    if new.phase == Phase.READY:
        yield Note("Normal", READY, _of(new, ConditionType.READY).message)
    elif new.phase == Phase.SCALED_TO_ZERO and old.phase:
        yield Note("Normal", SCALED_TO_ZERO, "the model went to sleep")


def _side(old: LLMServiceStatus, new: LLMServiceStatus) -> Iterator[Note]:
    """The conditions beside the backend. Their first good state is no news; their first bad one is."""
    for type_ in (ConditionType.AUTOSCALING_READY, ConditionType.ENDPOINT_READY):
        before, after = _of(old, type_), _of(new, type_)
        if after.status == "False" and (before.status != "False" or before.reason != after.reason):
            yield Note("Warning", after.reason, f"{type_}: {after.message}")
        elif before.status == "False" and after.is_true:
            yield Note("Normal", type_, f"{before.reason} is over: {after.message}")


def _of(status: LLMServiceStatus, type_: str) -> Condition:
    return condition(status.conditions, type_) or Condition(type=type_)

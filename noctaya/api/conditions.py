"""The words of a status: phases, condition types, reasons, and how one condition replaces another.

Operators and alerts match on these words, so they stay as they are known. Reasons are an open set: `Condition.reason` is
any CamelCase word, `Reason` lists those that somebody relies on. `set_condition` is pure and never moves
`lastTransitionTime` unless the status itself changed.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, Literal

import msgspec

Status = Literal["True", "False", "Unknown"]

MAX_MESSAGE: Final = 32768
"""Longest message that the condition schema of Kubernetes admits."""


class Phase(StrEnum):
    """Where a service stands, in one word."""

    PENDING = "Pending"
    LOADING = "Loading"
    READY = "Ready"
    SCALED_TO_ZERO = "ScaledToZero"
    DEGRADED = "Degraded"


class ConditionType(StrEnum):
    """What a condition of an LLMService speaks about."""

    READY = "Ready"
    """At least one backend replica can serve requests."""
    DEGRADED = "Degraded"
    """Kubernetes currently observes a hard failure of the backend's activation."""
    AUTOSCALING_READY = "AutoscalingReady"
    """The KEDA resources are configured."""
    ENDPOINT_READY = "EndpointReady"
    """Every name and hostname that the service claims leads to it."""


class Reason(StrEnum):
    """Why a condition has its status."""

    # The backend serves, sleeps, or is on its way.
    AVAILABLE = "Available"
    HEALTHY = "Healthy"
    PROGRESSING = "Progressing"
    INACTIVE = "Inactive"
    PENDING = "Pending"
    SCALED_TO_ZERO = "ScaledToZero"
    ACTIVATING = "Activating"
    STARTING = "Starting"
    MODEL_LOADING = "ModelLoading"
    SCHEDULING_DELAYED = "SchedulingDelayed"
    # Hard failures that Kubernetes reports.
    IMAGE_PULL_FAILED = "ImagePullFailed"
    OOM_KILLED = "OOMKilled"
    CRASH_LOOP_BACK_OFF = "CrashLoopBackOff"
    CONTAINER_RESTARTING = "ContainerRestarting"
    PROGRESS_DEADLINE_EXCEEDED = "ProgressDeadlineExceeded"
    PREWARM_FAILED = "PrewarmFailed"
    # Something the user wrote cannot be served.
    INVALID_SPEC = "InvalidSpec"
    RUNTIME_RESOLUTION = "RuntimeResolution"
    UNSUPPORTED_VENDOR = "UnsupportedVendor"
    MODEL_RESOLUTION = "ModelResolution"
    RENDER = "Render"
    SCALED_OBJECT = "ScaledObject"
    CACHE = "Cache"
    PREWARM = "Prewarm"
    NAME_CONFLICT = "NameConflict"
    # Children could not be applied or observed.
    AUTOSCALING_UNAVAILABLE = "AutoscalingUnavailable"
    APPLY_SCALED_OBJECT = "ApplyScaledObject"
    APPLY_CACHE_PVC = "ApplyCachePVC"
    APPLY_PREWARM_JOB = "ApplyPrewarmJob"
    APPLY_DEPLOYMENT = "ApplyDeployment"
    APPLY_BACKEND_SERVICE = "ApplyBackendService"
    APPLY_GATEWAY_SERVICE = "ApplyGatewayService"
    OBSERVE_PREWARM_JOB = "ObservePrewarmJob"
    OBSERVE_BACKEND_DEPLOYMENT = "ObserveBackendDeployment"
    OBSERVE_BACKEND_PODS = "ObserveBackendPods"
    # Things are as they should be.
    SCALED_OBJECT_APPLIED = "ScaledObjectApplied"
    PUBLISHED = "Published"
    # A backend that had failed serves again (an event's reason).
    BACKEND_RECOVERED = "BackendRecovered"


class Condition(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """One condition, as it stands in a live object's `status.conditions`."""

    type: str
    status: Status
    reason: str
    message: str
    last_transition_time: str
    """RFC 3339, whole seconds, UTC."""
    observed_generation: int = 0


def set_condition(conditions: Sequence[Condition], new: Condition) -> tuple[Condition, ...]:
    """`conditions` with `new` in place of the one of its type, or at the end.

    `new.last_transition_time` is the present; the old time stays where the status does not change. An over-long message is
    cut, because the API server would refuse the whole status for it.
    """
    if len(new.message) > MAX_MESSAGE:
        new = msgspec.structs.replace(new, message=new.message[: MAX_MESSAGE - 1] + "…")
    old = find_condition(conditions, new.type)
    if old is None:
        return (*conditions, new)
    if old.status == new.status:
        new = msgspec.structs.replace(new, last_transition_time=old.last_transition_time)
    return tuple(new if condition is old else condition for condition in conditions)


def find_condition(conditions: Sequence[Condition], type_: str) -> Condition | None:
    """The condition of that type, if it is set."""
    return next((condition for condition in conditions if condition.type == type_), None)

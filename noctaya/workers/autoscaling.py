"""The AutoscalingReady condition: not only that a ScaledObject was applied, but that KEDA made something of it. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from noctaya.api.conditions import Reason, Status
from noctaya.kube.objects import ScaledObject, condition
from noctaya.workers.objects import ScaledHPA

SCALER_UNREACHABLE = "ScalerUnreachable"
WAITING_FOR_KEDA = "WaitingForKEDA"
SCALED_OBJECT_NOT_READY = "ScaledObjectNotReady"
SCALED_OBJECT_PAUSED = "ScaledObjectPaused"
WRONG_HPA_METRICS = "WrongHPAMetrics"


class Verdict(NamedTuple):
    """A condition without its type and times."""

    status: Status
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class Autoscaling:
    """What is known of the autoscaler's side."""

    is_keda_served: bool
    """The API server knows the kind ScaledObject."""
    is_scaler_reachable: bool
    """This fleet's scaler was called through the name that KEDA uses."""
    live: ScaledObject | None = None
    hpa: ScaledHPA | None = None
    failure: str = ""
    """Why the ScaledObject could not be applied; empty when it could."""


def verdict(seen: Autoscaling) -> Verdict:
    """The condition for what was seen, first match from above."""
    if not seen.is_keda_served:
        return Verdict(
            "False",
            Reason.AUTOSCALING_UNAVAILABLE,
            "the cluster does not serve KEDA's ScaledObject: install KEDA; the service is set up as soon as it is there",
        )
    if seen.failure:
        return Verdict("False", Reason.APPLY_SCALED_OBJECT, seen.failure)
    if seen.live is None and not seen.is_scaler_reachable:
        return Verdict(
            "False",
            SCALER_UNREACHABLE,
            "the external scaler cannot be reached by the name that KEDA would use; the ScaledObject is created when it can",
        )
    ready = condition(seen.live.status.conditions, "Ready") if seen.live is not None else None
    if seen.live is None or ready is None or (ready.status == "Unknown" and not ready.reason):
        return Verdict("Unknown", WAITING_FOR_KEDA, "KEDA has not looked at the ScaledObject yet")
    paused = condition(seen.live.status.conditions, "Paused")
    if paused is not None and paused.is_true:
        return Verdict(
            "False",
            SCALED_OBJECT_PAUSED,
            f"ScaledObject {seen.live.name} is paused by an annotation: it does not scale",
        )
    if not ready.is_true:
        return Verdict("False", SCALED_OBJECT_NOT_READY, f"KEDA: {ready.message or ready.reason}")
    if seen.hpa is not None and not scales_on_demand(seen.hpa):
        return Verdict(
            "False",
            WRONG_HPA_METRICS,
            f"HorizontalPodAutoscaler {seen.hpa.name} does not scale on this service's demand",
        )
    return Verdict("True", Reason.SCALED_OBJECT_APPLIED, "KEDA scales the service by its demand")


def is_waiting_worthwhile(given: Verdict) -> bool:
    """Whether the verdict may pass by itself in a moment, so that a good condition should not flap for it."""
    return given.reason == SCALED_OBJECT_NOT_READY


def is_stuck(seen: Autoscaling) -> bool:
    """Whether KEDA built something that will not scale the service, and may not repair by itself.

    KEDA up to 2.19 builds an HPA on CPU when it cannot ask the scaler during its reconcile, and keeps it (keda#5787,
    keda#7729); a trigger that failed to build stays unbuilt until the spec changes.
    """
    return verdict(seen).reason in (SCALED_OBJECT_NOT_READY, WRONG_HPA_METRICS)


def scales_on_demand(hpa: ScaledHPA) -> bool:
    """Whether the HPA has an external metric; one without metrics yet is given the benefit of the doubt."""
    return not hpa.spec.metrics or any(metric.type == "External" for metric in hpa.spec.metrics)

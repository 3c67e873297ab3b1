"""The ScaledObject that hands a Deployment's replicas to KEDA, and when it must be rebuilt.

KEDA pushes and polls one address for all services; which service is meant stands in the request. `pollingInterval` is long,
because the push carries every activation; but KEDA counts the cooldown from what a poll saw, so the interval is at most half
the cooldown and never under 5 s. KEDA ignores trigger metadata that it does not know: `noctayaRevision` is there to make it
build the trigger anew when it gave up on it.
"""

from __future__ import annotations

from typing import Any

from noctaya.api.conditions import Reason
from noctaya.api.llmservice import LLMServiceSpec
from noctaya.kube.objects import ScaledObject
from noctaya.workers.errors import SpecProblem
from noctaya.workers.recency import HOLD

METRIC_NAME = "pending"
REVISION = "noctayaRevision"
SHORTEST_POLLING_SECONDS = 5


def scaled_object_spec(
    name: str, spec: LLMServiceSpec, *, scaler_address: str, polling_interval_seconds: int, revision: int
) -> dict[str, Any]:
    """`spec` of the ScaledObject.

    Raises:
        SpecProblem: ScaledObject; what neither KEDA nor this version can do.
    """
    scaling = spec.scaling
    if scaling.metric != "queueDepth":
        raise SpecProblem(
            Reason.SCALED_OBJECT,
            f"spec.scaling.metric {scaling.metric} is not supported yet by this version; use queueDepth",
        )
    if scaling.external_scaler is not None and scaling.external_scaler.tls is not None:
        raise SpecProblem(
            Reason.SCALED_OBJECT,
            "spec.scaling.externalScaler.tls is not supported yet by this version; remove it",
        )
    cooldown = int(scaling.scale_down_stabilization.seconds)
    polling = polling_interval(polling_interval_seconds, cooldown)
    return {
        "scaleTargetRef": {"name": name},
        "minReplicaCount": scaling.min,
        "maxReplicaCount": scaling.max,
        "pollingInterval": polling,
        "cooldownPeriod": cooldown,
        "advanced": {
            "horizontalPodAutoscalerConfig": {
                "behavior": {"scaleDown": {"stabilizationWindowSeconds": cooldown}},
            }
        },
        "triggers": [
            {
                "type": "external-push",
                "metadata": {
                    "scalerAddress": scaler_address,
                    "metricName": METRIC_NAME,
                    "targetValue": str(scaling.target),
                    HOLD: str(max(1, min(cooldown, polling))),
                    REVISION: str(revision),
                },
            }
        ],
    }


def polling_interval(setting_seconds: int, cooldown_seconds: int) -> int:
    """Seconds between polls: the setting, but at most half the cooldown, and at least 5."""
    return max(SHORTEST_POLLING_SECONDS, min(setting_seconds, cooldown_seconds // 2))


def revision_of(live: ScaledObject | None) -> int:
    """The revision that stands in a live ScaledObject; 0 when it has none."""
    for trigger in live.spec.triggers if live is not None else ():
        text = trigger.metadata.get(REVISION, "")
        if text.isdecimal():
            return int(text)
    return 0

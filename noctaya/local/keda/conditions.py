"""The conditions of a ScaledObject with KEDA's types and reasons (keda.md, section 5).

KEDA writes them without lastTransitionTime and without observedGeneration; so do we, because a controller that waits for
either would work here and hang on a real cluster.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

READY = "Ready"
ACTIVE = "Active"
FALLBACK = "Fallback"
PAUSED = "Paused"
HPA_ACTIVE = "HPAActive"


@dataclass(frozen=True, slots=True)
class Condition:
    """One entry of `status.conditions`; `status` is "True", "False" or "Unknown"."""

    type: str
    status: str
    reason: str = ""
    message: str = ""

    def as_json(self) -> dict[str, str]:
        """The entry as the API stores it; empty words are left out, as KEDA does."""
        entry = {"type": self.type, "status": self.status}
        if self.reason:
            entry["reason"] = self.reason
        if self.message:
            entry["message"] = self.message
        return entry


INITIAL = (
    Condition(READY, "Unknown"),
    Condition(ACTIVE, "Unknown"),
    Condition(FALLBACK, "Unknown"),
    Condition(PAUSED, "False", "ScaledObjectUnpaused"),
)

READY_TRUE = Condition(
    READY, "True", "ScaledObjectReady", "The ScaledObject is defined correctly and can scale its target"
)
READY_PARTIAL = Condition(
    READY, "Unknown", "PartialTriggerError", "Some triggers are active, some answer with errors"
)
READY_TRIGGER_ERROR = Condition(
    READY,
    "False",
    "TriggerError",
    "The triggers answer with errors; the target's replicas are left as they are",
)
ACTIVE_TRUE = Condition(ACTIVE, "True", "ScalerActive", "Scaling is performed: a trigger is active")
ACTIVE_FALSE = Condition(ACTIVE, "False", "ScalerNotActive", "Scaling is not performed: no trigger is active")
ACTIVE_COOLDOWN = Condition(
    ACTIVE, "False", "ScalerCooldown", "No trigger is active; the cooldown is running"
)
ACTIVE_UNKNOWN = Condition(ACTIVE, "Unknown", "UnknownState", "The ScaledObject's check failed")
FALLBACK_FALSE = Condition(FALLBACK, "False", "NoFallbackFound", "No fallback is active")
PAUSED_TRUE = Condition(PAUSED, "True", "ScaledObjectPaused", "The ScaledObject is paused by an annotation")
PAUSED_FALSE = Condition(PAUSED, "False", "ScaledObjectUnpaused", "The ScaledObject is not paused")


def check_failed(message: str) -> Condition:
    """Ready=False after a reconcile that failed; the message carries the error."""
    return Condition(READY, "False", "ScaledObjectCheckFailed", message)


def replicas_unknown(message: str) -> Condition:
    """Ready=False because the target's replicas could not be read."""
    return Condition(READY, "False", "ErrorGettingCurrentReplicas", message)


def read(status: Mapping[str, Any], type_: str) -> Condition:
    """The condition of that type; Unknown without a reason when the status has none."""
    for entry in status.get("conditions") or ():
        if entry.get("type") == type_:
            return Condition(
                type_, entry.get("status", "Unknown"), entry.get("reason", ""), entry.get("message", "")
            )
    return Condition(type_, "Unknown")


def merged(status: Mapping[str, Any], changes: Iterable[Condition]) -> list[dict[str, str]]:
    """The whole list with `changes` in place; order is kept, a new type goes last."""
    entries = {entry["type"]: dict(entry) for entry in status.get("conditions") or ()}
    for change in changes:
        entries[change.type] = change.as_json()
    return list(entries.values())

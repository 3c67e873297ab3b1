"""KEDA's scale executor: from "is a trigger active?" to the target's replicas (keda.md, table 4.4).

Pure and without memory: what is known goes in, one decision comes out, named by its row in the table. The shell holds the
ScaledObject's mutex while it carries the decision out, writes the scale first, and then records `on_success` or
`on_failure`. Invariant: an error among inactive triggers (I2) never changes replicas. The rows for `fallback` (I1 and its
hole) are missing, because a ScaledObject with a fallback is refused.
"""

from dataclasses import dataclass

from noctaya.local.keda import conditions
from noctaya.local.keda.conditions import Condition


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """What the executor looks at. Times are wall-clock seconds; `last_active_at` has a resolution of one second."""

    active: bool
    error: bool
    current: int
    """The target's `spec.replicas`."""
    minimum: int = 0
    idle: int | None = None
    created_at: float = 0.0
    last_active_at: float | None = None
    cooldown_seconds: float = 300.0
    initial_cooldown_seconds: float = 0.0
    active_status: str = "Unknown"
    """Status of the Active condition so far."""
    is_paused: bool = False
    blocks_scale_in: bool = False
    blocks_scale_out: bool = False
    forces_activation: bool = False


@dataclass(frozen=True, slots=True)
class Event:
    """A Kubernetes event about the ScaledObject."""

    reason: str
    message: str
    type: str = "Normal"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What is recorded after the decision was carried out."""

    marks_active: bool = False
    """Whether `status.lastActiveTime` becomes now."""
    conditions: tuple[Condition, ...] = ()
    event: Event | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """`row` is the row of table 4.4; `replicas` is None when the target is left alone (then `on_success` applies)."""

    row: str
    replicas: int | None = None
    on_success: Outcome = Outcome()
    on_failure: Outcome = Outcome()


def decide(situation: Situation, now: float) -> Decision:
    """The one row of table 4.4 that fits. `now` is wall-clock seconds."""
    if situation.is_paused:
        return Decision("paused")
    if situation.active or situation.forces_activation:
        return _active(situation)
    return _inactive(situation, now)


def _active(situation: Situation) -> Decision:
    ready = () if situation.error else (conditions.READY_TRUE,)
    became_active = (*ready, conditions.ACTIVE_TRUE)
    below_minimum = situation.idle is not None and situation.current < situation.minimum
    if situation.current == 0 or below_minimum:
        if situation.blocks_scale_out:
            return Decision("A1", on_success=Outcome(conditions=became_active))
        wanted = max(1, situation.minimum)
        return Decision(
            "A1",
            replicas=wanted,
            on_success=Outcome(
                marks_active=True,
                conditions=became_active,
                event=Event(
                    "KEDAScaleTargetActivated", f"Scaled the target from {situation.current} to {wanted}"
                ),
            ),
            on_failure=Outcome(
                conditions=became_active,
                event=Event(
                    "KEDAScaleTargetActivationFailed",
                    f"Could not scale the target from {situation.current} to {wanted}",
                    "Warning",
                ),
            ),
        )
    if situation.error:
        return Decision(
            "A2", on_success=Outcome(conditions=(conditions.READY_PARTIAL, conditions.ACTIVE_TRUE))
        )
    return Decision("A3", on_success=Outcome(marks_active=True, conditions=became_active))


def _inactive(situation: Situation, now: float) -> Decision:
    turned_inactive = () if situation.active_status == "False" else (conditions.ACTIVE_FALSE,)
    if situation.error:
        return Decision(
            "I2", on_success=Outcome(conditions=(conditions.READY_TRIGGER_ERROR, *turned_inactive))
        )
    rests_at_idle = situation.idle is not None and situation.current > situation.idle
    if rests_at_idle or (situation.current > 0 and situation.minimum == 0):
        return _to_zero_or_idle(situation, now, turned_inactive)
    if situation.idle is None and situation.current < situation.minimum:
        return Decision(
            "I4",
            replicas=situation.minimum,
            on_success=Outcome(conditions=(conditions.READY_TRUE, *turned_inactive)),
            on_failure=Outcome(conditions=(conditions.READY_TRUE, *turned_inactive)),
        )
    return Decision("I5", on_success=Outcome(conditions=(conditions.READY_TRUE, *turned_inactive)))


def _to_zero_or_idle(situation: Situation, now: float, turned_inactive: tuple[Condition, ...]) -> Decision:
    if situation.blocks_scale_in:
        return Decision("I3", on_success=Outcome(conditions=(conditions.READY_TRUE, *turned_inactive)))
    if not _is_cooled_down(situation, now):
        return Decision(
            "I3", on_success=Outcome(conditions=(conditions.READY_TRUE, conditions.ACTIVE_COOLDOWN))
        )
    wanted = situation.idle if situation.idle is not None else situation.minimum
    return Decision(
        "I3",
        replicas=wanted,
        on_success=Outcome(
            conditions=(conditions.READY_TRUE, conditions.ACTIVE_FALSE),
            event=Event(
                "KEDAScaleTargetDeactivated", f"Scaled the target from {situation.current} to {wanted}"
            ),
        ),
        on_failure=Outcome(
            conditions=(conditions.READY_TRUE, *turned_inactive),
            event=Event(
                "KEDAScaleTargetDeactivationFailed",
                f"Could not scale the target from {situation.current} to {wanted}",
                "Warning",
            ),
        ),
    )


def _is_cooled_down(situation: Situation, now: float) -> bool:
    # The initial cooldown counts only while nothing was ever active; its default of 0 is why a new, idle target goes to
    # zero at its very first poll (E9).
    if situation.last_active_at is None:
        return situation.created_at + situation.initial_cooldown_seconds < now
    return situation.last_active_at + situation.cooldown_seconds < now

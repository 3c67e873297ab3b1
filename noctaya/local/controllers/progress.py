"""A Deployment's status: counts and the conditions Available and Progressing, by Kubernetes' rules. Pure.

Like there, a Deployment whose rollout has completed once (NewReplicaSetAvailable) stays so while only its size changes:
scaling from zero never becomes ProgressDeadlineExceeded by itself.
"""

from noctaya.local.controllers.records import Json, seconds_of, wall_time
from noctaya.local.controllers.rollout import SetState, Strategy


def deployment_status(
    spec: Json,
    before: Json,
    generation: int,
    strategy: Strategy,
    new: SetState | None,
    old: list[SetState],
    now: float,
) -> Json:
    """The complete new status; `now` is wall time in seconds."""
    replicas = int(spec.get("replicas", 1))
    every = [*old, new] if new is not None else old
    total = sum(item.pods for item in every)
    available = sum(item.available for item in every)
    counts = {
        "replicas": total,
        "updatedReplicas": new.pods if new is not None else 0,
        "readyReplicas": sum(item.ready for item in every),
        "availableReplicas": available,
        # Counted against what the ReplicaSets are asked for, as there.
        "unavailableReplicas": max(0, sum(item.wanted for item in every) - available),
    }
    conditions = {item["type"]: item for item in before.get("conditions") or ()}
    if available >= replicas - strategy.unavailable:
        verdict = ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        verdict = ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    set_condition(conditions, "Available", *verdict, now)
    set_progressing(conditions, spec, before, counts, replicas, new, now)
    status: Json = {"observedGeneration": generation}
    status.update({name: count for name, count in counts.items() if count})
    status["conditions"] = list(conditions.values())
    return status


def set_progressing(
    conditions: dict[str, Json],
    spec: Json,
    before: Json,
    counts: Json,
    replicas: int,
    new: SetState | None,
    now: float,
) -> None:
    """The condition by which `kubectl rollout status` and our own worker judge a rollout."""
    current = conditions.get("Progressing")
    name = new.name if new is not None else ""
    is_settled = (
        counts["replicas"] == counts["updatedReplicas"]
        and current is not None
        and current.get("reason") == "NewReplicaSetAvailable"
        and f'"{name}"' in current.get("message", "")
    )
    if is_settled or new is None:
        return
    is_complete = (
        counts["updatedReplicas"] == replicas
        and counts["replicas"] == replicas
        and counts["availableReplicas"] == replicas
        and new.wanted == replicas
    )
    if is_complete:
        text = f'ReplicaSet "{name}" has successfully progressed.'
        set_condition(conditions, "Progressing", "True", "NewReplicaSetAvailable", text, now)
    elif current is None or f'"{name}"' not in current.get("message", ""):
        text = f'Created new replica set "{name}"'
        set_condition(conditions, "Progressing", "True", "NewReplicaSetCreated", text, now)
    elif has_moved(before, counts):
        text = f'ReplicaSet "{name}" is progressing.'
        set_condition(conditions, "Progressing", "True", "ReplicaSetUpdated", text, now, touch=True)
    elif (due := deadline(spec, current)) is not None and now >= due:
        text = f'ReplicaSet "{name}" has timed out progressing.'
        set_condition(conditions, "Progressing", "False", "ProgressDeadlineExceeded", text, now)


def has_moved(before: Json, counts: dict[str, int]) -> bool:
    """More updated, ready or available pods than before, or fewer old ones."""

    def was(name: str) -> int:
        return int(before.get(name, 0))

    old_before = was("replicas") - was("updatedReplicas")
    return (
        counts["updatedReplicas"] > was("updatedReplicas")
        or counts["replicas"] - counts["updatedReplicas"] < old_before
        or counts["readyReplicas"] > was("readyReplicas")
        or counts["availableReplicas"] > was("availableReplicas")
    )


def deadline(spec: Json, progressing: Json | None) -> float | None:
    """Wall time at which a rollout that does not move counts as failed; None when it cannot."""
    seconds = spec.get("progressDeadlineSeconds", 600)
    if seconds is None or progressing is None or spec.get("paused"):
        return None
    if progressing.get("reason") in {"NewReplicaSetAvailable", "ProgressDeadlineExceeded"}:
        return None
    return seconds_of(progressing.get("lastUpdateTime") or progressing["lastTransitionTime"]) + float(seconds)


def set_condition(
    conditions: dict[str, Json],
    kind: str,
    status: str,
    reason: str,
    message: str,
    now: float,
    *,
    touch: bool = False,
) -> None:
    """Change a condition only when it says something new (or its update time matters, `touch`)."""
    old = conditions.get(kind, {})
    if (old.get("status"), old.get("reason"), old.get("message")) == (status, reason, message) and not touch:
        return
    at = wall_time(now)
    since = old.get("lastTransitionTime", at) if old.get("status") == status else at
    conditions[kind] = {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": message,
        "lastUpdateTime": at,
        "lastTransitionTime": since,
    }

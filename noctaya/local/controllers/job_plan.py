"""What a Job's controller should do next, from its pods: Kubernetes' rules for non-indexed Jobs. Pure.

Failures: with restartPolicy Never each failed pod counts, and the Job fails when they exceed backoffLimit; with OnFailure the
restarts inside the living pods count, and it fails when they reach it. Replacement pods come after 10 s, 20 s, … up to 6 min.
"""

from dataclasses import dataclass

from noctaya.local.controllers.records import Json, seconds_of

LONGEST_PAUSE_SECONDS = 360.0


@dataclass(frozen=True, slots=True)
class PodState:
    """One pod of the Job."""

    name: str
    phase: str
    is_deleting: bool = False
    is_ready: bool = False
    restarts: int = 0
    finished: float = 0.0
    """Wall time of its end, 0 while it lives."""

    @property
    def is_active(self) -> bool:
        """Counts as running."""
        return self.phase not in {"Succeeded", "Failed"} and not self.is_deleting


@dataclass(frozen=True, slots=True)
class Plan:
    """The next step."""

    create: int = 0
    delete: tuple[str, ...] = ()
    verdict: str = ""
    """`Complete` or `Failed` when the Job is over."""
    reason: str = ""
    message: str = ""
    look_again: float | None = None
    """Wall time at which time alone changes the answer."""


def plan(spec: Json, started: float, pods: list[PodState], now: float, base_seconds: float) -> Plan:
    """Decide for a Job that is not over and not suspended."""
    completions = int(spec.get("completions") or 1)
    parallelism = int(spec.get("parallelism", 1))
    limit = int(spec.get("backoffLimit", 6))
    active = [pod for pod in pods if pod.is_active]
    names = tuple(pod.name for pod in active)
    succeeded = sum(1 for pod in pods if pod.phase == "Succeeded")
    failed = [pod for pod in pods if pod.phase == "Failed"]
    if succeeded >= completions:
        return Plan(
            delete=names,
            verdict="Complete",
            reason="CompletionsReached",
            message="Reached expected number of succeeded pods",
        )
    if reached_limit(spec, limit, active, failed):
        text = "Job has reached the specified backoff limit"
        return Plan(delete=names, verdict="Failed", reason="BackoffLimitExceeded", message=text)
    deadline = spec.get("activeDeadlineSeconds")
    ends = started + float(deadline) if deadline is not None else None
    if ends is not None and now >= ends:
        text = "Job was active longer than specified deadline"
        return Plan(delete=names, verdict="Failed", reason="DeadlineExceeded", message=text)
    wanted = min(parallelism, completions - succeeded)
    if len(active) > wanted:
        return Plan(delete=names[wanted:], look_again=ends)
    missing = wanted - len(active)
    if missing and failed:
        pause = min(base_seconds * 2 ** (len(failed) - 1), LONGEST_PAUSE_SECONDS)
        due = max(pod.finished for pod in failed) + pause
        if now < due:
            return Plan(look_again=due if ends is None else min(due, ends))
    return Plan(create=missing, look_again=ends)


def reached_limit(spec: Json, limit: int, active: list[PodState], failed: list[PodState]) -> bool:
    """Whether the Job has failed often enough."""
    policy = ((spec.get("template") or {}).get("spec") or {}).get("restartPolicy")
    if policy == "OnFailure":
        restarts = sum(pod.restarts for pod in active)
        if restarts and restarts >= max(limit, 1):
            return True
    return len(failed) > limit


def end_of(status: Json) -> float:
    """Wall time at which a finished pod's last container ended; 0 when nothing says so."""
    ends = [
        state["terminated"].get("finishedAt")
        for item in status.get("containerStatuses") or ()
        if (state := item.get("state") or {}).get("terminated")
    ]
    return max((seconds_of(end) for end in ends if end), default=0.0)

"""Which pods a ReplicaSet gives up first: Kubernetes' order. Pure."""

from noctaya.local.controllers.records import Record, pod_is_ready, ready_since, seconds_of

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


def expendable_first(pods: list[Record]) -> list[Record]:
    """Not bound, not running, not ready, cheap, recently ready, often restarted, young: in this order of weight."""
    return sorted(pods, key=rank)


def rank(pod: Record) -> tuple[object, ...]:
    """Smaller goes first."""
    since = ready_since(pod)
    restarts = max(
        (item.get("restartCount", 0) for item in pod.status.get("containerStatuses") or ()), default=0
    )
    created = pod.metadata.creation_timestamp
    return (
        bool(pod.spec.get("nodeName")),
        PHASES.get(pod.status.get("phase", ""), 1),
        pod_is_ready(pod),
        deletion_cost(pod),
        -seconds_of(since) if since else 0.0,
        -restarts,
        -seconds_of(created) if created else 0.0,
        pod.name,
    )


def deletion_cost(pod: Record) -> int:
    """The annotation's number; 0 without one or when it is not a number."""
    try:
        return int(pod.metadata.annotations.get(DELETION_COST, "0"))
    except ValueError:
        return 0

"""Whether a pod fits the only node, and if not, why, in a scheduler's words. Pure."""

from dataclasses import dataclass
from decimal import Decimal

from noctaya.api.quantities import Quantity
from noctaya.local.controllers.records import Json, Record


@dataclass(frozen=True, slots=True)
class NodeState:
    """The node as a scheduler sees it."""

    labels: dict[str, str]
    allocatable: dict[str, Decimal]


def misfit(pod: Record, others: list[Record], node: NodeState, *, counts_cpu_and_memory: bool) -> str | None:
    """Why the pod cannot be bound, or None when it fits beside the other pods of the node."""
    reasons = []
    selector = pod.spec.get("nodeSelector") or {}
    if any(node.labels.get(key) != value for key, value in selector.items()):
        reasons.append("1 node(s) didn't match Pod's node affinity/selector")
    used: dict[str, Decimal] = {}
    for other in others:
        for name, amount in requests(other.spec).items():
            used[name] = used.get(name, Decimal(0)) + amount
    for name, amount in requests(pod.spec).items():
        if name in {"cpu", "memory", "ephemeral-storage"} and not counts_cpu_and_memory:
            continue
        if amount and used.get(name, Decimal(0)) + amount > node.allocatable.get(name, Decimal(0)):
            reasons.append(f"1 Insufficient {name}")
    if not reasons:
        return None
    return f"0/1 nodes are available: {', '.join(reasons)}."


def requests(spec: Json) -> dict[str, Decimal]:
    """What a pod asks for: the containers' sum, or the largest init container where that is more.

    A limit without a request is a request, as the API server defaults it.
    """
    total: dict[str, Decimal] = {}
    for container in spec.get("containers") or ():
        for name, amount in container_requests(container).items():
            total[name] = total.get(name, Decimal(0)) + amount
    for container in spec.get("initContainers") or ():
        for name, amount in container_requests(container).items():
            total[name] = max(total.get(name, Decimal(0)), amount)
    return total


def container_requests(container: Json) -> dict[str, Decimal]:
    """One container's requests, limits filling the gaps."""
    resources = container.get("resources") or {}
    amounts = {**(resources.get("limits") or {}), **(resources.get("requests") or {})}
    return {name: Quantity.parse(str(amount)).value for name, amount in amounts.items()}

"""How a Deployment's ReplicaSets should be sized next: Kubernetes' RollingUpdate and Recreate arithmetic. Pure.

Invariants (RollingUpdate): the sum of wanted replicas never grows above `replicas + maxSurge`, and no old pod is given up
while that would leave fewer than `replicas - maxUnavailable` available ones. Proportional scaling of a rollout in progress is left out:
the new ReplicaSet takes what is missing and the old ones shrink.
"""

import math
from dataclasses import dataclass, replace

from noctaya.local.controllers.records import Json


@dataclass(frozen=True, slots=True)
class SetState:
    """One ReplicaSet: what it is asked for (`wanted`) and what it has."""

    name: str
    wanted: int
    pods: int = 0
    ready: int = 0
    available: int = 0
    created: str = ""
    revision: int = 0


@dataclass(frozen=True, slots=True)
class Strategy:
    """The strategy in whole pods."""

    is_recreate: bool = False
    surge: int = 1
    unavailable: int = 0


def read_strategy(spec: Json, replicas: int) -> Strategy:
    """Resolve percentages; surge rounds up, unavailable down, and not both are zero."""
    strategy = spec.get("strategy") or {}
    if strategy.get("type") == "Recreate":
        return Strategy(is_recreate=True, surge=0, unavailable=replicas)
    rolling = strategy.get("rollingUpdate") or {}
    surge = amount(rolling.get("maxSurge", "25%"), replicas, up=True)
    unavailable = amount(rolling.get("maxUnavailable", "25%"), replicas, up=False)
    if surge == 0 and unavailable == 0:
        unavailable = 1
    return Strategy(surge=surge, unavailable=min(unavailable, replicas) if replicas else unavailable)


def amount(value: int | str, replicas: int, *, up: bool) -> int:
    """An int-or-percentage as a number of pods."""
    if isinstance(value, int):
        return value
    if value.endswith("%"):
        exact = int(value[:-1]) * replicas / 100
        return math.ceil(exact) if up else math.floor(exact)
    return int(value)


def next_sizes(
    replicas: int, strategy: Strategy, new: SetState | None, old: list[SetState], *, old_pods_left: bool
) -> dict[str, int]:
    """New sizes of the ReplicaSets that change in this step; `new` is None until it exists.

    `old_pods_left`: a pod of an old ReplicaSet still runs or is going (Recreate waits for it).
    """
    old = [item for item in old if item.wanted > 0 or item.pods > 0]
    if strategy.is_recreate:
        sizes = {item.name: 0 for item in old if item.wanted > 0}
        if not sizes and not old_pods_left and new is not None and new.wanted != replicas:
            sizes[new.name] = replicas
        return sizes
    sizes = {}
    if new is not None:
        wanted = new_size(replicas, strategy, new, old)
        if wanted != new.wanted:
            return {new.name: wanted}
        sizes.update(shrink_old(replicas, strategy, new, old))
    return sizes


def new_size(replicas: int, strategy: Strategy, new: SetState, old: list[SetState]) -> int:
    """The new ReplicaSet grows into the room that surge leaves."""
    if new.wanted >= replicas:
        return replicas
    total = new.wanted + sum(item.wanted for item in old)
    room = replicas + strategy.surge - total
    return new.wanted + max(0, min(room, replicas - new.wanted))


def shrink_old(replicas: int, strategy: Strategy, new: SetState, old: list[SetState]) -> dict[str, int]:
    """Old ReplicaSets give up unhealthy pods first, then as many as availability allows, oldest first."""
    old = [item for item in old if item.wanted > 0]
    total = new.wanted + sum(item.wanted for item in old)
    least = replicas - strategy.unavailable
    may_go = total - least - (new.wanted - min(new.available, new.wanted))
    if not old or may_go <= 0:
        return {}
    oldest_first = sorted(old, key=lambda item: (item.created, item.name))
    sizes: dict[str, int] = {}
    kept: list[SetState] = []
    cleaned = 0
    for item in oldest_first:
        unhealthy = max(0, item.wanted - item.available)
        count = min(may_go - cleaned, unhealthy)
        cleaned += count
        if count:
            sizes[item.name] = item.wanted - count
        kept.append(replace(item, wanted=item.wanted - count))
    available = min(new.available, new.wanted) + sum(min(item.available, item.wanted) for item in kept)
    surplus = available - least
    for item in kept:
        count = min(item.wanted, max(0, surplus))
        surplus -= count
        if count:
            sizes[item.name] = item.wanted - count
    return sizes


def surplus_history(old: list[SetState], limit: int) -> list[str]:
    """Names of the empty old ReplicaSets beyond the history limit, oldest revision first."""
    empty = sorted(
        (item for item in old if item.wanted == 0 and item.pods == 0), key=lambda item: item.revision
    )
    return [item.name for item in empty[: max(0, len(empty) - limit)]]

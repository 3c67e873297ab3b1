"""Why a shard is where it is, and what another number of workers would change: answers for people, never for the plan.

Both run the very function that plans (`assign`), so they cannot tell another story than the one that happens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from noctaya.leader.assignment import Candidate, Role, assign
from noctaya.leader.rendezvous import shard_scores


@dataclass(frozen=True, slots=True)
class Preference:
    """One worker's claim to one shard."""

    pod: str
    score: int
    """Rendezvous; the highest is preferred."""
    role: Role
    held: int
    """Shards that the map gives it now."""
    floor: int | None
    ceiling: int | None
    """Its share; None when it may receive nothing."""


@dataclass(frozen=True, slots=True)
class Explanation:
    """For `noctaya why SHARD`."""

    shard: int
    owner: str | None
    """Desired now."""
    planned: str | None
    """Desired when all that is due has been done; the same as `owner` when nothing is."""
    preferences: tuple[Preference, ...]
    """Most preferred first."""
    because: str


def explain(
    shard: int,
    previous: Mapping[int, str | None],
    workers: Sequence[Candidate],
    *,
    slack: int = 0,
    newest: str | None = None,
    is_balancing: bool = True,
) -> Explanation:
    """Why `shard` is where `previous` has it, and where `assign` with the same arguments would put it."""
    plan = assign(previous, workers, slack=slack, newest=newest, is_balancing=is_balancing)
    held: dict[str, int] = {}
    for owner in previous.values():
        if owner is not None:
            held[owner] = held.get(owner, 0) + 1
    preferences = []
    for worker in workers:
        share = plan.shares.get(worker.pod)
        preferences.append(
            Preference(
                worker.pod,
                shard_scores(worker.pod)[shard],
                worker.role,
                held.get(worker.pod, 0),
                share.floor if share else None,
                share.ceiling if share else None,
            )
        )
    preferences.sort(key=lambda preference: (-preference.score, preference.pod))
    owner, planned = previous.get(shard), plan.owners[shard]
    because = _because(shard, owner, planned, {worker.pod: worker for worker in workers}, tuple(preferences))
    return Explanation(shard, owner, planned, tuple(preferences), because)


def _because(
    shard: int,
    owner: str | None,
    planned: str | None,
    workers: Mapping[str, Candidate],
    preferences: tuple[Preference, ...],
) -> str:
    first = preferences[0].pod if preferences else None
    if planned is None:
        return f"shard {shard} has no owner: no worker is ready and open"
    if owner == planned:
        if workers[planned].role is Role.DONOR:
            return f"shard {shard} stays with {planned}, which is to be emptied, for nobody may receive it"
        where = "which is also its first choice" if planned == first else f"though {first} scores higher"
        return f"shard {shard} stays with {planned}, within its share and so left in peace, {where}"
    if owner is None:
        cause = "it had no owner"
    elif owner not in workers:
        cause = f"{owner} is gone"
    elif workers[owner].role is Role.DONOR:
        cause = f"{owner} is to be emptied"
    else:
        cause = f"{owner} has more than its share"
    where = "its first choice" if planned == first else f"the best of those with room (first choice {first})"
    return f"shard {shard} goes to {planned}, {where}: {cause}"


@dataclass(frozen=True, slots=True)
class Forecast:
    """For `noctaya plan --workers N`."""

    counts: Mapping[str, int]
    """Shards per worker afterwards; workers that do not exist yet are called `new-1`, `new-2`, …"""
    moves: int


def forecast(previous: Mapping[int, str | None], workers: Sequence[Candidate], wanted: int) -> Forecast:
    """What `wanted` open workers would own. Fewer than now: those with the fewest shards go, as Kubernetes is told to."""
    before = assign(previous, workers).counts()
    open_ = sorted(
        (worker for worker in workers if worker.role is Role.OPEN),
        key=lambda worker: (-before.get(worker.pod, 0), worker.pod),
    )
    rest = [worker for worker in workers if worker.role is Role.CORDONED]
    version = open_[0].version if open_ else ""
    added = [Candidate(f"new-{index + 1}", version=version) for index in range(wanted - len(open_))]
    plan = assign(previous, [*open_[:wanted], *added, *rest])
    counts = plan.counts()
    shown = {pod: counts.get(pod, 0) for pod in (*(w.pod for w in (*open_[:wanted], *added, *rest)),)}
    return Forecast(shown, len(plan.moves_from(previous)))

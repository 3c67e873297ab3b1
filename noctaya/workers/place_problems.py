"""What keeps a worker from its place in the fleet, or the fleet from being led, in sentences."""

from __future__ import annotations

from collections.abc import Iterator

from noctaya.kube.clock import boottime
from noctaya.leader.tenure import Standing
from noctaya.workers.place import Place
from noctaya.workers.problems import Problem


def place_problems(place: Place) -> Iterator[Problem]:
    """What is wrong at this instant."""
    standing, trouble, lease = place.member.standing(boottime()), place.member.problem, place.member.lease
    if standing is Standing.GROW:
        yield Problem(
            "TenureUnrenewed",
            f"the Lease {lease} cannot be renewed ({trouble or 'what was written does not come back'}): nothing is scaled "
            "down, nothing is changed.",
        )
    elif standing is Standing.NONE and trouble is not None:
        yield Problem(
            "TenureUnattained",
            f"this worker cannot get the Lease {lease} ({trouble}): it owns no shard and changes nothing. It goes on trying.",
        )
    if place.ownership.problem is not None:
        yield Problem("ShardRecordUnwritten", f"a shard's Lease cannot be written: {place.ownership.problem}")
    if place.leading.problem:
        yield Problem(
            "LeadershipHindered", f"this worker leads the fleet and cannot: {place.leading.problem}"
        )
    if place.leading.map_problem:
        yield Problem("ShardMapRefused", place.leading.map_problem)

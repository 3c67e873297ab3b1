"""From what is known of the fleet to the next map: the plan, and how much of it is asked for now.

Joins what the pure parts decide on their own (`assignment`, `hold_off`, `rounds`) with what is known (`fleet`,
`map_keeping`). Remembers only the clocks of hold-offs and flights: a plan depends on what is, not on how it came about.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from noctaya.leader.assignment import Assignment, Role, assign
from noctaya.leader.explanation import Explanation, Forecast, explain, forecast
from noctaya.leader.fleet import Fleet
from noctaya.leader.hold_off import HoldOff, HoldOffTiming
from noctaya.leader.map_keeping import MapKeeping
from noctaya.leader.roster import Picture
from noctaya.leader.rounds import Round, RoundLimits, Rounds


@dataclass(frozen=True, slots=True)
class PlanningTiming:
    """Seconds, and the limits of a round."""

    hold_off: HoldOffTiming = field(default_factory=HoldOffTiming)
    limits: RoundLimits = field(default_factory=RoundLimits)
    gather_for: float = 2.0
    """Nobody owns anything, and some are still joining: so long the first ready one waits for others."""
    collect_for: float = 0.25
    """Pods that are scaled in together say so within moments of each other."""


@dataclass(frozen=True, slots=True)
class Situation:
    """All that a plan depends on."""

    picture: Picture
    previous: Mapping[int, str | None]
    newest: str | None
    slack: int
    is_balancing: bool


@dataclass(frozen=True, slots=True)
class Step:
    """What the next map should say."""

    round: Round
    draining: tuple[str, ...]
    cordoned: tuple[str, ...]


class Planning:
    """See the module."""

    def __init__(self, fleet: Fleet, maps: MapKeeping, timing: PlanningTiming) -> None:
        self.hold_off = HoldOff(timing.hold_off)
        self._fleet = fleet
        self._maps = maps
        self._timing = timing
        self._rounds = Rounds(timing.limits)
        self._gathering_since: float | None = None
        self._donors: set[str] = set()
        self._collects_until = float("-inf")
        self._idle: tuple[tuple[object, ...], Step] | None = None

    def situation(self, now: float) -> Situation:
        """What there is to plan for."""
        picture = self._fleet.picture(self._desired, now)
        youngest = self._fleet.roster.youngest()
        self.hold_off.look(self._fleet.roster.versions(), youngest.record.version if youngest else "", now)
        is_balancing = self.hold_off.is_over(now) and not picture.doubted and not self._maps.is_freeze_asked
        previous = self._fleet.owners(self._desired, picture)
        return Situation(picture, previous, self.hold_off.newest, self.hold_off.slack(now), is_balancing)

    def next(self, now: float) -> Step | None:
        """What the next map should say; None while it is better to wait for what else comes."""
        at = self.situation(now)
        roles = at.picture.roles()
        if self._is_gathering(at, now) or self._is_collecting(roles, now):
            return None
        if self._idle is not None and self._idle[0] == self._key(at):
            return self._idle[1]
        step = self._step(at, roles, now)
        is_idle = not step.round.flying and step.round.owners == self._desired
        self._idle = (self._key(at), step) if is_idle else None
        return step

    def _step(self, at: Situation, roles: Mapping[str, Role], now: float) -> Step:
        round_ = self._rounds.next(self._desired, self._plan(at), self._fleet.actual(), roles, now)
        if {at.previous[shard] for shard in round_.homed} - at.picture.left - {None}:
            self.hold_off.crashed(now)
        cordoned = sorted(
            member.view.pod
            for member in self._fleet.roster.held()
            if member.view.is_cordon_asked and roles.get(member.view.pod) is not Role.DONOR
        )
        return Step(
            round_,
            tuple(pod for pod, role in roles.items() if role is Role.DONOR),
            tuple(cordoned),
        )

    def why(self, shard: int, now: float) -> Explanation:
        """Why `shard` is where it is, and where it goes."""
        at = self.situation(now)
        return explain(
            shard,
            at.previous,
            at.picture.candidates,
            slack=at.slack,
            newest=at.newest,
            is_balancing=at.is_balancing,
        )

    def forecast(self, workers: int, now: float) -> Forecast:
        """What `workers` open workers would own."""
        at = self.situation(now)
        return forecast(at.previous, at.picture.candidates, workers)

    def level(self, now: float) -> Assignment:
        """The plan as if nothing held levelling off."""
        at = self.situation(now)
        return assign(at.previous, at.picture.candidates, newest=at.newest)

    @property
    def _desired(self) -> tuple[str, ...]:
        return self._maps.map.desired if self._maps.map is not None else ()

    def _plan(self, at: Situation) -> Sequence[str | None]:
        plan = assign(
            at.previous,
            at.picture.candidates,
            slack=at.slack,
            newest=at.newest,
            is_balancing=at.is_balancing,
        )
        return plan.owners

    def _key(self, at: Situation) -> tuple[object, ...]:
        """While this is the same, and nothing is in flight, so is the step: most events change nothing that it depends on."""
        wishes = tuple(member.view.is_cordon_asked for member in self._fleet.roster.held())
        return at, wishes, self._maps.map, self._fleet.holders_revision

    def _is_collecting(self, roles: Mapping[str, Role], now: float) -> bool:
        """Somebody is to be emptied since a moment: others may be too, and should not be given what must move again."""
        donors = {pod for pod, role in roles.items() if role is Role.DONOR}
        if donors - self._donors and now >= self._collects_until:
            self._collects_until = now + self._timing.collect_for
        self._donors = donors
        return now < self._collects_until

    def _is_gathering(self, at: Situation, now: float) -> bool:
        """Nobody owns anything and some are joining: else the first one is given everything and then emptied again."""
        owners = {candidate.pod for candidate in at.picture.candidates}
        if owners & set(at.previous.values()) or not self._fleet.roster.joining():
            self._gathering_since = None
            return False
        if self._gathering_since is None:
            self._gathering_since = now
        return now - self._gathering_since < self._timing.gather_for

"""The mutation gate: whether a safety rule that is switched off shows itself."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tests.sim import directed
from tests.sim.mutants import CARELESS, Mutant
from tests.sim.running import run_seed

STORY_SEEDS = range(3)
"""A story's trap may depend on who happens to be first."""
ENOUGH = 3
"""Seeds that catch a mutant, then no more are tried."""


@dataclass(frozen=True)
class Catch:
    """What caught a mutant."""

    mutant: str
    stories: tuple[str, ...]
    """The rules that its directed schedule found broken."""
    seeds: tuple[tuple[int, str], ...]
    """Seeds of random schedules, and what each found broken."""
    tried: int

    @property
    def is_caught(self) -> bool:
        """Whether anything did."""
        return bool(self.stories or self.seeds)

    def __str__(self) -> str:
        seeds = ", ".join(f"{seed} ({rule})" for seed, rule in self.seeds) or "none"
        story = f"; its story: {', '.join(self.stories) or 'nothing'}" if self.stories else ""
        return f"{self.mutant:<32}  {'caught' if self.is_caught else 'MISSED'} by seeds {seeds} of {self.tried}{story}"


def in_story(mutant: Mutant) -> tuple[str, ...]:
    """What the mutant's own schedule finds broken."""
    if mutant.story is None:
        return ()
    outcomes = (directed.play(mutant.rules, mutant.story, seed=seed) for seed in STORY_SEEDS)
    return tuple(outcome.violation.rule for outcome in outcomes if outcome.violation is not None)


def catch(mutant: Mutant, seeds: Iterable[int]) -> Catch:
    """Look for schedules that catch `mutant`, its own first."""
    found: list[tuple[int, str]] = []
    tried = 0
    for seed in seeds:
        tried += 1
        violation = run_seed(seed, mutant.rules).violation
        if violation is not None:
            found.append((seed, violation.rule))
            if len(found) == ENOUGH:
                break
    return Catch(mutant.name, in_story(mutant), tuple(found), tried)


def counts_of_careless(seeds: Iterable[int]) -> tuple[int, int]:
    """Fences with all rules in force, and with observation clocks that run on through a blind stretch."""
    sound = careless = 0
    for seed in seeds:
        sound += run_seed(seed).figures.fences
        careless += run_seed(seed, CARELESS.rules).figures.fences
    return sound, careless

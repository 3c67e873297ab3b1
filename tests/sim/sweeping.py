"""Many schedules in several processes. What a process is asked to do must be importable, so it is not in `__main__`."""

from __future__ import annotations

import multiprocessing
from collections import Counter
from collections.abc import Iterator

from tests.sim.checker import Figures
from tests.sim.gate import Catch, catch
from tests.sim.mutants import MUTANTS
from tests.sim.running import run_seed

BATCH = 25
"""Seeds for a process at a time."""


def sweep(seeds: range, jobs: int) -> Iterator[tuple[int, Figures, Counter[str], list[int]]]:
    """Batch after batch: how many schedules, their figures, the faults by kind, and the seeds of violations."""
    batches = [seeds[index : index + BATCH] for index in range(0, len(seeds), BATCH)]
    if jobs == 1:
        yield from map(_batch, batches)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap_unordered(_batch, batches)


def catches(seeds: range, jobs: int) -> Iterator[Catch]:
    """What catches each mutant, in order."""
    asked = [(index, seeds) for index in range(len(MUTANTS))]
    if jobs == 1:
        yield from map(_catch, asked)
        return
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        yield from pool.imap(_catch, asked)


def _catch(asked: tuple[int, range]) -> Catch:
    index, seeds = asked
    return catch(MUTANTS[index], seeds)


def _batch(seeds: range) -> tuple[int, Figures, Counter[str], list[int]]:
    figures, faults, bad = Figures(), Counter[str](), []
    for seed in seeds:
        outcome = run_seed(seed)
        figures.add(outcome.figures)
        faults.update(fault.kind for fault in outcome.schedule.faults)
        if outcome.violation is not None:
            bad.append(seed)
    return len(seeds), figures, faults, bad

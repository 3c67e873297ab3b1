"""`python -m tests.sim`: what it prints, and its exit status."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.sim import __main__ as command
from tests.sim import sweeping
from tests.sim.mutants import MUTANTS
from tests.sim.rules import Rules
from tests.sim.running import Outcome, run_seed


def test_many_schedules_end_with_a_table_of_figures(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--seeds", "3"]) == 0
    printed = capsys.readouterr().out
    for name in (
        "violations",
        "faults injected",
        "effects guarded",
        "crash takeover",
        "graceful gap",
        "moves",
    ):
        assert name in printed


def test_several_processes_share_the_seeds() -> None:
    asked = [sys.executable, "-m", "tests.sim", "--seeds", "30", "--jobs", "2"]
    done = subprocess.run(asked, capture_output=True, text=True, check=True, timeout=100)
    assert "schedules        30 (seeds 0 to 29" in done.stdout


def test_one_schedule_is_traced(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--seed", "3", "--trace", "--shard", "0"]) == 0
    printed = capsys.readouterr().out
    assert "noctaya-shard-000" in printed
    assert "seed 3: every invariant held" in printed


def test_a_violation_is_printed_with_its_seed_and_fails(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = next(mutant.rules for mutant in MUTANTS if mutant.name == "acquire without proof")

    def broken(seed: int, given: Rules | None = None) -> Outcome:
        return run_seed(seed, given or rules)

    caught = next(seed for seed in range(60) if run_seed(seed, rules).violation)
    monkeypatch.setattr(command, "run_seed", broken)
    monkeypatch.setattr(sweeping, "run_seed", broken)
    assert command.main(["--first", str(caught), "--seeds", "1"]) == 1
    assert f"seed {caught}: I" in capsys.readouterr().out

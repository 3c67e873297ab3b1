"""`docs/compatibility.md` holds: each scenario of the acceptance list names tests that exist and say so themselves."""

import ast
import re
from collections import defaultdict

from noctaya.workers.settings import ScalerSettings
from tests.docs.pages import ROOT

PAGE = (ROOT / "docs" / "compatibility.md").read_text()
ROWS = {int(number): row for row, number in re.findall(r"^(\| E(\d+) \|.*)$", PAGE, re.MULTILINE)}
NAMED = {number: set(re.findall(r"`(test_\w+)`", row)) for number, row in ROWS.items()}
SCENARIOS = range(1, 16)


def acceptance_tests() -> dict[str, str]:
    """The docstring of every acceptance test, by its name."""
    return {
        node.name: ast.get_docstring(node) or ""
        for path in (ROOT / "tests" / "acceptance").rglob("test_*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_")
    }


def scenarios_of(docstring: str) -> set[int]:
    """The scenarios that a docstring names."""
    return {int(number) for number in re.findall(r"\bE(\d+)\b", docstring)}


def test_every_scenario_has_one_row() -> None:
    assert list(ROWS) == list(SCENARIOS)
    assert len(re.findall(r"^\| E\d+ \|", PAGE, re.MULTILINE)) == len(ROWS)


def test_every_row_names_the_tests_that_say_they_prove_it() -> None:
    claimed: dict[int, set[str]] = defaultdict(set)
    for name, docstring in acceptance_tests().items():
        for number in scenarios_of(docstring):
            claimed[number].add(name)
    assert dict(claimed) == NAMED


def test_every_test_that_the_page_names_exists() -> None:
    assert set(re.findall(r"`(test_\w+)`", PAGE)) <= acceptance_tests().keys()


def test_the_page_says_what_is_not_proved() -> None:
    """Two scenarios are not held; whoever changes that changes the page."""
    assert {number for number, row in ROWS.items() if "**not " in row} == {5, 15}


def test_addresses_and_intervals_are_the_settings() -> None:
    scaler = ScalerSettings()
    assert f"`{scaler.address}`" in PAGE
    assert f"| `pollingInterval: 5` | {scaler.polling_interval_seconds} (a setting)" in PAGE

"""Whatever a page names exists: metrics, settings, make targets, commands, files. A page that lies is worse than none."""

import re

import pytest

from tests.docs import known_names
from tests.docs.pages import ROOT, anchors_of, code_of, links_of, pages

PAGES = pages()
METRIC = re.compile(r"\bnoctaya_[a-z_]+")
VARIABLE = re.compile(r"\bNOCTAYA_[A-Z0-9_]+…?")
TARGET = re.compile(r"(?<![\w-])make +([a-z][a-z-]*)")
SUBCOMMAND = re.compile(r"(?:^|[\s/&;(])noctaya +([a-z][a-z-]*)")


def text_of(page: str) -> str:
    return PAGES[page].read_text()


@pytest.mark.parametrize("page", PAGES)
def test_every_metric_that_a_page_names_is_exported(page: str) -> None:
    assert set(METRIC.findall(text_of(page))) - known_names.metrics() == set()


@pytest.mark.parametrize("page", PAGES)
def test_every_variable_that_a_page_names_is_a_setting(page: str) -> None:
    known = known_names.settings()
    unknown = {
        name
        for name in VARIABLE.findall(text_of(page))
        if name not in known
        and not (name.endswith("…") and any(other.startswith(name[:-1]) for other in known))
        and name != "NOCTAYA_"  # the prefix itself
    }
    assert unknown == set()


@pytest.mark.parametrize("page", PAGES)
def test_every_relative_link_leads_somewhere(page: str) -> None:
    for path, anchor in links_of(text_of(page)):
        target = (PAGES[page].parent / path) if path else PAGES[page]
        assert target.exists(), f"{page} links to {path}, which is not there"
        if anchor:
            assert anchor in anchors_of(target.read_text()), f"{page}: no heading makes {path}#{anchor}"


@pytest.mark.parametrize("page", PAGES)
def test_every_make_target_and_command_that_a_page_names_exists(page: str) -> None:
    code = code_of(text_of(page))
    assert set(TARGET.findall(code)) - known_names.make_targets() == set()
    assert set(SUBCOMMAND.findall(code)) - known_names.subcommands() == set()


def test_the_checks_find_what_they_look_for() -> None:
    """The README has some of each; an expression that finds nothing there would pass everywhere."""
    readme = code_of((ROOT / "README.md").read_text())
    assert {"demo", "test"} <= set(TARGET.findall(readme))
    assert "local" in set(SUBCOMMAND.findall(readme))
    assert len(list(links_of((ROOT / "README.md").read_text()))) > 3


def test_what_exists_is_read_right() -> None:
    assert {
        "noctaya_gateway_rejections_total",
        "noctaya_gateway_activation_wait_seconds_bucket",
        "noctaya_gateway_links",
        "noctaya_worker_route_nacks_total",
        "noctaya_scaler_demand_unknown_seconds",
    } <= known_names.metrics()
    assert "noctaya_gateway_rejections" not in known_names.metrics(), "the series has another name"
    assert "NOCTAYA_LINK__WORKERS" in known_names.settings()
    assert {"KEDAMissing", "Forbidden", "DemandUnknown"} <= known_names.problems()

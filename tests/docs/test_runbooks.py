"""Alerts and runbooks fit each other, and each runbook has what somebody needs at three in the morning."""

import re

import pytest

from tests.docs import known_names
from tests.docs.pages import FENCE, INDEX, ROOT, RUNBOOKS, alerts, code_of, links_of

ALERTS = {alert["annotations"]["runbook"]: alert for alert in alerts()}
SECTIONS = [
    "What users notice",
    "Check now",
    "Likely causes",
    "When it is safe to wait",
    "Never",
]
ADMIN_PATH = re.compile(r"(?<![\w.])/(?:healthz|readyz|metrics|debug/[a-z]+)")
FIELD = re.compile(r"\bspec(?:\.[a-z]\w*)+", re.IGNORECASE)
GREP = re.compile(r"grep (?:-E )?'([^']+)'")
IN_A_LOG = re.compile(r"kubectl -n noctaya-system logs [^\n]*")
OF_OTHER_KINDS = {"spec.replicas", "spec.holderIdentity", "spec.leaseTransitions", "spec.renewTime"}
"""Fields of Deployments and Leases, which stand in commands."""


def text_of(name: str) -> str:
    return (RUNBOOKS / f"{name}.md").read_text()


def rows_of_the_index() -> dict[str, tuple[str, str]]:
    """Page → (alert, severity) as the index tells."""
    row = re.compile(r"^\| (\w+) \| (\w+) \| \[([\w-]+)\]\(\3\.md\) \|$", re.MULTILINE)
    return {page: (alert, severity) for alert, severity, page in row.findall(INDEX.read_text())}


def test_every_alert_has_its_page() -> None:
    assert [name for name in ALERTS if not (RUNBOOKS / f"{name}.md").is_file()] == []


def test_every_page_belongs_to_an_alert_or_is_named_by_the_index() -> None:
    listed = {path for path, _ in links_of(INDEX.read_text())}
    pages = {path.name for path in RUNBOOKS.glob("*.md")} - {INDEX.name}
    assert pages - {f"{name}.md" for name in ALERTS} - listed == set()


def test_the_index_lists_every_alert_with_its_severity() -> None:
    assert rows_of_the_index() == {
        name: (alert["alert"], alert["labels"]["severity"]) for name, alert in ALERTS.items()
    }


@pytest.mark.parametrize("name", ALERTS)
def test_a_page_opens_with_its_alert_and_what_it_means(name: str) -> None:
    title, _, rest = text_of(name).partition("\n")
    assert title == f"# {ALERTS[name]['alert']}"
    assert rest.lstrip("\n").partition("\n\n## ")[0].strip()


@pytest.mark.parametrize("name", ALERTS)
def test_a_page_has_every_section_in_the_order_of_need(name: str) -> None:
    assert re.findall(r"^## (.+)$", text_of(name), re.MULTILINE) == SECTIONS
    assert 25 <= len(text_of(name).splitlines()) <= 60


@pytest.mark.parametrize("name", ALERTS)
def test_a_page_has_commands_to_copy(name: str) -> None:
    commands = "\n".join(FENCE.findall(text_of(name)))
    assert "kubectl " in commands
    started, ended = commands.count("port-forward"), commands.count("kill $!")
    assert started == ended, "a forward that is left open takes the port from the next one"


@pytest.mark.parametrize("page", [*ALERTS, "README"])
def test_every_admin_path_is_served(page: str) -> None:
    told = set(ADMIN_PATH.findall(code_of(text_of(page))))
    served = {text for text in known_names.strings() if ADMIN_PATH.fullmatch(text)}
    views = re.findall(r'^ {8}"(\w+)": ', (ROOT / "noctaya/workers/views.py").read_text(), re.MULTILINE)
    assert "wakes" in views
    assert told - served - {f"/debug/{view}" for view in views} == set()


@pytest.mark.parametrize("name", ALERTS)
def test_every_field_is_one_of_an_llmservice(name: str) -> None:
    told = set(FIELD.findall(code_of(text_of(name))))
    assert told - known_names.spec_fields() - OF_OTHER_KINDS == set()


@pytest.mark.parametrize("name", ALERTS)
def test_what_is_searched_for_in_our_logs_is_written_there(name: str) -> None:
    for command in IN_A_LOG.findall("\n".join(FENCE.findall(text_of(name)))):
        for pattern in GREP.findall(command):
            for words in re.sub(r'"(message|level)": |["()]', "", pattern).split("|"):
                assert any(text.startswith(words) for text in known_names.strings()), words


def test_the_page_on_problems_knows_every_problem() -> None:
    page = text_of("worker-problem")
    told = set(re.findall(r"`([\w…]+)`", "\n".join(re.findall(r"^\| (`.+?) \|", page, re.MULTILINE))))
    missing = {name for name in known_names.problems() if not any(word.endswith(name) for word in told)}
    assert missing == set()
    invented = {word for word in told if not any(word.endswith(name) for name in known_names.problems())}
    assert invented == set()


def test_every_reason_of_an_alerts_refusals_is_explained() -> None:
    for name, alert in ALERTS.items():
        for reason in re.findall(r'reason="(\w+)"', alert["expr"]):
            assert f"`{reason}`" in text_of(name)

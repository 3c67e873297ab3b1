"""The prometheus component: what is scraped exists, and what alerts ask for is exported."""

import re
from pathlib import Path

import pytest

from tests.deploy.manifests import ROOT, Object, of_kind, with_components

pytestmark = pytest.mark.kubectl

SERIES = re.compile(r"\bnoctaya_[a-z_]+\b")
EXPORTED = re.compile(r"\"(noctaya_[a-z_]+)\"")
SUFFIXES = ("_total", "_bucket")
SEVERITIES = {"critical", "warning"}


def exported() -> set[str]:
    """Names of the metric families in the source, as they are written there and as they are scraped."""
    found: set[str] = set()
    for package in ("workers", "gateway"):
        for path in (ROOT / "noctaya" / package).rglob("*.py"):
            found |= set(EXPORTED.findall(path.read_text()))
    return found | {name + suffix for name in found for suffix in SUFFIXES}


@pytest.fixture
def objects(tmp_path: Path) -> list[Object]:
    return with_components(tmp_path, "prometheus")


@pytest.fixture
def alerts(objects: list[Object]) -> list[Object]:
    groups = of_kind(objects, "PrometheusRule")["noctaya"]["spec"]["groups"]
    return [rule for group in groups for rule in group["rules"]]


def test_every_series_in_an_alert_is_exported(alerts: list[Object]) -> None:
    asked = {name for alert in alerts for name in SERIES.findall(alert["expr"])}
    assert len(asked) >= len(alerts) // 2
    assert asked - exported() == set()


def test_every_alert_says_how_bad_it_is_and_which_runbook_helps(alerts: list[Object]) -> None:
    for alert in alerts:
        words = re.findall(r"[A-Z][a-z]+", alert["alert"].removeprefix("Noctaya"))
        assert alert["annotations"]["runbook"] == "-".join(words).lower()
        assert alert["labels"]["severity"] in SEVERITIES
        assert alert["annotations"]["summary"]
        assert "for" in alert


def test_reasons_in_alerts_are_reasons_of_refusals(alerts: list[Object]) -> None:
    errors = (ROOT / "noctaya/gateway/openai_errors.py").read_text()
    reasons = {reason for alert in alerts for reason in re.findall(r'reason="(\w+)"', alert["expr"])}
    assert reasons
    assert all(f'"{reason}"' in errors for reason in reasons)


def test_pods_of_both_roles_are_scraped_on_their_admin_port(objects: list[Object]) -> None:
    monitors = of_kind(objects, "PodMonitor")
    for name, deployment in of_kind(objects, "Deployment").items():
        spec = monitors[name]["spec"]
        ports = {
            port["name"]
            for container in deployment["spec"]["template"]["spec"]["containers"]
            for port in container["ports"]
        }
        assert spec["selector"] == deployment["spec"]["selector"]
        (endpoint,) = spec["podMetricsEndpoints"]
        assert endpoint["port"] in ports
        assert endpoint["honorLabels"] is True

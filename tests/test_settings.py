"""Settings: an unknown variable stops the start, a known one is read, and Kubernetes's own variables do no harm."""

import pytest
from pydantic import ValidationError

from noctaya.settings import InvalidSettings, RoleSettings, SettingsGroup, load, refuse_unknown, variables


class Link(SettingsGroup):
    report_seconds: float = 2.0


class Role(RoleSettings):
    link: Link = Link()
    name: str = "x"


def test_an_unknown_variable_stops_the_start_and_names_the_nearest_known_one() -> None:
    with pytest.raises(InvalidSettings, match=r"NOCTAYA_LINK__REPORT_SECONDS"):
        refuse_unknown(Role, {"NOCTAYA_LINK__REPORT_SECOND": "1"})


def test_a_known_variable_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOCTAYA_LINK__REPORT_SECONDS", "0.5")
    assert load(Role).link.report_seconds == 0.5


def test_an_invalid_value_is_refused_by_its_variables_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOCTAYA_LINK__REPORT_SECONDS", "soon")
    with pytest.raises(InvalidSettings, match="NOCTAYA_LINK__REPORT_SECONDS"):
        load(Role)


@pytest.mark.parametrize(
    "name",
    [
        "NOCTAYA_GATEWAY_SERVICE_HOST",
        "NOCTAYA_GATEWAY_SERVICE_PORT_HTTP",
        "NOCTAYA_GATEWAY_PORT",
        "NOCTAYA_GATEWAY_PORT_80_TCP_ADDR",
    ],
)
def test_variables_that_kubernetes_injects_for_our_services_are_no_settings(name: str) -> None:
    refuse_unknown(Role, {name: "10.0.0.1"})


def test_a_mistyped_setting_that_looks_like_a_service_link_is_refused() -> None:
    with pytest.raises(InvalidSettings, match="NOCTAYA_LINK__PORT"):
        refuse_unknown(Role, {"NOCTAYA_LINK__PORT": "1"})


def test_variables_of_other_programs_are_none_of_our_business() -> None:
    refuse_unknown(Role, {"PATH": "/bin", "NOCTAYAX": "1"})


def test_an_unknown_key_of_a_group_is_refused_and_a_group_never_changes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NOCTAYA_LINK", '{"report_second": 1}')
    with pytest.raises(InvalidSettings, match="NOCTAYA_LINK__REPORT_SECOND"):
        load(Role)
    with pytest.raises(ValidationError, match="frozen"):
        Link().report_seconds = 1.0


def test_every_field_has_a_variable() -> None:
    assert "NOCTAYA_LOG__LEVEL" in set(variables(Role))
    assert "NOCTAYA_NAME" in set(variables(Role))

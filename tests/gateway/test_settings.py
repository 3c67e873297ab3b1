"""Settings: comma-separated lists, typed errors, a docstring for every field."""

import ast
import inspect
import itertools

import pytest

from noctaya.gateway import settings
from noctaya.gateway.settings import GatewaySettings
from noctaya.settings import InvalidSettings, load


def test_workers_are_read_as_comma_separated_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOCTAYA_LINK__WORKERS", "10.0.0.1:9443, 10.0.0.2:9443")
    assert load(GatewaySettings).link.workers == ("10.0.0.1:9443", "10.0.0.2:9443")


def test_an_unknown_variable_names_the_nearest_known_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NOCTAYA_LINK__WORKER", "x")
    with pytest.raises(InvalidSettings, match="NOCTAYA_LINK__WORKERS"):
        load(GatewaySettings)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("NOCTAYA_HTTP__PORT", "99999"),
        ("NOCTAYA_HTTP__MAX_BODY_BYTES", "0"),
        ("NOCTAYA_LINK__FULL_REPORT_SECONDS", "soon"),
    ],
)
def test_a_value_that_does_not_fit_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(InvalidSettings, match=name):
        load(GatewaySettings)


def test_every_field_says_what_it_is_for() -> None:
    """A docstring follows each field of each group; read from the source, since the class does not keep them."""
    module = ast.parse(inspect.getsource(settings))
    groups = [
        node for node in module.body if isinstance(node, ast.ClassDef) and node.name != "GatewaySettings"
    ]
    assert len(groups) == 8
    for group in groups:
        for field, after in itertools.pairwise([*group.body, None]):
            if isinstance(field, ast.AnnAssign):
                assert isinstance(after, ast.Expr), f"{group.name}: {ast.unparse(field.target)}"
                assert isinstance(after.value, ast.Constant)

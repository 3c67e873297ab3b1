"""Custom resources: defaults, pruning, validation messages, CEL rules, and definitions that cannot be served."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from noctaya.local.apiserver import ApiError
from tests.local.apiserver.conftest import World
from tests.local.apiserver.manifests import Object, widget, widgets_definition


def refusal(world: World, body: Object, validation: str = "Warn") -> ApiError:
    with pytest.raises(ApiError) as refused:
        world.create(body, validation=validation)
    return refused.value


def test_defaults_fill_every_parent_that_exists_or_has_a_default(widgets: World) -> None:
    spec = widgets.create(widget(ports=[{"name": "a"}]))["spec"]
    assert spec["scaling"] == {"min": 0, "max": 1}
    assert (spec["color"], spec["timeout"], spec["replicas"]) == ("red", "5m", 1)
    assert spec["ports"] == [{"name": "a", "port": 80}]
    assert "owner" not in spec


def test_null_means_absent_unless_the_schema_allows_it(widgets: World) -> None:
    spec = widgets.create(widget(color=None, note=None, owner=None))["spec"]
    assert spec["color"] == "red"
    assert spec["note"] is None
    assert "owner" not in spec


def test_unknown_fields_are_pruned_except_where_they_are_preserved(widgets: World) -> None:
    spec = widgets.create(widget(nonsense=1, free={"any": {"thing": 1}}))["spec"]
    assert "nonsense" not in spec
    assert spec["free"] == {"any": {"thing": 1}}


def test_strict_validation_refuses_unknown_fields_by_path(widgets: World) -> None:
    problem = refusal(widgets, widget(nonsense=1, scaling={"mni": 1}), "Strict")
    assert problem.code == 400
    assert (
        'strict decoding error: unknown field "spec.nonsense", unknown field "spec.scaling.mni"'
        in problem.message
    )


@pytest.mark.parametrize(
    ("spec", "field", "message"),
    [
        (
            {"size": 0},
            "spec.size",
            "Invalid value: 0: spec.size in body should be greater than or equal to 1",
        ),
        (
            {"size": 101},
            "spec.size",
            "Invalid value: 101: spec.size in body should be less than or equal to 100",
        ),
        (
            {"size": "x"},
            "spec.size",
            'Invalid value: "string": spec.size in body must be of type integer: "string"',
        ),
        ({"size": None}, "spec.size", "Required value"),
        ({"color": "blue"}, "spec.color", 'Unsupported value: "blue": supported values: "red", "green"'),
        (
            {"memory": "1x"},
            "spec.memory",
            "Invalid value: \"1x\": spec.memory in body should match '^[0-9]+[GM]i$'",
        ),
        (
            {"scaling": {"min": -1}},
            "spec.scaling.min",
            "Invalid value: -1: spec.scaling.min in body should be greater than or equal to 0",
        ),
        ({"ports": [{"port": 1}]}, "spec.ports[0].name", "Required value"),
        ({"ports": [{"name": "a"}, {"name": "a"}]}, "spec.ports[1]", 'Duplicate value: {"name":"a"}'),
        ({"tags": ["a", "a"]}, "spec.tags[1]", 'Duplicate value: "a"'),
        ({"scaling": {"min": 2}}, "spec", "Invalid value: min must not pass max"),
        ({"timeout": "0s"}, "spec.timeout", "Invalid value: timeout must be positive"),
    ],
)
def test_a_broken_rule_names_its_field_as_the_real_server_does(
    widgets: World, spec: dict[str, Any], field: str, message: str
) -> None:
    problem = refusal(widgets, widget(**spec))
    assert (problem.code, problem.reason) == (422, "Invalid")
    assert problem.details is not None
    first, *skipped = [(cause["field"], cause["message"]) for cause in problem.details["causes"]]
    assert first == (field, message)
    assert f"{field}: {message}" in problem.message
    assert all("some validation rules were not checked" in text for _, text in skipped)


def test_a_number_that_is_an_int_or_string_is_fine(widgets: World) -> None:
    assert widgets.create(widget(memory=5))["spec"]["memory"] == 5


def test_a_cel_rule_whose_evaluation_fails_refuses_the_object(widgets: World) -> None:
    problem = refusal(widgets, widget(timeout="soon"))
    assert "evaluating rule: timeout must be positive" in problem.message
    assert problem.details is not None
    assert problem.details["causes"][0]["field"] == "spec"


def test_rules_run_beside_a_value_out_of_range_but_not_on_a_broken_shape(widgets: World) -> None:
    both = refusal(widgets, widget(size=0, scaling={"min": 2}))
    assert both.details is not None
    assert [cause["field"] for cause in both.details["causes"]] == ["spec.size", "spec"]
    shape = refusal(widgets, widget(size="x", scaling={"min": 2}))
    assert shape.details is not None
    assert [cause["field"] for cause in shape.details["causes"]] == ["spec.size", "<nil>"]


def test_an_apply_of_an_unknown_field_is_refused(widgets: World) -> None:
    with pytest.raises(ApiError, match=r"\.spec\.nonsense: field not declared in schema"):
        widgets.apply(widget(nonsense=1), "one")


def test_a_transition_rule_compares_with_the_old_value_only_when_there_is_one(widgets: World) -> None:
    made = widgets.create(widget(owner="ann"))
    with pytest.raises(ApiError, match=r'spec\.owner: Invalid value: "ann2": owner is immutable'):
        widgets.replace({**made, "spec": {**made["spec"], "owner": "ann2"}})
    other = widgets.create(widget("other"))
    assert widgets.replace({**other, "spec": {**other["spec"], "owner": "eve"}})["spec"]["owner"] == "eve"


def test_status_is_its_own_subresource(widgets: World) -> None:
    made = widgets.create({**widget(), "status": {"phase": "Ready"}})
    assert "status" not in made
    seen = widgets.replace({**made, "spec": {"size": 50}, "status": {"phase": "Ready"}}, sub="status")
    assert (seen["spec"]["size"], seen["status"]["phase"]) == (1, "Ready")
    assert seen["metadata"]["generation"] == 1
    kept = widgets.replace({**seen, "spec": {"size": 2}, "status": {"phase": "Nonsense"}})
    assert (kept["spec"]["size"], kept["status"]["phase"], kept["metadata"]["generation"]) == (2, "Ready", 2)


def test_a_custom_resource_is_not_replaced_without_its_version(widgets: World) -> None:
    widgets.create(widget())
    with pytest.raises(ApiError, match=r"metadata\.resourceVersion: .* must be specified for an update"):
        widgets.replace(widget(size=2))


def test_a_definition_is_established_at_once_and_completed(world: World) -> None:
    made = world.create(widgets_definition())
    conditions = {c["type"]: c["status"] for c in made["status"]["conditions"]}
    assert conditions == {"NamesAccepted": "True", "Established": "True"}
    assert made["spec"]["names"]["listKind"] == "WidgetList"
    assert made["status"]["storedVersions"] == ["v1"]


def test_a_definition_whose_rule_does_not_compile_is_refused(world: World) -> None:
    definition = widgets_definition()
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["x-kubernetes-validations"][0]["rule"] = "self.size >"
    problem = refusal(world, definition)
    assert problem.code == 422
    assert "properties[spec].x-kubernetes-validations[0].rule" in problem.message
    assert "compilation failed" in problem.message


def test_a_definition_must_be_named_after_its_plural_and_group(world: World) -> None:
    definition = widgets_definition()
    definition["metadata"]["name"] = "wrong.example.test"
    assert "must be spec.names.plural" in refusal(world, definition).message


@pytest.mark.parametrize(
    ("rule", "value", "holds"),
    [
        ("quantity(self).isGreaterThan(quantity('1Gi'))", "2Gi", True),
        ("quantity(self).compareTo(quantity('1000m')) == 0", "1", True),
        ("isQuantity(self)", "wat", False),
        ("isURL(self) && url(self).getScheme() == 'https'", "https://x/y", True),
        ("isURL(self)", "nope", False),
        ("self.split('/').size() == 2 && self.lowerAscii() == 'a/b'", "A/b", True),
        ("duration(self) >= duration('1h30m')", "90m", True),
        ("self.matches('^[a-z]+$') && self.find('[b-d]') == 'b'", "abc", True),
    ],
)
def test_rules_may_use_kubernetes_own_functions(world: World, rule: str, value: str, holds: bool) -> None:
    definition = widgets_definition()
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["owner"]["x-kubernetes-validations"] = [{"rule": rule}]
    world.create(definition)
    if holds:
        assert world.create(widget(owner=value))["spec"]["owner"] == value
    else:
        assert "failed rule" in refusal(world, widget(owner=value)).message


def test_the_evaluator_is_loaded_without_its_command_line() -> None:
    program = "import sys, noctaya.local.apiserver.celrules; sys.exit('prompt_toolkit' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False, timeout=30).returncode == 0

"""Custom resources: defaults, pruning, validation and CEL, word for word."""

from __future__ import annotations

from typing import Any

import pytest

from noctaya.kube.resources import CRDS, LLMSERVICES
from tests.conformance.client import MERGE, Api, Object
from tests.conformance.definitions import WIDGETS, widget
from tests.conformance.differences import differs

SKIPPED = (
    "FieldValueInvalid",
    "<nil>",
    (
        "Invalid value: null: some validation rules were not checked because the object was invalid; correct the "
        "existing errors to complete validation"
    ),
)
CLAIM_IS_MADE = (
    "Invalid value: cache.size and cache.storageClassName describe a claim that is made; they cannot stand beside "
    "cache.claimName"
)


async def test_defaults_fill_what_is_not_there(widgets: Api) -> None:
    made = await widgets.create(
        WIDGETS, widget(scaling={"max": 3}, ports=[{"name": "a"}], color=None, note=None)
    )
    assert made["spec"] == {
        "size": 1,
        "color": "red",
        "timeout": "5m",
        "note": None,
        "replicas": 1,
        "scaling": {"min": 0, "max": 3},
        "ports": [{"name": "a", "port": 80}],
    }


@pytest.mark.parametrize("validation", ["Warn", "Ignore"])
async def test_unknown_fields_are_pruned_and_warned_about(widgets: Api, validation: str) -> None:
    body = {**widget(nope=1, scaling={"odd": 1}, free={"kept": 1}), "top": 1}
    answer = await widgets.call("POST", widgets.path(WIDGETS), body, query={"fieldValidation": validation})
    assert answer.code == 201
    assert "top" not in answer.body
    assert answer.body["spec"]["free"] == {"kept": 1}
    assert not answer.body["spec"].keys() & {"nope"}
    assert answer.body["spec"]["scaling"] == {"min": 0, "max": 1}
    said = {f'unknown field "{path}"' for path in ("spec.nope", "spec.scaling.odd", "top")}
    assert set(answer.warnings) == (said if validation == "Warn" else set())


async def test_unknown_fields_are_refused_under_strict(widgets: Api) -> None:
    strict = {"fieldValidation": "Strict"}
    refused = await widgets.refused("POST", widgets.path(WIDGETS), widget(nope=1), query=strict)
    assert (refused.code, refused.reason) == (400, "BadRequest")
    assert refused.message == (
        'Widget in version "v1" cannot be handled as a Widget: strict decoding error: unknown field "spec.nope"'
    )
    await widgets.create(WIDGETS, widget())
    refused = await widgets.refused(
        "PATCH", widgets.path(WIDGETS, "w"), {"spec": {"nope": 1}}, content_type=MERGE, query=strict
    )
    assert (refused.code, refused.reason) == (422, "Invalid")
    ((reason, field, message),) = refused.causes
    assert (reason, field) == ("FieldValueInvalid", "patch")
    assert message.endswith('strict decoding error: unknown field "spec.nope"')


@pytest.mark.parametrize(
    ("spec", "causes"),
    [
        (
            {"size": "1"},
            [
                (
                    "FieldValueTypeInvalid",
                    "spec.size",
                    'Invalid value: "string": spec.size in body must be of type integer: "string"',
                ),
                SKIPPED,
            ],
        ),
        (
            {"size": 1.5},
            [
                (
                    "FieldValueTypeInvalid",
                    "spec.size",
                    'Invalid value: "number": spec.size in body must be of type integer: "number"',
                ),
                SKIPPED,
            ],
        ),
        ({"size": None}, [("FieldValueRequired", "spec.size", "Required value"), SKIPPED]),
        (
            {"color": "blue"},
            [
                (
                    "FieldValueNotSupported",
                    "spec.color",
                    'Unsupported value: "blue": supported values: "red", "green"',
                ),
                SKIPPED,
            ],
        ),
        (
            {"size": 0},
            [
                (
                    "FieldValueInvalid",
                    "spec.size",
                    "Invalid value: 0: spec.size in body should be greater than or equal to 1",
                )
            ],
        ),
        (
            {"size": 101},
            [
                (
                    "FieldValueInvalid",
                    "spec.size",
                    "Invalid value: 101: spec.size in body should be less than or equal to 100",
                )
            ],
        ),
        (
            {"memory": "x"},
            [
                (
                    "FieldValueInvalid",
                    "spec.memory",
                    "Invalid value: \"x\": spec.memory in body should match '^[0-9]+[GM]i$'",
                )
            ],
        ),
        (
            {"tags": "a"},
            [
                (
                    "FieldValueTypeInvalid",
                    "spec.tags",
                    'Invalid value: "string": spec.tags in body must be of type array: "string"',
                ),
                SKIPPED,
            ],
        ),
        ({"ports": [{"port": 1}]}, [("FieldValueRequired", "spec.ports[0].name", "Required value"), SKIPPED]),
        (
            {"ports": [{"name": "a"}, {"name": "a"}]},
            [("FieldValueDuplicate", "spec.ports[1]", 'Duplicate value: {"name":"a"}')],
        ),
        ({"tags": ["a", "a"]}, [("FieldValueDuplicate", "spec.tags[1]", 'Duplicate value: "a"')]),
        (
            {"scaling": {"min": 3, "max": 2}},
            [("FieldValueInvalid", "spec", "Invalid value: min must not pass max")],
        ),
        (
            {"timeout": "0s"},
            [("FieldValueInvalid", "spec.timeout", "Invalid value: timeout must be positive")],
        ),
        (
            {"size": 0, "scaling": {"min": 3, "max": 2}},
            [
                (
                    "FieldValueInvalid",
                    "spec.size",
                    "Invalid value: 0: spec.size in body should be greater than or equal to 1",
                ),
                ("FieldValueInvalid", "spec", "Invalid value: min must not pass max"),
            ],
        ),
    ],
)
async def test_a_broken_rule_is_named_word_for_word(
    widgets: Api, spec: Object, causes: list[tuple[str, str, str]]
) -> None:
    refused = await widgets.refused("POST", widgets.path(WIDGETS), widget(**spec))
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert refused.causes == causes
    texts = [f"{field}: {message}" for _, field, message in causes]
    told = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    assert refused.message == f'Widget.example.test "w" is invalid: {told}'
    assert (refused.details["name"], refused.details["group"], refused.details["kind"]) == (
        "w",
        "example.test",
        "Widget",
    )


async def test_a_function_that_fails_refuses_the_object(widgets: Api) -> None:
    refused = await widgets.refused("POST", widgets.path(WIDGETS), widget(timeout="soon"))
    ((reason, field, message),) = refused.causes
    assert (refused.code, reason, field) == (422, "FieldValueInvalid", "spec")
    assert message.startswith('Invalid value: "object": ')
    assert message.endswith(" evaluating rule: timeout must be positive")
    why = message.removeprefix('Invalid value: "object": ').removesuffix(
        " evaluating rule: timeout must be positive"
    )
    differs(
        widgets.server,
        "cel-conversion-words",
        why,
        real="type conversion error from 'string' to 'google.protobuf.Duration'",
        embedded=(
            "Function 'duration' error: Parsing Error: Error { input: \"soon\", code: Float }. Check function "
            "arguments and their types."
        ),
    )


async def test_a_spec_that_is_no_object_is_refused(widgets: Api) -> None:
    refused = await widgets.refused("POST", widgets.path(WIDGETS), {**widget(), "spec": []})
    differs(
        widgets.server,
        "scale-path-complaint",
        [field for _, field, _ in refused.causes],
        real=["spec", ".spec.replicas", "<nil>"],
        embedded=["spec", "<nil>"],
    )


async def test_a_transition_rule_compares_with_what_was_there(widgets: Api) -> None:
    await widgets.create(WIDGETS, widget())
    await widgets.patch(WIDGETS, "w", {"spec": {"owner": "a"}})
    refused = await widgets.refused(
        "PATCH", widgets.path(WIDGETS, "w"), {"spec": {"owner": "b"}}, content_type=MERGE
    )
    assert refused.causes == [("FieldValueInvalid", "spec.owner", 'Invalid value: "b": owner is immutable')]


async def test_a_replace_needs_the_version(widgets: Api) -> None:
    made = await widgets.create(WIDGETS, widget())
    refused = await widgets.refused("PUT", widgets.path(WIDGETS, "w"), widget(size=2))
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert refused.causes == [
        ("FieldValueInvalid", "metadata.resourceVersion", "Invalid value: 0: must be specified for an update")
    ]
    made["spec"]["size"] = 2
    replaced = await widgets.ok("PUT", widgets.path(WIDGETS, "w"), made)
    assert replaced["metadata"]["generation"] == 2


async def test_a_definition_says_when_it_is_served(widgets: Api) -> None:
    found = await widgets.ok("GET", CRDS.path(None, "widgets.example.test"))
    conditions = {one["type"]: (one["status"], one["reason"]) for one in found["status"]["conditions"]}
    assert conditions == {
        "NamesAccepted": ("True", "NoConflicts"),
        "Established": ("True", "InitialNamesAccepted"),
    }
    assert found["status"]["storedVersions"] == ["v1"]
    assert found["status"]["acceptedNames"]["listKind"] == "WidgetList"


def llm_service(**spec: Any) -> Object:
    return {
        "apiVersion": LLMSERVICES.api_version,
        "kind": LLMSERVICES.kind,
        "metadata": {"name": "m"},
        "spec": {"model": {"source": {"uri": "pvc://m"}}, "runtime": {"name": "r"}, **spec},
    }


@pytest.mark.parametrize(
    ("spec", "causes"),
    [
        (
            {"scaling": {"min": 3, "max": 2}},
            [("spec.scaling", "Invalid value: scaling.min must not be greater than scaling.max")],
        ),
        (
            {"runtime": {}},
            [("spec.runtime", "Invalid value: runtime must set exactly one of name and selector.vendor")],
        ),
        (
            {"model": {}},
            [("spec.model", "Invalid value: model must set exactly one of source and catalogRef")],
        ),
        (
            {"model": {"source": {"uri": "pvc://m", "secretRef": {"name": "s"}}}},
            [
                (
                    "spec.model.source",
                    "Invalid value: model.source.secretRef is only for oci://, hf://, modelscope:// and s3:// URIs",
                )
            ],
        ),
        (
            {"scaling": {"activationTimeout": "soon"}},
            [
                (
                    "spec.scaling.activationTimeout",
                    (
                        'Invalid value: "soon": scaling.activationTimeout must be a duration longer than 0s, such as 5m '
                        "or 1m30s"
                    ),
                )
            ],
        ),
        (
            {"cache": {"claimName": "c", "size": "1Gi"}},
            [("spec.cache", CLAIM_IS_MADE)],
        ),
    ],
)
async def test_the_products_own_rules_speak_the_same_words(
    widgets: Api, spec: Object, causes: list[tuple[str, str]]
) -> None:
    refused = await widgets.refused("POST", widgets.path(LLMSERVICES), llm_service(**spec))
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert [(field, message) for _, field, message in refused.causes] == causes


async def test_the_products_defaults_are_the_same(widgets: Api) -> None:
    made = await widgets.create(LLMSERVICES, llm_service())
    assert made["spec"] == {
        "model": {"source": {"uri": "pvc://m"}},
        "runtime": {"name": "r"},
        "cache": {"strategy": "NodeLocalPVC"},
        "endpoint": {
            "coldStart": {"heartbeatInterval": "10s", "mode": "keepalive"},
            "maxQueue": 100,
            "openAICompatible": True,
        },
        "resources": {"accelerators": 1},
        "scaling": {
            "activationTimeout": "5m",
            "drainTimeout": "2m",
            "max": 1,
            "metric": "queueDepth",
            "min": 0,
            "scaleDownStabilization": "5m",
            "target": 10,
        },
    }

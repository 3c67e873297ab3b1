"""What the API accepts, what it refuses, and that a refusal names the field: in CEL and schema, and in the workers' models."""

from __future__ import annotations

from typing import Any

import pytest

from noctaya.api import Duration, InvalidSpec
from noctaya.api.inferenceruntime import InferenceRuntime
from noctaya.api.llmservice import LLMService
from noctaya.api.resource import Resource
from tests.api.admission import admit, rules_of, schema_of
from tests.api.samples import (
    BAD,
    CPU_RUNTIME,
    FULL_INFERENCERUNTIME,
    FULL_LLMSERVICE,
    GOOD,
    inferenceruntime,
    llmservice,
)

KINDS: dict[str, type[Resource]] = {"LLMService": LLMService, "InferenceRuntime": InferenceRuntime}


def parse(obj: dict[str, Any]) -> Resource:
    return KINDS[obj["kind"]].parse(obj)


@pytest.mark.parametrize("name", GOOD)
def test_a_good_object_is_accepted_and_gets_the_same_defaults_everywhere(name: str) -> None:
    defaulted, errors = admit(GOOD[name])
    assert errors == []
    assert parse(GOOD[name]) == parse(defaulted)


@pytest.mark.parametrize("name", BAD)
def test_a_bad_object_is_refused_with_the_field_named(name: str) -> None:
    bad = BAD[name]
    _, errors = admit(bad.obj)
    assert any(bad.names in error for error in errors), f"the API server says {errors}"
    with pytest.raises(InvalidSpec) as refusal:
        parse(bad.obj)
    assert bad.names in str(refusal.value), "a worker names another field"
    assert refusal.value.kind == bad.obj["kind"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_cel_rule_has_a_sample_that_breaks_it(kind: str) -> None:
    broken = {error.partition(": ")[2] for bad in BAD.values() for error in admit(bad.obj)[1]}
    unbroken = {rule["message"] for _, rule in rules_of(schema_of(kind))} - broken
    assert unbroken == set()


@pytest.mark.parametrize("kind", KINDS)
def test_the_message_of_a_rule_names_the_field(kind: str) -> None:
    for path, rule in rules_of(schema_of(kind)):
        field = path.rpartition(".")[2].removesuffix("[]") or "metadata.name"
        inside = field in rule["message"] or any(
            name in rule["message"] for name in ("a probe", "accelerator")
        )
        assert inside, (path, rule)


def test_the_api_server_fills_every_nested_default_of_a_minimal_service() -> None:
    spec = admit(llmservice())[0]["spec"]
    assert spec == {
        "model": {"source": {"uri": "hf://Qwen/Qwen3-8B"}},
        "runtime": {"name": "vllm"},
        "resources": {"accelerators": 1},
        "scaling": {
            "min": 0,
            "max": 1,
            "metric": "queueDepth",
            "target": 10,
            "activationTimeout": "5m",
            "scaleDownStabilization": "5m",
            "drainTimeout": "2m",
        },
        "cache": {"strategy": "NodeLocalPVC"},
        "endpoint": {
            "openAICompatible": True,
            "maxQueue": 100,
            "coldStart": {"mode": "keepalive", "heartbeatInterval": "10s"},
        },
    }


def test_the_api_server_fills_every_nested_default_of_a_minimal_runtime() -> None:
    assert admit(CPU_RUNTIME)[0]["spec"] == {
        "family": "llamacpp",
        "vendor": "cpu",
        "priority": 0,
        "container": {"image": "noctaya.local/llamacpp", "port": {"name": "http", "containerPort": 8000}},
    }
    metrics = admit(inferenceruntime(metrics={"queueDepth": "q"}))[0]["spec"]["metrics"]
    assert metrics == {"path": "/metrics", "port": "http", "queueDepth": "q"}


def test_a_service_reads_as_it_was_written() -> None:
    service = LLMService.parse(FULL_LLMSERVICE)
    assert service.metadata.name == "qwen"
    assert service.spec.scaling.activation_timeout == Duration.parse("90s")
    assert service.spec.cache.claim_name == "models"
    assert service.spec.runtime.selector is not None
    assert service.spec.runtime.selector.vendor == ("ascend", "nvidia", "cpu")
    assert service.spec.endpoint.cold_start.heartbeat_mode == "off"
    assert service.spec.resources.memory is not None
    assert service.spec.resources.memory.whole == 32 * 2**30


def test_an_absent_addition_means_what_it_meant_before_there_was_one() -> None:
    service, runtime = LLMService.parse(llmservice()), InferenceRuntime.parse(CPU_RUNTIME)
    assert service.spec.endpoint.cold_start.heartbeat_mode == "comment"
    assert service.spec.cache.prewarm is False
    assert service.spec.endpoint.aliases == service.spec.endpoint.hostnames == ()
    assert runtime.spec.http is None
    assert InferenceRuntime.parse(inferenceruntime(http={})).spec.http.keep_alive is True  # type: ignore[union-attr]


def test_core_types_go_into_children_as_they_were_written() -> None:
    runtime = InferenceRuntime.parse(FULL_INFERENCERUNTIME)
    written = FULL_INFERENCERUNTIME["spec"]
    assert runtime.spec.health is not None
    assert runtime.spec.health.as_json() == written["health"]
    assert [env.as_json() for env in runtime.spec.container.env] == written["container"]["env"]
    assert runtime.spec.accelerator is not None
    assert runtime.spec.accelerator.as_json() == written["accelerator"]


def test_a_field_from_a_newer_release_is_ignored() -> None:
    newer = llmservice(lora=[{"name": "x"}])
    assert LLMService.parse(newer) == LLMService.parse(llmservice())


def test_a_status_nobody_understands_leaves_the_spec_readable() -> None:
    assert LLMService.parse({**llmservice(), "status": {"phase": 7}}) == LLMService.parse(llmservice())


def test_every_problem_is_reported_at_once() -> None:
    bad = llmservice(scaling={"max": 0, "target": 0}, cache={"strategy": "x"})
    with pytest.raises(InvalidSpec) as refusal:
        LLMService.parse(bad)
    assert [problem.field for problem in refusal.value.problems] == [
        "spec.scaling.max",
        "spec.scaling.target",
        "spec.cache.strategy",
    ]
    assert str(refusal.value).startswith("LLMService ai/qwen is not valid: spec.scaling.max: ")


@pytest.mark.parametrize("obj", [{}, {"metadata": None}, {"metadata": {"name": "a"}, "spec": []}])
def test_an_object_of_no_shape_is_an_invalid_spec(obj: dict[str, Any]) -> None:
    with pytest.raises(InvalidSpec):
        LLMService.parse(obj)

"""What services become, against golden files, and what cannot be rendered.

A golden file is rewritten by `python -m tests.workers.reconcile.golden`; read the difference before you keep it.
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from noctaya.workers.errors import SpecProblem
from noctaya.workers.scaledobject import polling_interval
from tests.api.samples import inferenceruntime, llmservice, put
from tests.workers.reconcile.golden import CASES, FOLDER, rendered, rendering


@pytest.mark.parametrize("case", sorted(CASES))
def test_children_are_as_in_the_golden_file(case: str) -> None:
    assert yaml.safe_load((FOLDER / f"{case}.yaml").read_text()) == rendered(case)


def test_every_golden_file_has_its_case() -> None:
    assert {path.stem for path in FOLDER.glob("*.yaml")} == set(CASES)


@pytest.mark.parametrize(
    ("service", "runtime", "reason", "words"),
    [
        ({"resources.fraction": {"cores": 1}}, {}, "Render", "spec.resources.fraction"),
        ({"cache": {"strategy": "BakedImage"}}, {}, "Render", "BakedImage"),
        ({"cache": {"prewarm": True}}, {}, "Prewarm", "spec.cache.prewarm"),
        ({"scaling": {"metric": "kvCacheUtil"}}, {}, "ScaledObject", "kvCacheUtil"),
        (
            {"scaling.externalScaler.tls": {"serverSecretName": "s", "authenticationRef": {"name": "a"}}},
            {},
            "ScaledObject",
            "externalScaler.tls",
        ),
        ({"runtime.argsOverride": ["{{ .Model.Size }}"]}, {}, "Render", "spec.runtime.argsOverride"),
        ({}, {"container.args": ["{{ if .Model.Path }}"]}, "Render", "container.args"),
        ({}, {"container.env": [{"name": "A", "value": "{{ x }}"}]}, "Render", "container.env[A]"),
        ({"scaling": {"min": 3, "max": 2}}, {}, "InvalidSpec", "scaling.min"),
        ({}, {"vendor": "acme"}, "RuntimeResolution", "vendor"),
    ],
)
def test_what_cannot_be_served_is_named(
    service: dict[str, Any], runtime: dict[str, Any], reason: str, words: str
) -> None:
    body, chosen = llmservice(), inferenceruntime()
    for path, value in service.items():
        body = put(body, f"spec.{path}", value)
    for path, value in runtime.items():
        chosen = put(chosen, f"spec.{path}", value)
    with pytest.raises(SpecProblem) as caught:
        rendering(body, chosen)
    assert caught.value.reason == reason
    assert words in str(caught.value)


def test_pvc_models_get_no_cache_whatever_the_strategy_says() -> None:
    children = rendering(
        llmservice(model={"source": {"uri": "pvc://weights"}}, cache={"prewarm": True}), inferenceruntime()
    )
    assert children.cache_claim is None
    assert "model-cache" not in str(children.deployment.body)


def test_the_runtimes_own_environment_counts_over_ours() -> None:
    runtime = put(inferenceruntime(), "spec.container.env", [{"name": "HF_HOME", "value": "/elsewhere"}])
    container = rendering(llmservice(), runtime).deployment.body["spec"]["template"]["spec"]["containers"][0]
    assert container["env"].count({"name": "HF_HOME", "value": "/elsewhere"}) == 1
    assert [entry["name"] for entry in container["env"]] == ["HF_HOME", "MODELSCOPE_CACHE"]


def test_host_paths_of_two_services_never_meet() -> None:
    paths: set[str] = set()
    for namespace, name in (("a-b", "c"), ("a", "b-c")):
        service = llmservice(name, cache={"strategy": "HostPath"})
        children = rendering(service, inferenceruntime(), namespace=namespace)
        volumes = children.deployment.body["spec"]["template"]["spec"]["volumes"]
        paths.update(volume["hostPath"]["path"] for volume in volumes if "hostPath" in volume)
    assert len(paths) == 2


def test_a_deployments_body_never_holds_replicas() -> None:
    children = rendering(llmservice(), inferenceruntime())
    assert "replicas" not in children.deployment.body["spec"]
    assert children.deployment.first_replicas == 0


def test_a_startup_budget_longer_than_kubernetes_can_count_is_cut() -> None:
    probe = {
        "httpGet": {"path": "/health", "port": "http"},
        "periodSeconds": 2**20,
        "failureThreshold": 2**20,
    }
    body = rendering(llmservice(), inferenceruntime(health={"startup": probe})).deployment.body
    assert body["spec"]["progressDeadlineSeconds"] == 2**31 - 1


@given(setting=st.integers(5, 600), cooldown=st.integers(0, 3600))
def test_the_cooldown_holds_at_least_two_polls(setting: int, cooldown: int) -> None:
    interval = polling_interval(setting, cooldown)
    assert 5 <= interval <= setting
    assert interval == 5 or 2 * interval <= cooldown


def test_a_revision_stands_in_the_triggers_metadata() -> None:
    body = rendering(llmservice(), inferenceruntime(), revision=3).scaled_object.body
    assert body["spec"]["triggers"][0]["metadata"]["noctayaRevision"] == "3"

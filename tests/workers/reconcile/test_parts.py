"""The small pure parts: model URIs, the choice of a runtime, comparison, patience, KEDA's verdicts, partial decoding."""

from __future__ import annotations

import json
import sys
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noctaya.kube.objects import Metadata, ScaledObject
from noctaya.workers.autoscaling import Autoscaling, is_stuck, verdict
from noctaya.workers.compare import says
from noctaya.workers.errors import SpecProblem
from noctaya.workers.models import resolve
from noctaya.workers.objects import InferenceRuntime, LLMService, ScaledHPA, references
from noctaya.workers.patience import Patience
from noctaya.workers.runtimes import choose
from noctaya.workers.scaledobject import revision_of
from noctaya.workers.specs import Specs
from tests.api.samples import FULL_LLMSERVICE, llmservice


@pytest.mark.parametrize(
    ("uri", "scheme", "path", "claim"),
    [
        ("pvc://weights", "pvc", "/models", "weights"),
        ("pvc://weights.v2/qwen/8b", "pvc", "/models/qwen/8b", "weights.v2"),
        ("HF://Qwen/Qwen3-8B", "hf", "Qwen/Qwen3-8B", ""),
        ("huggingface://Qwen/Qwen3-8B", "hf", "Qwen/Qwen3-8B", ""),
        ("modelscope://Qwen/Qwen3-8B", "modelscope", "Qwen/Qwen3-8B", ""),
    ],
)
def test_a_uri_means_a_path(uri: str, scheme: str, path: str, claim: str) -> None:
    model = resolve(uri)
    assert (model.scheme, model.path, model.claim) == (scheme, path, claim)


@pytest.mark.parametrize(
    "uri",
    [
        "",
        "weights",
        "hf://",
        "pvc://",
        "pvc:///x",
        "pvc://Weights",
        "pvc://w/",
        "pvc://w//x",
        "pvc://w/../x",
        "pvc://w/./x",
        "pvc://w/x/",
        "hf://Qwen/Qwen3@main",
        "oci://r/m:latest",
        "oci://r.example.org/m@sha256:" + "a" * 64,
        "s3://bucket/x",
        "gopher://x",
    ],
)
def test_a_uri_that_cannot_be_delivered_is_refused(uri: str) -> None:
    with pytest.raises(SpecProblem) as caught:
        resolve(uri)
    assert caught.value.reason == "ModelResolution"


@given(st.text(max_size=40))
def test_no_path_leaves_the_claim(folder: str) -> None:
    try:
        path = resolve(f"pvc://claim/{folder}").path
    except SpecProblem:
        return
    assert path.startswith("/models/")
    assert ".." not in path.split("/")


def test_a_source_secret_is_refused_until_something_uses_it() -> None:
    with pytest.raises(SpecProblem, match="secretRef"):
        resolve("hf://a/b", secret="token")


def runtime(name: str, vendor: str = "nvidia", priority: int = 0) -> InferenceRuntime:
    spec = json.dumps({"vendor": vendor, "priority": priority, "family": "vllm"}).encode()
    return InferenceRuntime(metadata=Metadata(name=name), spec=msgspec.Raw(spec))


def chosen(name: str, vendors: list[str], *runtimes: InferenceRuntime, current: str = "") -> str:
    by_name = {one.name: one for one in runtimes}
    return choose(
        name,
        vendors,
        get=by_name.get,
        of_vendor=lambda vendor: [one for one in runtimes if one.choice().vendor == vendor],
        current=current,
    ).name


def test_vendor_order_beats_priority_and_priority_decides_within_a_vendor() -> None:
    runtimes = [runtime("a", "ascend", 1), runtime("n1", "nvidia", 5), runtime("n2", "nvidia", 9)]
    assert chosen("", ["ascend", "nvidia"], *runtimes) == "a"
    assert chosen("", ["nvidia", "ascend"], *runtimes) == "n2"
    assert chosen("", ["cpu", "ascend"], *runtimes) == "a"
    assert chosen("n1", [], *runtimes) == "n1"


def test_a_tie_is_the_users_to_break_and_never_falls_through() -> None:
    with pytest.raises(SpecProblem, match="n1, n2"):
        chosen("", ["nvidia", "ascend"], runtime("n2"), runtime("n1"), runtime("a", "ascend"))


def test_what_was_chosen_stays_chosen_while_it_fits() -> None:
    runtimes = [runtime("old"), runtime("new", priority=9)]
    assert chosen("", ["nvidia"], *runtimes, current="old") == "old"
    assert chosen("", ["nvidia"], *runtimes, current="gone") == "new"
    assert chosen("", ["nvidia"], *runtimes, runtime("a", "ascend"), current="a") == "new"


@pytest.mark.parametrize(
    ("live", "wanted", "same"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": 1}, {"a": 2}, False),
        ({}, {"a": ""}, True),
        ({}, {"a": {"b": []}}, True),
        ({}, {"initialDelaySeconds": 0}, True),
        ({}, {"cooldownPeriod": 0}, False),
        ({}, {"automountServiceAccountToken": False}, False),
        ({}, {"securityContext": {"allowPrivilegeEscalation": False}}, False),
        ({"a": 1}, {"a": 0}, False),
        ({"a": 1}, {"a": True}, False),
        ({"limits": {"memory": "1Gi"}}, {"limits": {"memory": "1024Mi"}}, True),
        ({"limits": {"cpu": "500m"}}, {"limits": {"cpu": "0.5"}}, True),
        ({"limits": {"cpu": "500m"}}, {"limits": {"cpu": "0.6"}}, False),
        ({"labels": {"size": "1Gi"}}, {"labels": {"size": "1024Mi"}}, False),
        ({"args": ["a", "b"]}, {"args": ["a"]}, False),
        ({"args": ["b", "a"]}, {"args": ["a", "b"]}, False),
        ({"env": [{"name": "X"}, {"name": "Y", "value": "1"}]}, {"env": [{"name": "Y", "value": "1"}]}, True),
        ({"env": [{"name": "X"}]}, {"env": [{"name": "X", "value": ""}]}, True),
        ({"env": [{"name": "X", "value": "1"}]}, {"env": [{"name": "X", "value": "2"}]}, False),
        ({"env": []}, {"env": [{"name": "X", "value": ""}]}, False),
        (
            {"containers": [{"name": "sidecar"}, {"name": "serving", "image": "a", "tty": True}]},
            {"containers": [{"name": "serving", "image": "a"}]},
            True,
        ),
        ({"triggers": [{"type": "a", "x": 1}, {"type": "b"}]}, {"triggers": [{"type": "a"}]}, False),
        (None, {}, True),
    ],
)
def test_a_live_object_says_what_is_wanted(live: Any, wanted: Any, same: bool) -> None:
    assert says(live, wanted) is same


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@given(JSON, st.dictionaries(st.text(min_size=4, max_size=5), JSON, max_size=2))
def test_an_object_says_itself_and_more_than_itself(wanted: Any, more: dict[str, Any]) -> None:
    assert says(wanted, wanted)
    if isinstance(wanted, dict):
        assert says(more | wanted, wanted)


def test_patience_grows_with_every_attempt_and_ends_when_all_is_well() -> None:
    patience = Patience()
    assert patience.observe("k", True, 0) == 0
    assert not patience.may_rebuild("k", 59)
    assert patience.may_rebuild("k", 60)
    patience.rebuilt("k", 60)
    assert not patience.may_rebuild("k", 179)
    assert patience.may_rebuild("k", 180)
    assert patience.observe("k", True, 200) == 200
    patience.observe("k", False, 201)
    assert not patience.may_rebuild("k", 9999)


def scaled(
    status: str = "True", paused: str = "False", revision: str = "0", message: str = ""
) -> ScaledObject:
    conditions = [
        {"type": "Ready", "status": status, "reason": "R", "message": message},
        {"type": "Paused", "status": paused},
    ]
    triggers = [{"type": "external-push", "metadata": {"noctayaRevision": revision}}]
    return msgspec.convert(
        {"spec": {"triggers": triggers}, "status": {"conditions": conditions}}, ScaledObject
    )


def hpa(*types: str) -> ScaledHPA:
    return msgspec.convert(
        {"metadata": {"name": "h"}, "spec": {"metrics": [{"type": one} for one in types]}}, ScaledHPA
    )


@pytest.mark.parametrize(
    ("seen", "answer", "stuck"),
    [
        (Autoscaling(False, True), "False/AutoscalingUnavailable", False),
        (Autoscaling(True, True, scaled(), failure="no"), "False/ApplyScaledObject", False),
        (Autoscaling(True, False), "False/ScalerUnreachable", False),
        (Autoscaling(True, True), "Unknown/WaitingForKEDA", False),
        (Autoscaling(True, True, ScaledObject()), "Unknown/WaitingForKEDA", False),
        (Autoscaling(True, False, scaled()), "True/ScaledObjectApplied", False),
        (Autoscaling(True, True, scaled("False")), "False/ScaledObjectNotReady", True),
        (Autoscaling(True, True, scaled("Unknown")), "False/ScaledObjectNotReady", True),
        (Autoscaling(True, True, scaled(paused="True")), "False/ScaledObjectPaused", False),
        (Autoscaling(True, True, scaled(), hpa("External")), "True/ScaledObjectApplied", False),
        (Autoscaling(True, True, scaled(), hpa()), "True/ScaledObjectApplied", False),
        (Autoscaling(True, True, scaled(), hpa("Resource")), "False/WrongHPAMetrics", True),
    ],
)
def test_kedas_side_decides_whether_autoscaling_is_ready(seen: Autoscaling, answer: str, stuck: bool) -> None:
    found = verdict(seen)
    assert f"{found.status}/{found.reason}" == answer
    assert found.message
    assert is_stuck(seen) is stuck


def test_the_revision_is_read_back_from_the_live_object() -> None:
    assert revision_of(None) == 0
    assert revision_of(ScaledObject()) == 0
    assert revision_of(scaled(revision="7")) == 7
    assert revision_of(scaled(revision="odd")) == 0


def test_references_are_read_from_the_raw_spec() -> None:
    service = LLMService(spec=msgspec.Raw(json.dumps(FULL_LLMSERVICE["spec"]).encode()))
    found = references(service)
    assert found.runtime or found.vendors
    assert found.client_keys in found.secrets
    assert references(LLMService(spec=msgspec.Raw(b'{"runtime": 3}'))).runtime == ""


def test_a_service_from_a_list_does_not_hold_on_to_the_whole_list() -> None:
    body = json.dumps([llmservice(f"s{i}") for i in range(3)]).encode()
    before = sys.getrefcount(body)
    services = msgspec.json.decode(body, type=list[LLMService])
    assert len(services) == 3
    assert sys.getrefcount(body) == before


def test_a_spec_is_parsed_once_a_generation_and_memory_is_bounded() -> None:
    specs = Specs(services=2)

    def service(name: str, generation: int) -> LLMService:
        raw = msgspec.Raw(json.dumps(llmservice(name)["spec"]).encode())
        return LLMService(
            metadata=Metadata(name=name, namespace="ai", uid=name, generation=generation), spec=raw
        )

    first = specs.service(service("a", 1))
    assert specs.service(service("a", 1)) is first
    assert specs.service(service("a", 2)) is not first
    specs.service(service("b", 1))
    assert specs.service(service("a", 1)) is not first, "the oldest was let go"

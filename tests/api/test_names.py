"""The names of children, and the shard of a service."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noctaya.api import HASH_NAME, SHARD_COUNT, InvalidName, child_names, shard_of
from noctaya.api.names import (
    backend_labels,
    check_service_name,
    child_labels,
    endpoint_url,
    prewarm_labels,
    selector_labels,
)

SERVICE_NAMES = st.from_regex(re.compile("[a-z]([-a-z0-9]{0,52}[a-z0-9])?"), fullmatch=True)
DNS_LABEL = re.compile("[a-z]([-a-z0-9]{0,61}[a-z0-9])?")


@given(SERVICE_NAMES)
def test_an_accepted_name_makes_names_that_kubernetes_accepts(name: str) -> None:
    check_service_name(name)
    assert all(DNS_LABEL.fullmatch(child) for child in child_names(name))
    assert DNS_LABEL.fullmatch(f"keda-hpa-{name}")
    for labels in (backend_labels("ai", name, "vllm"), prewarm_labels(name)):
        assert all(len(value) <= 63 for value in labels.values())


@pytest.mark.parametrize("name", ["", "a" * 55, "3b", "-a", "a-", "qwen3.5", "Qwen", "a_b", "a\n"])
def test_other_names_are_refused(name: str) -> None:
    with pytest.raises(InvalidName) as refusal:
        check_service_name(name)
    assert refusal.value.name == name


def test_children_are_called_as_they_are_known() -> None:
    assert child_names("qwen")._asdict() == {
        "deployment": "qwen",
        "service": "qwen",
        "backend_service": "qwen-backend",
        "scaled_object": "qwen",
        "cache_claim": "qwen-cache",
        "prewarm_job": "qwen-prewarm",
    }
    assert endpoint_url("ai", "qwen") == "http://qwen.ai.svc/v1"


def test_the_shard_of_a_service_never_changes() -> None:
    # These stand in shard maps and labels of running clusters: a change here orphans every child.
    assert (SHARD_COUNT, HASH_NAME) == (128, "xxh3-64/ns-name/v1")
    assert {key: shard_of(*key) for key in [("ai", "qwen"), ("default", "smollm2"), ("ä", "ü")]} == {
        ("ai", "qwen"): 71,
        ("default", "smollm2"): 22,
        ("ä", "ü"): 16,
    }


def test_ten_thousand_services_spread_evenly() -> None:
    counts = [0] * SHARD_COUNT
    for index in range(10_000):
        counts[shard_of(f"team-{index % 40}", f"model-{index}")] += 1
    assert min(counts) > 40
    assert max(counts) < 125


def test_prewarm_pods_are_not_taken_for_backends() -> None:
    assert not selector_labels("qwen").items() <= prewarm_labels("qwen").items()
    assert "serving.noctaya.io/llmservice" not in prewarm_labels("qwen")


def test_backends_carry_selector_shard_and_runtime() -> None:
    labels = backend_labels("ai", "qwen", "vllm")
    assert selector_labels("qwen").items() <= child_labels("ai", "qwen").items() <= labels.items()
    assert labels == {
        "app.kubernetes.io/name": "qwen",
        "app.kubernetes.io/managed-by": "noctaya",
        "serving.noctaya.io/llmservice": "qwen",
        "serving.noctaya.io/shard": str(shard_of("ai", "qwen")),
        "serving.noctaya.io/runtime": "vllm",
    }

"""What kubectl's tables say: ages, pod status, selectors, columns of custom resources."""

from __future__ import annotations

from typing import Any

import pytest

from noctaya.local.apiserver.podcolumns import pod_status
from noctaya.local.apiserver.printercolumns import columns_of, compiled
from noctaya.local.apiserver.registry import Registry
from noctaya.local.apiserver.representation import Representation
from noctaya.local.apiserver.resources import BUILTIN_KINDS
from noctaya.local.apiserver.tablecells import human_duration, selector_text
from tests.local.apiserver.manifests import deployment, pod

NOW = 1_800_000_000.0  # 2027-01-15T08:00:00Z


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"), (119, "119s"), (120, "2m"), (190, "3m10s"), (600, "10m"), (3600 * 3, "3h"), (3600 * 3 + 60, "3h1m"),
        (3600 * 20, "20h"), (86400 * 3 + 3600 * 2, "3d2h"), (86400 * 30, "30d"), (86400 * 800, "2y70d"), (-5, "<invalid>"),
    ],
)  # fmt: skip
def test_ages_read_as_kubectl_prints_them(seconds: float, text: str) -> None:
    assert human_duration(seconds) == text


def with_containers(phase: str, *states: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {**pod(), "status": {"phase": phase, "containerStatuses": list(states), **more}}


@pytest.mark.parametrize(
    ("found", "text"),
    [
        (with_containers("Pending"), "Pending"),
        (with_containers("Pending", {"state": {"waiting": {"reason": "ErrImagePull"}}}), "ErrImagePull"),
        (with_containers("Running", {"ready": True, "state": {"running": {}}}), "Running"),
        (with_containers("Failed", {"state": {"terminated": {"exitCode": 3}}}), "ExitCode:3"),
        (with_containers("Failed", {"state": {"terminated": {"exitCode": 1, "reason": "Error"}}}), "Error"),
        (with_containers("Pending", initContainerStatuses=[{"state": {"running": {}}}]), "Init:0/0"),
        (
            with_containers(
                "Pending", initContainerStatuses=[{"state": {"waiting": {"reason": "CrashLoopBackOff"}}}]
            ),
            "Init:CrashLoopBackOff",
        ),
        (with_containers("Failed", reason="Evicted"), "Evicted"),
        (
            {**pod(), "metadata": {"name": "p", "deletionTimestamp": "x"}, "status": {"phase": "Running"}},
            "Terminating",
        ),
    ],
)
def test_a_pods_status_is_the_most_telling_reason(found: dict[str, Any], text: str) -> None:
    assert pod_status(found) == text


def test_a_selector_is_shown_on_one_line() -> None:
    rules = [
        {"key": "tier", "operator": "In", "values": ["a", "b"]},
        {"key": "x", "operator": "Exists"},
        {"key": "y", "operator": "DoesNotExist"},
    ]
    assert (
        selector_text({"matchLabels": {"app": "z"}, "matchExpressions": rules}) == "app=z,tier in (a,b),x,!y"
    )
    assert selector_text({}) == "<none>"


def test_every_built_in_kind_has_a_table_even_for_a_nearly_empty_object() -> None:
    bare = {"metadata": {"name": "x", "creationTimestamp": "2027-01-15T07:59:00Z"}}
    for kind in Registry(BUILTIN_KINDS):
        table = Representation("Table").one(kind, bare, NOW)
        assert len(table["rows"][0]["cells"]) == len(table["columnDefinitions"]), kind.kind


def test_a_deployments_row_counts_its_replicas() -> None:
    kind = next(kind for kind in BUILTIN_KINDS if kind.kind == "Deployment")
    found = {
        **deployment(replicas=2),
        "status": {"readyReplicas": 1, "updatedReplicas": 2, "availableReplicas": 1},
    }
    found["metadata"]["creationTimestamp"] = "2027-01-15T07:59:00Z"
    cells = Representation("Table").one(kind, found, NOW)["rows"][0]["cells"]
    assert cells == ["d", "1/2", 2, 1, "60s", "main", "app:1", "app=d"]


def test_declared_columns_are_read_by_json_path() -> None:
    found: dict[str, Any] = {
        "metadata": {"name": "x", "creationTimestamp": "2027-01-15T07:59:00Z", "labels": {"a.b/c": "v"}},
        "status": {"conditions": [{"type": "Ready", "status": "True"}], "list": [1, 2]},
    }
    declared = [
        {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
        {"name": "Label", "type": "string", "jsonPath": r".metadata.labels.a\.b/c"},
        {"name": "First", "type": "integer", "jsonPath": ".status.list[0]"},
        {"name": "All", "type": "string", "jsonPath": ".status.list[*]"},
        {"name": "Missing", "type": "string", "jsonPath": ".status.nope"},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    cells = [column.cell(found, NOW) for column in columns_of(declared)]
    assert cells == ["x", "True", "v", 1, "1,2", None, "60s"]


def test_a_json_path_beyond_the_subset_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot read the JSONPath"):
        compiled(".spec..name")

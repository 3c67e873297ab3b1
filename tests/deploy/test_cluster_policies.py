"""The rules that the API server enforces for us: epochs that never fall, renewals that never queue."""

from typing import Any

import pytest

from noctaya.local.apiserver.celengine import cel
from tests.deploy.api_needs import Need, needs
from tests.deploy.manifests import NAMESPACE, Object, of_kind, overlay

pytestmark = pytest.mark.kubectl

POLICY = "noctaya-shard-epoch"


def policy() -> Object:
    spec: Object = of_kind(overlay("default"), "ValidatingAdmissionPolicy")[POLICY]["spec"]
    return spec


def evaluate(expression: str, old: Object, new: Object) -> Any:
    return cel.evaluate(expression, {"oldObject": old, "object": new})


STATUS: dict[str, tuple[Object, Object, bool]] = {
    "the first status": ({}, {"status": {"shardEpoch": 1}}, True),
    "a status without an epoch": ({"status": {"phase": "Ready"}}, {"status": {"phase": "Failed"}}, True),
    "the same epoch": ({"status": {"shardEpoch": 3}}, {"status": {"shardEpoch": 3}}, True),
    "a newer epoch": ({"status": {"shardEpoch": 3}}, {"status": {"shardEpoch": 4}}, True),
    "an older epoch": ({"status": {"shardEpoch": 3}}, {"status": {"shardEpoch": 2}}, False),
    "an epoch taken away": ({"status": {"shardEpoch": 3}}, {"status": {"phase": "Ready"}}, False),
    "a status taken away": ({"status": {"shardEpoch": 3}}, {}, False),
}


@pytest.mark.parametrize("case", STATUS)
def test_an_epoch_never_falls(case: str) -> None:
    old, new, is_allowed = STATUS[case]
    (validation,) = policy()["validations"]
    assert evaluate(validation["expression"], old, new) is is_allowed


def test_a_refusal_says_which_epoch_stands() -> None:
    (validation,) = policy()["validations"]
    old, new, _ = STATUS["an older epoch"]
    assert "must not fall below 3" in evaluate(validation["messageExpression"], old, new)


def test_the_policy_is_bound_and_covers_the_status_alone() -> None:
    binding = of_kind(overlay("default"), "ValidatingAdmissionPolicyBinding")[POLICY]["spec"]
    assert binding == {"policyName": POLICY, "validationActions": ["Deny"]}
    assert policy()["failurePolicy"] == "Fail"
    (rule,) = policy()["matchConstraints"]["resourceRules"]
    assert rule["resources"] == ["llmservices/status"]
    assert rule["operations"] == ["UPDATE"]


def test_every_request_about_a_lease_has_a_way_of_its_own() -> None:
    spec = of_kind(overlay("default"), "FlowSchema")["noctaya-leases"]["spec"]
    (rule,) = spec["rules"]
    (resource,) = rule["resourceRules"]
    used = {need.verb for need in needs() if need.resource == "leases"}
    assert used == set(resource["verbs"])
    assert Need("coordination.k8s.io", "leases", "get") in needs()
    assert (resource["apiGroups"], resource["resources"]) == (["coordination.k8s.io"], ["leases"])
    assert resource["namespaces"] == [NAMESPACE]
    (subject,) = rule["subjects"]
    assert subject["serviceAccount"] == {"name": "noctaya-worker", "namespace": NAMESPACE}
    assert spec["priorityLevelConfiguration"]["name"] == "leader-election"
    assert 200 < spec["matchingPrecedence"] < 500

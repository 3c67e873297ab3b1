"""What a worker says that it must be allowed to do is what its code asks for, and what is missing is named verb by verb."""

from noctaya.kube.resources import DEPLOYMENTS, LEASES, LLMSERVICES, SECRETS
from noctaya.leader.lease_names import LEADER_LEASE
from noctaya.workers.rights import Right, missing_rights, rights
from tests.deploy.api_needs import Need, needs

HOME = "noctaya-system"
CLIENT_KEYS = {Need("", "secrets", verb) for verb in ("list", "watch")}
"""Given by namespace where an administrator wants that, and told of by the store of Secrets itself."""
OPEN_TO_ALL = {Need("authorization.k8s.io", "selfsubjectaccessreviews", "create")}
"""The question itself: every account may ask it."""


def as_need(right: Right) -> Need:
    plural = right.resource.plural
    return Need(
        right.resource.group, f"{plural}/{right.subresource}" if right.subresource else plural, right.verb
    )


def test_the_list_is_what_the_code_asks_for() -> None:
    assert {as_need(right) for right in rights(HOME)} == needs() - CLIENT_KEYS - OPEN_TO_ALL


def test_a_question_has_everything_that_rbac_looks_at_and_nothing_empty() -> None:
    asked = Right(LEASES, "update", HOME, LEADER_LEASE).review()["spec"]["resourceAttributes"]
    assert asked == {
        "verb": "update",
        "group": "coordination.k8s.io",
        "resource": "leases",
        "namespace": HOME,
        "name": LEADER_LEASE,
    }
    status = Right(LLMSERVICES, "patch", subresource="status").review()["spec"]["resourceAttributes"]
    assert (status["subresource"], status.get("namespace")) == ("status", None)


def test_every_missing_verb_is_named_with_its_resource_one_problem_a_kind() -> None:
    missing = [
        Right(DEPLOYMENTS, "create"),
        Right(DEPLOYMENTS, "patch"),
        Right(LLMSERVICES, "patch", subresource="status"),
        Right(SECRETS, "create", HOME),
        Right(LEASES, "update", HOME, LEADER_LEASE),
    ]
    told = {problem.name: problem.message for problem in missing_rights(missing)}
    assert list(told) == [
        "deploymentsForbidden",
        "llmservicesForbidden",
        "secretsForbidden",
        "leasesForbidden",
    ]
    assert "create, patch deployments.apps in all namespaces" in told["deploymentsForbidden"]
    assert "patch llmservices.serving.noctaya.io/status in all namespaces" in told["llmservicesForbidden"]
    assert f"create secrets in namespace {HOME}" in told["secretsForbidden"]
    assert f"update leases.coordination.k8s.io {LEADER_LEASE} in namespace {HOME}" in told["leasesForbidden"]
    assert list(missing_rights([])) == []

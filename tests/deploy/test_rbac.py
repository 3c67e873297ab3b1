"""The worker's rights are what its code uses: nothing is missing, and nothing is there that no line needs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from noctaya.leader.certificate_reading import AUTHORITY_SECRET, LEAF_SECRETS
from noctaya.leader.lease_names import SHARDMAP
from noctaya.workers.keys import FLEET_KEY
from tests.deploy.api_needs import Need, needs
from tests.deploy.manifests import KUSTOMIZE, NAMESPACE, Object, built, of_kind, overlay, with_components

pytestmark = pytest.mark.kubectl

WORKER = {"kind": "ServiceAccount", "name": "noctaya-worker", "namespace": NAMESPACE}


def bound_rules(objects: list[Object]) -> Iterator[tuple[str, Object]]:
    """(`cluster` or the namespace, rule) of every rule that the worker's account is bound to."""
    for scope, kind in (("ClusterRole", "ClusterRoleBinding"), ("Role", "RoleBinding")):
        for binding in of_kind(objects, kind).values():
            if WORKER in binding["subjects"]:
                assert binding["roleRef"]["kind"] == scope
                role = of_kind(objects, scope)[binding["roleRef"]["name"]]
                for rule in role["rules"]:
                    yield role["metadata"].get("namespace", "cluster"), rule


def granted(objects: list[Object], scope: str | None = None) -> set[Need]:
    return {
        Need(group, resource, verb)
        for where, rule in bound_rules(objects)
        if scope in (None, where)
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_what_the_code_asks_for_is_what_the_roles_grant() -> None:
    wanted, given = needs(), granted(overlay("default"))
    assert wanted - given == set(), "missing"
    assert given - wanted == set(), "granted and never used"


def test_the_code_is_read_right() -> None:
    """A few that would be missed first, each found another way: status patch, apply, Store, Lease, event."""
    assert {
        Need("serving.noctaya.io", "llmservices/status", "patch"),
        Need("apps", "deployments", "create"),
        Need("", "pods", "watch"),
        Need("coordination.k8s.io", "leases", "update"),
        Need("", "events", "patch"),
        Need("keda.sh", "scaledobjects", "patch"),
    } <= needs()
    assert not [need for need in needs() if need.verb == "delete"]


def test_nothing_is_granted_by_a_wildcard() -> None:
    for _, rule in bound_rules(overlay("default")):
        assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]


def test_the_fleets_own_objects_are_granted_by_name_and_in_its_namespace_only() -> None:
    objects = overlay("default")
    named = {
        (rule["resources"][0], *rule["resourceNames"]): rule["verbs"]
        for where, rule in bound_rules(objects)
        if where == NAMESPACE and "resourceNames" in rule
    }
    assert named == {
        ("configmaps", SHARDMAP): ["get", "list", "watch", "update"],
        ("secrets", FLEET_KEY): ["get"],
        ("secrets", AUTHORITY_SECRET, *LEAF_SECRETS.values()): ["get", "update"],
    }
    unnamed = [
        (rule["resources"], rule["verbs"])
        for where, rule in bound_rules(objects)
        if where == NAMESPACE and "resourceNames" not in rule
    ]
    assert unnamed == [
        (["leases"], ["get", "list", "watch", "create", "update"]),
        (["configmaps"], ["create"]),
        (["secrets"], ["create"]),
    ]
    elsewhere = {need.resource for need in granted(objects, "cluster")}
    assert elsewhere.isdisjoint({"leases", "configmaps"})


def test_secrets_are_read_across_the_cluster_by_one_role_that_grants_nothing_else() -> None:
    objects = overlay("default")
    roles = {
        name: role["rules"]
        for name, role in of_kind(objects, "ClusterRole").items()
        if any("secrets" in rule["resources"] for rule in role["rules"])
    }
    assert roles == {
        "noctaya-worker-client-keys": [
            {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list", "watch"]}
        ]
    }


def test_direct_secrets_leave_no_right_over_secrets_but_by_name_and_namespace(tmp_path: Path) -> None:
    objects = with_components(tmp_path, "direct-secrets")
    assert "secrets" not in {need.resource for need in granted(objects, "cluster")}
    own = built(KUSTOMIZE / "components/direct-secrets/namespace")
    assert [(found["kind"], found["metadata"].get("namespace")) for found in own] == [
        ("Role", None),
        ("RoleBinding", None),
    ]
    assert granted(own) == {Need("", "secrets", "get")}


def test_people_get_models_through_the_clusters_own_roles_and_runtimes_only_to_read() -> None:
    roles = of_kind(overlay("default"), "ClusterRole")
    assert (
        roles["noctaya-view"]["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"] == "true"
    )
    assert (
        roles["noctaya-edit"]["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-edit"] == "true"
    )
    assert [rule["resources"] for rule in roles["noctaya-edit"]["rules"]] == [["llmservices"]]
    assert [rule["verbs"] for rule in roles["noctaya-view"]["rules"]] == [["get", "list", "watch"]]


def test_operators_see_workers_and_write_wishes_and_nobody_is_one_by_default() -> None:
    objects = overlay("default")
    role = of_kind(objects, "Role")["noctaya-operator"]
    assert role["metadata"]["namespace"] == NAMESPACE
    assert {
        (resource, *rule.get("resourceNames", ())): rule["verbs"]
        for rule in role["rules"]
        for resource in rule["resources"]
    } == {
        ("pods",): ["get", "list"],
        ("pods/portforward",): ["create"],
        ("leases",): ["get", "list", "patch"],
        ("configmaps", SHARDMAP): ["get", "patch"],
    }
    for kind in ("RoleBinding", "ClusterRoleBinding"):
        for binding in of_kind(objects, kind).values():
            assert binding["roleRef"]["name"] != "noctaya-operator"

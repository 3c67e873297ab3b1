"""Discovery, OpenAPI and the small documents: what clients look at before they do anything."""

from __future__ import annotations

import json
from typing import Any

import pytest

from noctaya.kube.resources import ALL, SCALEDOBJECTS, Resource
from tests.conformance.client import Api, Object

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
KINDS = [resource for resource in ALL if resource != SCALEDOBJECTS]
EVERY_VERB = {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
SHORT_NAMES = {
    "configmaps": ["cm"],
    "customresourcedefinitions.apiextensions.k8s.io": ["crd", "crds"],
    "deployments.apps": ["deploy"],
    "events": ["ev"],
    "horizontalpodautoscalers.autoscaling": ["hpa"],
    "namespaces": ["ns"],
    "nodes": ["no"],
    "persistentvolumeclaims": ["pvc"],
    "persistentvolumes": ["pv"],
    "poddisruptionbudgets.policy": ["pdb"],
    "pods": ["po"],
    "replicasets.apps": ["rs"],
    "services": ["svc"],
    "storageclasses.storage.k8s.io": ["sc"],
}
SUBRESOURCES = {
    "deployments.apps": {"status", "scale"},
    "llmservices.serving.noctaya.io": {"status"},
    "pods": {"status", "log", "eviction", "binding"},
    "services": {"status"},
}


def prefix(resource: Resource) -> str:
    return f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"


@pytest.mark.parametrize("resource", KINDS, ids=lambda resource: resource.full_name)
async def test_every_kind_of_ours_is_listed_with_its_names_and_verbs(
    widgets: Api, resource: Resource
) -> None:
    found = await widgets.ok("GET", prefix(resource))
    assert (found["kind"], found["groupVersion"]) == ("APIResourceList", resource.api_version)
    entries = {one["name"]: one for one in found["resources"]}
    entry = entries[resource.plural]
    assert (entry["kind"], entry["namespaced"]) == (resource.kind, resource.namespaced)
    assert entry["singularName"] == resource.kind.lower()
    verbs = EVERY_VERB - {"deletecollection"} if resource.plural == "namespaces" else EVERY_VERB
    assert set(entry["verbs"]) == verbs
    assert entry.get("shortNames", []) == SHORT_NAMES.get(resource.full_name, [])
    assert SUBRESOURCES.get(resource.full_name, set()) <= {
        name.partition("/")[2] for name in entries if name.startswith(f"{resource.plural}/")
    }


async def test_the_scale_subresource_says_which_kind_it_is(api: Api) -> None:
    found = await api.ok("GET", "/apis/apps/v1")
    (scale,) = [one for one in found["resources"] if one["name"] == "deployments/scale"]
    assert (scale["group"], scale["version"], scale["kind"]) == ("autoscaling", "v1", "Scale")
    assert set(scale["verbs"]) == {"get", "patch", "update"}


async def test_groups_tell_their_versions(widgets: Api) -> None:
    assert (await widgets.ok("GET", "/api"))["versions"] == ["v1"]
    groups = {one["name"]: one for one in (await widgets.ok("GET", "/apis"))["groups"]}
    assert {resource.group for resource in KINDS if resource.group} <= groups.keys()
    one = {"groupVersion": "example.test/v1", "version": "v1"}
    expected = {"name": "example.test", "versions": [one], "preferredVersion": one}
    assert groups["example.test"] == expected
    assert await widgets.ok("GET", "/apis/example.test") == {
        "kind": "APIGroup",
        "apiVersion": "v1",
        **expected,
    }


@pytest.mark.parametrize("root", ["/api", "/apis"])
async def test_aggregated_discovery_says_the_same_in_one_document(widgets: Api, root: str) -> None:
    async def is_there() -> bool:
        """The aggregator of a real server learns of a new definition a moment later."""
        return root == "/api" or "example.test" in await _aggregated(widgets, root)

    await widgets.until(is_there)
    groups = await _aggregated(widgets, root)
    kinds = [one for one in KINDS if bool(one.group) is (root == "/apis")]
    for resource in kinds:
        entry = groups[resource.group][resource.version][resource.plural]
        assert entry["responseKind"]["kind"] == resource.kind
        assert entry["scope"] == ("Namespaced" if resource.namespaced else "Cluster")
        assert entry.get("shortNames", []) == SHORT_NAMES.get(resource.full_name, [])
        subresources = {one["subresource"] for one in entry.get("subresources", [])}
        assert SUBRESOURCES.get(resource.full_name, set()) <= subresources


async def _aggregated(api: Api, root: str) -> dict[str, Any]:
    """group → version → plural → entry."""
    found = await api.ok("GET", root, accept=AGGREGATED)
    assert (found["kind"], found["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
    return {
        item["metadata"].get("name", ""): {
            version["version"]: {one["resource"]: one for one in version.get("resources", [])}
            for version in item["versions"]
        }
        for item in found["items"]
    }


async def test_openapi_says_that_fields_are_validated_by_the_server(api: Api) -> None:
    index = await _document(api, "/openapi/v3")
    document = await _document(api, index["paths"]["apis/apps/v1"]["serverRelativeURL"])
    patch = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert "fieldValidation" in {one["name"] for one in patch["parameters"]}
    assert patch["x-kubernetes-group-version-kind"] == {
        "group": "apps",
        "version": "v1",
        "kind": "Deployment",
    }


async def test_openapi_describes_custom_kinds(widgets: Api) -> None:
    async def document() -> Object:
        index = await _document(widgets, "/openapi/v3")
        entry = index["paths"].get("apis/example.test/v1")
        return await _document(widgets, entry["serverRelativeURL"]) if entry else {}

    async def is_there() -> bool:
        return bool(await document())

    await widgets.until(is_there)
    schemas = (await document())["components"]["schemas"]
    (widget,) = [one for one in schemas.values() if _is_widget(one)]
    assert widget["properties"]["spec"]["properties"]["color"]["enum"] == ["red", "green"]


def _is_widget(schema: Object) -> bool:
    return schema.get("x-kubernetes-group-version-kind") == [
        {"group": "example.test", "version": "v1", "kind": "Widget"}
    ]


async def _document(api: Api, path: str) -> Any:
    where, _, query = path.partition("?")
    pairs = dict(pair.split("=", 1) for pair in query.split("&") if pair)
    found = await api.ok("GET", where, query=pairs)
    return json.loads(found) if isinstance(found, str) else found


async def test_the_version_is_one_that_the_product_supports(api: Api) -> None:
    version = await api.ok("GET", "/version")
    assert (version["major"], int(version["minor"]) >= 30) == ("1", True)
    assert version["gitVersion"].startswith(f"v1.{version['minor']}.")


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/livez"])
async def test_health_is_a_word(api: Api, path: str) -> None:
    assert await api.ok("GET", path) == "ok"


async def test_a_review_says_what_we_may_do(api: Api) -> None:
    body = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}},
    }
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    assert (await api.ok("POST", path, body))["status"]["allowed"] is True

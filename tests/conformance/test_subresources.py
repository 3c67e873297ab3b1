"""The status and scale subresources: each touches its own part."""

from __future__ import annotations

import pytest

from noctaya.kube.resources import CONFIGMAPS, DEPLOYMENTS
from tests.conformance.client import MERGE, Api
from tests.conformance.definitions import WIDGETS, widget
from tests.conformance.objects import config_map, deployment, fields, managers


async def test_a_write_of_the_object_leaves_its_status(widgets: Api) -> None:
    made = await widgets.create(WIDGETS, {**widget(), "status": {"phase": "Mine"}})
    assert "status" not in made
    await widgets.patch(WIDGETS, "w", {"status": {"phase": "Seen"}}, subresource="status")
    changed = await widgets.patch(WIDGETS, "w", {"spec": {"size": 2}, "status": {"phase": "Mine"}})
    assert (changed["spec"]["size"], changed["status"]) == (2, {"phase": "Seen"})
    assert changed["metadata"]["generation"] == 2


async def test_a_write_of_the_status_leaves_everything_else(widgets: Api) -> None:
    await widgets.create(WIDGETS, widget())
    patch = {
        "metadata": {"labels": {"a": "b"}, "finalizers": ["example.test/f"]},
        "spec": {"size": 9},
        "status": {"phase": "Seen"},
    }
    changed = await widgets.patch(WIDGETS, "w", patch, subresource="status")
    assert (changed["spec"]["size"], changed["status"]) == (1, {"phase": "Seen"})
    assert not changed["metadata"].keys() & {"labels", "finalizers"}
    assert changed["metadata"]["generation"] == 1


async def test_a_status_is_replaced_by_its_version_only(widgets: Api) -> None:
    made = await widgets.create(WIDGETS, widget())
    path = widgets.path(WIDGETS, "w", "status")
    await widgets.ok("PUT", path, {**made, "status": {"phase": "one"}})
    refused = await widgets.refused("PUT", path, {**made, "status": {"phase": "two"}})
    assert (refused.code, refused.reason) == (409, "Conflict")
    assert refused.message.startswith(
        'Operation cannot be fulfilled on widgets.example.test "w": the object has'
    )


async def test_a_status_is_judged_by_its_schema(widgets: Api) -> None:
    await widgets.create(WIDGETS, widget())
    refused = await widgets.refused(
        "PATCH", widgets.path(WIDGETS, "w", "status"), {"status": {"phase": 3}}, content_type=MERGE
    )
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert refused.causes[0] == (
        "FieldValueTypeInvalid",
        "status.phase",
        'Invalid value: "integer": phase in body must be of type string: "integer"',
    )


async def test_a_deployments_status_is_its_own(api: Api) -> None:
    await api.create(DEPLOYMENTS, deployment(replicas=0))
    patch = {"spec": {"replicas": 9}, "status": {"collisionCount": 7}}
    changed = await api.patch(
        DEPLOYMENTS, "d", patch, subresource="status", query={"fieldManager": "observer"}
    )
    assert (changed["spec"]["replicas"], changed["status"]["collisionCount"]) == (0, 7)
    assert ("observer", "Update", "status") in managers(changed)
    assert fields(changed, "observer") == {"f:status": {"f:collisionCount": {}}}


async def test_the_scale_reads_and_writes_replicas_and_nothing_else(api: Api) -> None:
    made = await api.create(DEPLOYMENTS, deployment(replicas=0))
    path = api.path(DEPLOYMENTS, "d", "scale")
    scale = await api.ok("GET", path)
    assert (scale["kind"], scale["apiVersion"], scale["spec"]) == ("Scale", "autoscaling/v1", {})
    assert scale["status"] == {"replicas": 0, "selector": "app=d"}
    assert scale["metadata"]["uid"] == made["metadata"]["uid"]
    await api.ok("PATCH", path, {"spec": {"replicas": 2}}, content_type=MERGE, user_agent="keda/v2")
    found = await api.get(DEPLOYMENTS, "d")
    assert (found["spec"]["replicas"], found["metadata"]["generation"]) == (2, 2)
    assert ("keda", "Update", "scale") in managers(found)
    assert fields(found, "keda") == {"f:spec": {"f:replicas": {}}}


async def test_a_scale_of_an_older_version_is_a_conflict(api: Api) -> None:
    await api.create(DEPLOYMENTS, deployment(replicas=0))
    path = api.path(DEPLOYMENTS, "d", "scale")
    scale = await api.ok("GET", path)
    await api.patch(DEPLOYMENTS, "d", {"metadata": {"labels": {"a": "b"}}})
    refused = await api.refused("PUT", path, {**scale, "spec": {"replicas": 2}})
    assert (refused.code, refused.reason) == (409, "Conflict")
    assert refused.details == {"name": "d", "group": "apps", "kind": "deployments"}


async def test_replicas_are_never_negative(api: Api) -> None:
    await api.create(DEPLOYMENTS, deployment(replicas=0))
    refused = await api.refused(
        "PATCH", api.path(DEPLOYMENTS, "d", "scale"), {"spec": {"replicas": -1}}, content_type=MERGE
    )
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert refused.message == (
        'Scale.autoscaling "d" is invalid: spec.replicas: Invalid value: -1: must be greater than or equal to 0'
    )


async def test_a_custom_resource_scales_too(widgets: Api) -> None:
    await widgets.create(WIDGETS, widget())
    path = widgets.path(WIDGETS, "w", "scale")
    scale = await widgets.ok("GET", path)
    assert (scale["spec"], scale["status"]) == ({"replicas": 1}, {"replicas": 0})
    await widgets.ok("PUT", path, {**scale, "spec": {"replicas": 3}})
    assert (await widgets.get(WIDGETS, "w"))["spec"]["replicas"] == 3


@pytest.mark.parametrize("subresource", ["status", "scale"])
async def test_a_kind_without_a_subresource_has_no_such_path(api: Api, subresource: str) -> None:
    await api.create(CONFIGMAPS, config_map())
    refused = await api.refused("GET", api.path(CONFIGMAPS, "c", subresource))
    assert (refused.code, refused.reason, refused.details) == (404, "NotFound", {})
    assert refused.message == "the server could not find the requested resource"

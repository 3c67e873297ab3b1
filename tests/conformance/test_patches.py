"""Merge, JSON and strategic merge patches, and their preconditions."""

from __future__ import annotations

from typing import Any

import pytest

from noctaya.kube.resources import CONFIGMAPS, DEPLOYMENTS
from tests.conformance.client import JSON_PATCH, MERGE, STRATEGIC, Api
from tests.conformance.definitions import WIDGETS, widget
from tests.conformance.differences import differs
from tests.conformance.objects import config_map, deployment

STALE = "the object has been modified; please apply your changes to the latest version and try again"


async def test_a_merge_patch_sets_removes_and_keeps(api: Api) -> None:
    await api.create(CONFIGMAPS, config_map(a="1", b="2"))
    changed = await api.patch(CONFIGMAPS, "c", {"data": {"a": None, "c": "3"}})
    assert changed["data"] == {"b": "2", "c": "3"}


async def test_a_json_patch_does_every_operation_in_order(api: Api) -> None:
    await api.create(CONFIGMAPS, config_map(a="1", b="2"))
    operations = [
        {"op": "test", "path": "/data/a", "value": "1"},
        {"op": "add", "path": "/metadata/labels", "value": {"x/y": "z"}},
        {"op": "replace", "path": "/data/b", "value": "3"},
        {"op": "copy", "from": "/data/b", "path": "/data/c"},
        {"op": "move", "from": "/data/a", "path": "/data/d"},
        {"op": "remove", "path": "/metadata/labels/x~1y"},
        {"op": "replace", "path": "/data/new", "value": "4"},
    ]
    changed = await api.patch(CONFIGMAPS, "c", operations, JSON_PATCH)
    assert changed["data"] == {"b": "3", "c": "3", "d": "1", "new": "4"}
    assert not changed["metadata"].get("labels")


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/data/k", "value": "9"},
        {"op": "remove", "path": "/data/none"},
        {"op": "add", "path": "/none/none", "value": "1"},
        {"op": "dance", "path": "/data/k"},
    ],
)
async def test_a_json_patch_that_cannot_be_done_is_invalid_and_changes_nothing(
    api: Api, operation: dict[str, Any]
) -> None:
    made = await api.create(CONFIGMAPS, config_map(k="1"))
    operations = [{"op": "add", "path": "/data/other", "value": "x"}, operation]
    refused = await api.refused("PATCH", api.path(CONFIGMAPS, "c"), operations, content_type=JSON_PATCH)
    assert (refused.code, refused.reason, refused.details) == (422, "Invalid", {})
    assert refused.message == "the server rejected our request due to an error in our request"
    assert await api.get(CONFIGMAPS, "c") == made


async def test_a_strategic_patch_finds_items_by_their_keys(api: Api) -> None:
    await api.create(DEPLOYMENTS, deployment(replicas=0))
    containers = [
        {"name": "main", "env": [{"name": "B", "value": "2"}, {"name": "A", "$patch": "delete"}]},
        {"name": "side", "image": "side:1"},
    ]
    changed = await api.patch(
        DEPLOYMENTS, "d", {"spec": {"template": {"spec": {"containers": containers}}}}, STRATEGIC
    )
    main, side = changed["spec"]["template"]["spec"]["containers"]
    if main["name"] == "side":
        main, side = side, main
    assert (main["image"], main["env"]) == ("app:1", [{"name": "B", "value": "2"}])
    assert side["image"] == "side:1"


async def test_a_strategic_patch_may_replace_a_list_and_order_it(api: Api) -> None:
    await api.create(DEPLOYMENTS, deployment(replicas=0))
    replaced = [{"$patch": "replace"}, {"name": "only", "image": "only:1"}]
    changed = await api.patch(
        DEPLOYMENTS, "d", {"spec": {"template": {"spec": {"containers": replaced}}}}, STRATEGIC
    )
    assert [one["name"] for one in changed["spec"]["template"]["spec"]["containers"]] == ["only"]


async def test_custom_resources_take_no_strategic_patch(widgets: Api) -> None:
    await widgets.create(WIDGETS, widget())
    refused = await widgets.refused(
        "PATCH", widgets.path(WIDGETS, "w"), {"spec": {"size": 2}}, content_type=STRATEGIC
    )
    assert (refused.code, refused.reason) == (415, "UnsupportedMediaType")
    assert refused.message.endswith(
        "accepted media types include: application/json-patch+json, application/merge-patch+json, "
        "application/apply-patch+yaml"
    )


async def test_an_unknown_directive_is_refused(api: Api) -> None:
    await api.create(CONFIGMAPS, config_map())
    refused = await api.refused(
        "PATCH", api.path(CONFIGMAPS, "c"), {"$patch": "dance"}, content_type=STRATEGIC
    )
    differs(api.server, "patch-directive-code", refused.code, real=500, embedded=400)


async def test_a_patch_of_an_older_version_is_a_conflict(api: Api) -> None:
    made = await api.create(CONFIGMAPS, config_map())
    await api.patch(CONFIGMAPS, "c", {"data": {"k": "1"}})
    patch = {"metadata": {"resourceVersion": made["metadata"]["resourceVersion"]}, "data": {"k": "2"}}
    refused = await api.refused("PATCH", api.path(CONFIGMAPS, "c"), patch, content_type=MERGE)
    assert (refused.code, refused.reason) == (409, "Conflict")
    assert refused.message == f'Operation cannot be fulfilled on configmaps "c": {STALE}'
    assert refused.details == {"name": "c", "kind": "configmaps"}


async def test_a_patch_of_another_objects_uid_is_invalid(api: Api) -> None:
    await api.create(CONFIGMAPS, config_map())
    refused = await api.refused(
        "PATCH", api.path(CONFIGMAPS, "c"), {"metadata": {"uid": "zz"}}, content_type=MERGE
    )
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert (
        refused.message == 'ConfigMap "c" is invalid: metadata.uid: Invalid value: "zz": field is immutable'
    )


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"name": "other"}, "the name of the object (other) does not match the name on the URL (c)"),
        (
            {"namespace": "other"},
            "the namespace of the provided object does not match the namespace sent on the request",
        ),
    ],
)
async def test_a_patch_moves_no_object(api: Api, metadata: dict[str, str], message: str) -> None:
    await api.create(CONFIGMAPS, config_map())
    refused = await api.refused(
        "PATCH", api.path(CONFIGMAPS, "c"), {"metadata": metadata}, content_type=MERGE
    )
    assert (refused.code, refused.reason, refused.message) == (400, "BadRequest", message)


async def test_a_patch_that_leaves_no_object_of_this_kind_is_invalid(api: Api) -> None:
    await api.create(CONFIGMAPS, config_map())
    refused = await api.refused("PATCH", api.path(CONFIGMAPS, "c"), {"kind": "Secret"}, content_type=MERGE)
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert [(reason, field) for reason, field, _ in refused.causes] == [("FieldValueInvalid", "patch")]


async def test_a_value_of_the_wrong_type_is_invalid(api: Api) -> None:
    await api.create(CONFIGMAPS, config_map(k="1"))
    refused = await api.refused("PATCH", api.path(CONFIGMAPS, "c"), {"data": {"k": 1}}, content_type=MERGE)
    assert (refused.code, refused.reason) == (422, "Invalid")
    where = [field for _, field, _ in refused.causes]
    differs(api.server, "builtin-wrong-types", where, real=["patch"], embedded=["data[k]"])


async def test_what_is_not_there_cannot_be_patched(api: Api) -> None:
    refused = await api.refused("PATCH", api.path(CONFIGMAPS, "none"), {}, content_type=MERGE)
    assert (refused.code, refused.reason) == (404, "NotFound")
    assert refused.message == 'configmaps "none" not found'

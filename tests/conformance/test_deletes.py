"""Deletion: preconditions, finalizers, propagation, and the collector's work."""

from __future__ import annotations

from typing import Any

import pytest

from noctaya.kube.resources import CONFIGMAPS, DEPLOYMENTS, NAMESPACES
from tests.conformance.client import MERGE, Api
from tests.conformance.definitions import WIDGETS, widget
from tests.conformance.objects import config_map, deployment, owned_by

HOLD = "example.test/hold"
OURS = {"fieldSelector": "metadata.name!=kube-root-ca.crt"}


async def test_a_deletion_that_is_complete_is_answered_with_a_success(api: Api) -> None:
    made = await api.create(CONFIGMAPS, config_map())
    gone = await api.delete(CONFIGMAPS, "c")
    assert gone == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Success",
        "details": {"name": "c", "kind": "configmaps", "uid": made["metadata"]["uid"]},
    }
    refused = await api.refused("DELETE", api.path(CONFIGMAPS, "c"))
    assert (refused.code, refused.reason, refused.message) == (404, "NotFound", 'configmaps "c" not found')
    assert refused.details == {"name": "c", "kind": "configmaps"}


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("uid", "the UID in the precondition (another) does not match the UID in record ("),
        (
            "resourceVersion",
            "the ResourceVersion in the precondition (another) does not match the ResourceVersion",
        ),
    ],
)
async def test_a_failed_precondition_deletes_nothing(api: Api, condition: str, message: str) -> None:
    await api.create(CONFIGMAPS, config_map())
    refused = await api.refused(
        "DELETE", api.path(CONFIGMAPS, "c"), {"preconditions": {condition: "another"}}
    )
    assert (refused.code, refused.reason) == (409, "Conflict")
    assert refused.message.startswith(f'Operation cannot be fulfilled on ConfigMap "c": {message}')
    assert await api.exists(CONFIGMAPS, "c")


@pytest.mark.parametrize(
    ("options", "field", "message"),
    [
        (
            {"propagationPolicy": "Sideways"},
            "propagationPolicy",
            'Unsupported value: "Sideways": supported values: "Foreground", "Background", "Orphan", "nil"',
        ),
        (
            {"propagationPolicy": "Orphan", "orphanDependents": True},
            "propagationPolicy",
            'Invalid value: "Orphan": orphanDependents and deletionPropagation cannot be both set',
        ),
    ],
)
async def test_options_that_make_no_sense_are_invalid(
    api: Api, options: dict[str, Any], field: str, message: str
) -> None:
    await api.create(CONFIGMAPS, config_map())
    refused = await api.refused("DELETE", api.path(CONFIGMAPS, "c"), options)
    assert (refused.code, refused.details["kind"]) == (422, "DeleteOptions")
    assert [(path, text) for _, path, text in refused.causes] == [(field, message)]


async def test_a_dry_run_deletes_nothing(api: Api) -> None:
    await api.create(CONFIGMAPS, config_map())
    await api.delete(CONFIGMAPS, "c", query={"dryRun": "All"})
    assert await api.exists(CONFIGMAPS, "c")


async def test_a_finalizer_holds_what_is_deleted(api: Api) -> None:
    await api.create(CONFIGMAPS, config_map(metadata={"finalizers": [HOLD]}))
    marked = await api.delete(CONFIGMAPS, "c")
    assert marked["kind"] == "ConfigMap"
    assert marked["metadata"]["deletionTimestamp"]
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    refused = await api.refused(
        "PATCH",
        api.path(CONFIGMAPS, "c"),
        {"metadata": {"finalizers": [HOLD, "a.b/more"]}},
        content_type=MERGE,
    )
    assert refused.message == (
        'ConfigMap "c" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added if the object is '
        'being deleted, found new finalizers []string{"a.b/more"}'
    )
    last = await api.patch(CONFIGMAPS, "c", {"metadata": {"finalizers": None}})
    assert "finalizers" not in last["metadata"]
    assert not await api.exists(CONFIGMAPS, "c")


async def test_a_finalizer_must_be_qualified(api: Api) -> None:
    refused = await api.refused("POST", api.path(CONFIGMAPS), config_map(metadata={"finalizers": ["bare"]}))
    assert refused.causes == [
        (
            "FieldValueInvalid",
            "metadata.finalizers[0]",
            'Invalid value: "bare": name is neither a standard finalizer name nor is it fully qualified',
        )
    ]


async def test_a_custom_resources_finalizer_may_be_bare(widgets: Api) -> None:
    body = {**widget(), "metadata": {"name": "w", "finalizers": ["finalizer.keda.sh"]}}
    await widgets.create(WIDGETS, body)
    marked = await widgets.delete(WIDGETS, "w")
    assert marked["metadata"]["finalizers"] == ["finalizer.keda.sh"]
    await widgets.patch(WIDGETS, "w", {"metadata": {"finalizers": None}})
    assert not await widgets.exists(WIDGETS, "w")


async def test_children_go_with_their_owner(api: Api) -> None:
    owner = await api.create(CONFIGMAPS, config_map("owner"))
    await api.create(CONFIGMAPS, config_map("child", metadata=owned_by(owner)))
    await api.delete(CONFIGMAPS, "owner")
    await api.until(_gone(api, "child"))


async def test_in_the_foreground_the_owner_goes_after_its_children(api: Api) -> None:
    owner = await api.create(CONFIGMAPS, config_map("owner"))
    held = {**owned_by(owner, blocks=True), "finalizers": [HOLD]}
    await api.create(CONFIGMAPS, config_map("child", metadata=held))
    marked = await api.delete(CONFIGMAPS, "owner", {"propagationPolicy": "Foreground"})
    assert marked["metadata"]["finalizers"] == ["foregroundDeletion"]

    async def is_marked() -> bool:
        return "deletionTimestamp" in (await api.get(CONFIGMAPS, "child"))["metadata"]

    await api.until(is_marked)
    assert await api.exists(CONFIGMAPS, "owner")
    await api.patch(CONFIGMAPS, "child", {"metadata": {"finalizers": None}})
    await api.until(_gone(api, "owner"))


async def test_orphans_stay_without_their_owner(api: Api) -> None:
    owner = await api.create(CONFIGMAPS, config_map("owner"))
    await api.create(CONFIGMAPS, config_map("child", metadata=owned_by(owner)))
    await api.delete(CONFIGMAPS, "owner", {"propagationPolicy": "Orphan"})
    await api.until(_gone(api, "owner"))
    assert not (await api.get(CONFIGMAPS, "child"))["metadata"].get("ownerReferences")


async def test_an_owner_that_never_was_takes_its_child_along(api: Api) -> None:
    ghost = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ghost", "uid": "no-such-uid"}}
    await api.create(CONFIGMAPS, config_map("child", metadata=owned_by(ghost)))
    await api.until(_gone(api, "child"))


async def test_a_collection_is_deleted_by_selection(api: Api) -> None:
    for name, labels in (("a", {"x": "1"}), ("b", {"x": "2"})):
        await api.create(CONFIGMAPS, config_map(name, metadata={"labels": labels}))
    await api.ok("DELETE", api.path(CONFIGMAPS), query={"labelSelector": "x=1"})
    left = await api.list(CONFIGMAPS, **OURS)
    assert [item["metadata"]["name"] for item in left["items"]] == ["b"]


async def test_a_dying_namespace_takes_nothing_new_and_goes_when_it_is_empty(api: Api) -> None:
    name = f"{api.namespace}-x"
    await api.ok("POST", NAMESPACES.path(), {"metadata": {"name": name}})
    path = CONFIGMAPS.path(name)
    await api.ok("POST", path, config_map("held", metadata={"finalizers": [HOLD]}))
    await api.ok("DELETE", NAMESPACES.path(None, name))
    refused = await api.refused("POST", path, config_map("late"))
    assert (refused.code, refused.reason) == (403, "Forbidden")
    assert "because it is being terminated" in refused.message
    assert [reason for reason, _, _ in refused.causes] == ["NamespaceTerminating"]
    drop = {"metadata": {"finalizers": None}}
    await api.ok("PATCH", CONFIGMAPS.path(name, "held"), drop, content_type=MERGE)

    async def is_gone() -> bool:
        return (await api.call("GET", NAMESPACES.path(None, name))).code == 404

    await api.until(is_gone)


async def test_a_deployment_that_is_deleted_in_the_foreground_counts_as_changed(api: Api) -> None:
    await api.create(DEPLOYMENTS, deployment(replicas=0, metadata={"finalizers": [HOLD]}))
    marked = await api.delete(DEPLOYMENTS, "d", {"propagationPolicy": "Foreground"})
    assert marked["metadata"]["generation"] == 2
    assert set(marked["metadata"]["finalizers"]) == {HOLD, "foregroundDeletion"}
    await api.patch(DEPLOYMENTS, "d", {"metadata": {"finalizers": None}})
    await api.until(lambda: _is_gone(api, DEPLOYMENTS, "d"))


async def test_a_custom_resource_is_deleted_like_any_other(widgets: Api) -> None:
    made = await widgets.create(WIDGETS, widget())
    gone = await widgets.delete(WIDGETS, "w")
    assert gone["details"] == {
        "name": "w",
        "group": "example.test",
        "kind": "widgets",
        "uid": made["metadata"]["uid"],
    }


def _gone(api: Api, name: str) -> Any:
    return lambda: _is_gone(api, CONFIGMAPS, name)


async def _is_gone(api: Api, resource: Any, name: str) -> bool:
    return not await api.exists(resource, name)

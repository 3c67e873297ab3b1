"""Server-side apply: creation, conflicts, force, giving up, preconditions, subresources."""

from __future__ import annotations

import pytest

from noctaya.kube.resources import CONFIGMAPS, DEPLOYMENTS
from tests.conformance.client import APPLY, MERGE, Api, Object
from tests.conformance.definitions import WIDGETS, widget
from tests.conformance.differences import differs
from tests.conformance.objects import config_map, deployment, fields, managers, only_replicas

OWNED_BY_CREATOR = {
    "f:spec": {
        "f:replicas": {},
        "f:selector": {},
        "f:template": {
            "f:metadata": {"f:labels": {"f:app": {}}},
            "f:spec": {
                "f:containers": {
                    'k:{"name":"main"}': {
                        ".": {},
                        "f:env": {'k:{"name":"A"}': {".": {}, "f:name": {}, "f:value": {}}},
                        "f:image": {},
                        "f:name": {},
                        "f:ports": {
                            'k:{"containerPort":8000,"protocol":"TCP"}': {".": {}, "f:containerPort": {}}
                        },
                    }
                }
            },
        },
    }
}


async def test_an_apply_without_force_creates_and_owns_what_it_names_and_no_more(api: Api) -> None:
    made = await api.apply(DEPLOYMENTS, deployment(replicas=0), "noctaya")
    assert managers(made)[0] == ("noctaya", "Apply", "")
    assert fields(made, "noctaya") == OWNED_BY_CREATOR
    assert made["spec"]["template"]["spec"]["restartPolicy"] == "Always"
    assert made["metadata"]["generation"] == 1


async def test_a_change_of_anothers_field_is_a_conflict_that_names_it(api: Api) -> None:
    await api.apply(DEPLOYMENTS, deployment(replicas=0), "one")
    refused = await api.apply_refused(DEPLOYMENTS, deployment(image="app:2"), "two")
    image = '.spec.template.spec.containers[name="main"].image'
    assert (refused.code, refused.reason) == (409, "Conflict")
    assert refused.message == f'Apply failed with 1 conflict: conflict with "one": {image}'
    assert refused.details == {
        "causes": [{"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": image}]
    }
    refused = await api.apply_refused(DEPLOYMENTS, deployment(image="app:2", replicas=3), "two")
    assert refused.message == (
        f'Apply failed with 2 conflicts: conflicts with "one":\n- .spec.replicas\n- {image}'
    )
    assert [field for _, field, _ in refused.causes] == [".spec.replicas", image]


async def test_a_field_that_was_updated_belongs_to_its_updater(api: Api) -> None:
    await api.apply(CONFIGMAPS, config_map(k="1"), "one")
    changed = await api.patch(CONFIGMAPS, "c", {"data": {"k": "2"}}, query={"fieldManager": "editor"})
    assert managers(changed) == [("editor", "Update", "")]
    refused = await api.apply_refused(CONFIGMAPS, config_map(k="1"), "one")
    assert refused.message == 'Apply failed with 1 conflict: conflict with "editor" using v1: .data.k'


async def test_force_takes_a_field_away_from_its_owner(api: Api) -> None:
    await api.apply(CONFIGMAPS, config_map(k="1", other="x"), "one")
    taken = await api.apply(CONFIGMAPS, config_map(k="2"), "two", force="true")
    assert taken["data"] == {"k": "2", "other": "x"}
    assert fields(taken, "one") == {"f:data": {"f:other": {}}}
    assert fields(taken, "two") == {"f:data": {"f:k": {}}}
    assert managers(taken) == [("one", "Apply", ""), ("two", "Apply", "")]


async def test_a_shared_value_lives_until_its_last_owner_gives_it_up(api: Api) -> None:
    await api.apply(CONFIGMAPS, config_map(k="1"), "one")
    await api.apply(CONFIGMAPS, config_map(k="1"), "two")
    assert (await api.apply(CONFIGMAPS, config_map(), "one"))["data"] == {"k": "1"}
    assert not (await api.apply(CONFIGMAPS, config_map(), "two")).get("data")


async def test_replicas_that_were_handed_over_outlive_applies_that_leave_them_out(api: Api) -> None:
    await api.apply(DEPLOYMENTS, deployment(replicas=0), "noctaya")
    await api.apply(DEPLOYMENTS, only_replicas(0), "noctaya-replicas")
    later = await api.apply(DEPLOYMENTS, deployment(image="app:2"), "noctaya", force="true")
    assert later["spec"]["replicas"] == 0
    assert later["spec"]["template"]["spec"]["containers"][0]["image"] == "app:2"
    assert fields(later, "noctaya-replicas") == {"f:spec": {"f:replicas": {}}}
    assert "f:replicas" not in fields(later, "noctaya")["f:spec"]


async def test_a_field_without_an_owner_left_falls_back_to_its_default(api: Api) -> None:
    await api.apply(DEPLOYMENTS, deployment(replicas=0), "noctaya")
    assert (await api.apply(DEPLOYMENTS, deployment(), "noctaya"))["spec"]["replicas"] == 1


async def test_items_go_when_their_only_owner_drops_them(widgets: Api) -> None:
    await widgets.apply(WIDGETS, widget(ports=[{"name": "http", "port": 1}], tags=["a"]), "one")
    both = {**widget(), "spec": {"ports": [{"name": "admin"}], "tags": ["b"]}}
    merged = await widgets.apply(WIDGETS, both, "two")
    assert sorted(port["name"] for port in merged["spec"]["ports"]) == ["admin", "http"]
    assert sorted(merged["spec"]["tags"]) == ["a", "b"]
    left = await widgets.apply(WIDGETS, {**widget(), "spec": {}}, "two")
    assert left["spec"]["ports"] == [{"name": "http", "port": 1}]
    assert left["spec"]["tags"] == ["a"]


async def test_an_apply_that_changes_nothing_writes_nothing(api: Api) -> None:
    first = await api.apply(CONFIGMAPS, config_map(k="1"), "one")
    again = await api.apply(CONFIGMAPS, config_map(k="1"), "one")
    assert again == first


async def test_an_applied_uid_must_be_that_of_the_object(api: Api) -> None:
    made = await api.apply(DEPLOYMENTS, deployment(replicas=0), "noctaya")
    right = {"uid": made["metadata"]["uid"]}
    kept = await api.apply(DEPLOYMENTS, deployment(image="app:2", metadata=right), "noctaya")
    assert kept["metadata"]["uid"] == made["metadata"]["uid"]
    refused = await api.apply_refused(
        DEPLOYMENTS, deployment(metadata={"uid": "another"}), "noctaya", force="true"
    )
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert refused.message == (
        'Deployment.apps "d" is invalid: metadata.uid: Invalid value: "another": field is immutable'
    )


async def test_an_applied_uid_never_creates(api: Api) -> None:
    refused = await api.apply_refused(DEPLOYMENTS, deployment(metadata={"uid": "another"}), "noctaya")
    assert (refused.code, refused.reason) == (409, "Conflict")
    assert refused.message == (
        'Operation cannot be fulfilled on deployments.apps "d": uid mismatch: the provided object specified uid '
        "another, and no existing object was found"
    )
    assert not await api.exists(DEPLOYMENTS, "d")


async def test_an_applied_version_must_be_the_newest(api: Api) -> None:
    first = await api.apply(CONFIGMAPS, config_map(k="1"), "one")
    await api.apply(CONFIGMAPS, config_map(k="2"), "one")
    stale = {"resourceVersion": first["metadata"]["resourceVersion"]}
    refused = await api.apply_refused(CONFIGMAPS, config_map(k="3", metadata=stale), "one", force="true")
    assert (refused.code, refused.reason) == (409, "Conflict")
    assert "the object has been modified" in refused.message


async def test_a_dry_run_says_what_would_be_and_keeps_nothing(api: Api) -> None:
    made = await api.apply(CONFIGMAPS, config_map(k="1"), "one", dryRun="All")
    assert (made["data"], managers(made)) == ({"k": "1"}, [("one", "Apply", "")])
    assert not await api.exists(CONFIGMAPS, "c")
    await api.apply(CONFIGMAPS, config_map(k="1"), "one")
    assert (await api.apply(CONFIGMAPS, config_map(k="2"), "one", dryRun="All"))["data"] == {"k": "2"}
    assert (await api.get(CONFIGMAPS, "c"))["data"] == {"k": "1"}


@pytest.mark.parametrize(
    ("body", "query", "code", "message"),
    [
        (
            config_map(),
            {},
            422,
            'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for apply patch',
        ),
        (
            config_map(metadata={"managedFields": [{"manager": "x"}]}),
            {"fieldManager": "one"},
            400,
            "metadata.managedFields must be nil",
        ),
        (
            config_map("other"),
            {"fieldManager": "one"},
            400,
            "the name of the object (other) does not match the name on the URL (c)",
        ),
    ],
)
async def test_what_cannot_be_applied_is_refused(
    api: Api, body: dict[str, object], query: dict[str, str], code: int, message: str
) -> None:
    refused = await api.refused("PATCH", api.path(CONFIGMAPS, "c"), body, content_type=APPLY, query=query)
    assert (refused.code, refused.message) == (code, message)


@pytest.mark.parametrize("validation", ["Warn", "Strict"])
async def test_an_unknown_field_is_never_applied_to_a_custom_resource(widgets: Api, validation: str) -> None:
    await widgets.create(WIDGETS, widget())
    refused = await widgets.apply_refused(
        WIDGETS, widget(nonsense=1), "one", force="true", fieldValidation=validation
    )
    assert (refused.code, refused.reason) == (500, "")
    assert refused.message == (
        "failed to create typed patch object (/w; example.test/v1, Kind=Widget): .spec.nonsense: field not "
        "declared in schema"
    )


async def test_an_unknown_field_of_a_built_in_kind(api: Api) -> None:
    body = deployment(replicas=0, nonsense=1)
    answer = await api.call(
        "PATCH",
        api.path(DEPLOYMENTS, "d"),
        body,
        content_type=APPLY,
        query={"fieldManager": "one", "fieldValidation": "Strict"},
    )
    differs(api.server, "builtin-unknown-fields", answer.code, real=500, embedded=201)


async def test_a_value_of_the_wrong_type_is_never_applied(widgets: Api) -> None:
    await widgets.create(WIDGETS, widget())
    refused = await widgets.apply_refused(WIDGETS, widget(size="big"), "one", force="true")
    differs(widgets.server, "apply-wrong-type", refused.code, real=500, embedded=422)


async def test_status_is_applied_on_its_subresource_and_owned_there(widgets: Api) -> None:
    await widgets.apply(WIDGETS, widget(size=3), "one")
    conditions = [{"type": "Ready", "status": "True"}]
    body = {**widget(size=99), "status": {"phase": "Ready", "conditions": conditions}}
    seen = await widgets.apply(WIDGETS, body, "controller", subresource="status")
    assert (seen["spec"]["size"], seen["status"]) == (3, {"phase": "Ready", "conditions": conditions})
    assert fields(seen, "controller") == {
        "f:status": {
            "f:conditions": {'k:{"type":"Ready"}': {".": {}, "f:status": {}, "f:type": {}}},
            "f:phase": {},
        }
    }
    assert ("controller", "Apply", "status") in managers(seen)
    assert seen["metadata"]["generation"] == 1


async def test_an_update_owns_what_it_changed(widgets: Api) -> None:
    made = await widgets.create(WIDGETS, widget(), query={"fieldManager": "maker"})
    owned = fields(made, "maker")
    plain: Object = {"f:color": {}, "f:replicas": {}, "f:size": {}, "f:timeout": {}}
    differs(
        widgets.server,
        "update-owns-containers",
        owned,
        real={"f:spec": {".": {}, **plain, "f:scaling": {".": {}, "f:max": {}, "f:min": {}}}},
        embedded={"f:spec": {**plain, "f:scaling": {"f:max": {}, "f:min": {}}}},
    )


async def test_a_manager_without_a_name_is_called_by_its_program(api: Api) -> None:
    await api.create(CONFIGMAPS, config_map(a="1"), user_agent="creator/v1 (linux)")
    await api.patch(CONFIGMAPS, "c", {"data": {"k": "1"}}, MERGE, user_agent="keda/v2.20 (linux)")
    assert ("keda", "Update", "") in managers(await api.get(CONFIGMAPS, "c"))


async def test_updates_of_what_nobody_owns_are_not_recorded(api: Api) -> None:
    await api.create(CONFIGMAPS, config_map())
    changed = await api.patch(CONFIGMAPS, "c", {"data": {"k": "1"}})
    assert managers(changed) == []
    await api.apply(DEPLOYMENTS, deployment(), "one")
    scale = api.path(DEPLOYMENTS, "d", "scale")
    await api.ok("PATCH", scale, {"spec": {"replicas": 0}}, content_type=MERGE, user_agent="keda/v2")
    assert ("keda", "Update", "scale") not in managers(await api.get(DEPLOYMENTS, "d"))

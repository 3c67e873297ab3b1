"""Server-side apply: who owns what, conflicts, giving up, and the replicas handover that the product relies on."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noctaya.local.apiserver import ApiError
from noctaya.local.apiserver import scale as scales
from noctaya.local.apiserver.fieldpaths import decode, encode
from noctaya.local.apiserver.ownership import owners_of
from tests.local.apiserver.conftest import Clock, World
from tests.local.apiserver.manifests import Object, config_map, deployment, widget


def owner_fields(found: Object, manager: str, operation: str = "Apply") -> set[str]:
    """Readable leaves that a manager owns."""
    return {
        "/".join(element.split(":", 1)[1] for element in path)
        for owner in owners_of(found)
        if (owner.manager, owner.operation) == (manager, operation)
        for path in owner.fields
    }


def only_replicas(count: int, **metadata: Any) -> Object:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "default", **metadata},
        "spec": {"replicas": count},
    }


def test_an_apply_creates_and_the_manager_owns_what_it_named_only(world: World) -> None:
    made = world.apply(deployment(replicas=0), "noctaya")
    assert made["spec"]["template"]["spec"]["restartPolicy"] == "Always"
    owned = owner_fields(made, "noctaya")
    assert "spec/replicas" in owned
    assert not any("restartPolicy" in path for path in owned)


def test_replicas_handed_to_a_second_manager_outlive_applies_that_leave_them_out(world: World) -> None:
    world.apply(deployment(replicas=0), "noctaya")
    world.apply(only_replicas(0), "noctaya-replicas")
    later = world.apply(deployment(image="app:2"), "noctaya", force=True)
    assert later["spec"]["replicas"] == 0
    assert later["spec"]["template"]["spec"]["containers"][0]["image"] == "app:2"
    assert "spec/replicas" not in owner_fields(later, "noctaya")
    assert "spec/replicas" in owner_fields(later, "noctaya-replicas")


def test_without_the_second_manager_the_field_falls_back_to_its_default(world: World) -> None:
    world.apply(deployment(replicas=0), "noctaya")
    assert world.apply(deployment(), "noctaya")["spec"]["replicas"] == 1


def test_a_scale_update_takes_replicas_over_and_a_later_apply_keeps_them(world: World) -> None:
    made = world.apply(deployment(replicas=0), "noctaya")
    world.apply(only_replicas(0), "noctaya-replicas")
    kind = world.kind_of(made)
    scaled = world.patch(
        made, lambda found: scales.scaled(kind, found, {"spec": {"replicas": 3}}), "keda", "scale"
    )
    assert owner_fields(scaled, "keda", "Update") == {"spec/replicas"}
    assert "spec/replicas" not in owner_fields(scaled, "noctaya-replicas")
    assert [o.subresource for o in owners_of(scaled) if o.manager == "keda"] == ["scale"]
    assert world.apply(deployment(image="app:3"), "noctaya", force=True)["spec"]["replicas"] == 3


def test_a_change_of_anothers_field_is_a_conflict_that_names_both(world: World) -> None:
    world.apply(config_map(k="1"), "one")
    with pytest.raises(ApiError) as refused:
        world.apply(config_map(k="2"), "two")
    problem = refused.value
    assert (problem.code, problem.reason) == (409, "Conflict")
    assert problem.message == 'Apply failed with 1 conflict: conflict with "one": .data.k'
    assert problem.details is not None
    assert problem.details["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.k"}
    ]
    assert world.get(config_map())["data"] == {"k": "1"}


def test_a_forced_apply_takes_the_field_away(world: World) -> None:
    world.apply(config_map(k="1", other="x"), "one")
    taken = world.apply(config_map(k="2"), "two", force=True)
    assert taken["data"] == {"k": "2", "other": "x"}
    assert owner_fields(taken, "one") == {"data/other"}
    assert owner_fields(taken, "two") == {"data/k"}


def test_the_same_value_is_shared_without_conflict_and_lives_until_the_last_owner_gives_it_up(
    world: World,
) -> None:
    world.apply(config_map(k="1"), "one")
    world.apply(config_map(k="1"), "two")
    assert world.apply(config_map(), "one")["data"] == {"k": "1"}
    assert not world.apply(config_map(), "two").get("data")


def test_a_field_that_is_applied_no_longer_is_removed(world: World) -> None:
    body = deployment()
    body["metadata"]["labels"] = {"a": "1", "b": "2"}
    world.apply(body, "one")
    body["metadata"]["labels"] = {"a": "1"}
    assert world.apply(body, "one")["metadata"]["labels"] == {"a": "1"}
    del body["metadata"]["labels"]
    assert "labels" not in world.apply(body, "one")["metadata"]


def test_a_container_goes_whole_with_its_defaults_when_its_only_owner_drops_it(world: World) -> None:
    body = deployment()
    containers = body["spec"]["template"]["spec"]["containers"]
    containers.append({"name": "side", "image": "s:1"})
    assert len(world.apply(body, "one")["spec"]["template"]["spec"]["containers"]) == 2
    containers.pop()
    left = world.apply(body, "one")["spec"]["template"]["spec"]["containers"]
    assert [c["name"] for c in left] == ["main"]


def test_items_of_a_keyed_list_from_two_managers_live_side_by_side(widgets: World) -> None:
    widgets.apply(widget(ports=[{"name": "http", "port": 1}], tags=["a"]), "one")
    both = {**widget(), "spec": {"ports": [{"name": "admin"}], "tags": ["b"]}}
    merged = widgets.apply(both, "two")
    assert merged["spec"]["ports"] == [{"name": "http", "port": 1}, {"name": "admin", "port": 80}]
    assert sorted(merged["spec"]["tags"]) == ["a", "b"]
    left = widgets.apply({**widget(), "spec": {}}, "two")
    assert left["spec"]["ports"] == [{"name": "http", "port": 1}]
    assert left["spec"]["tags"] == ["a"]


def test_an_update_makes_its_manager_the_owner_and_later_applies_conflict_with_it(world: World) -> None:
    world.apply(config_map(k="1"), "one")
    changed = world.patch(config_map(), lambda found: {**found, "data": {"k": "2"}}, "editor")
    assert owner_fields(changed, "editor", "Update") == {"data/k"}
    assert not owner_fields(changed, "one")
    with pytest.raises(ApiError, match='conflict with "editor" using v1'):
        world.apply(config_map(k="1"), "one")


def test_an_apply_that_changes_nothing_writes_nothing(world: World, clock: Clock) -> None:
    first = world.apply(config_map(k="1"), "one")
    clock.now += 100
    again = world.apply(config_map(k="1"), "one")
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert again == first


def test_the_uid_of_an_applied_body_is_a_precondition(world: World) -> None:
    made = world.apply(deployment(), "noctaya")
    right = deployment(image="app:2")
    right["metadata"]["uid"] = made["metadata"]["uid"]
    assert world.apply(right, "noctaya")["metadata"]["uid"] == made["metadata"]["uid"]
    wrong = deployment(image="app:3")
    wrong["metadata"]["uid"] = "another"
    with pytest.raises(ApiError, match=r"metadata\.uid: .*field is immutable") as refused:
        world.apply(wrong, "noctaya")
    assert refused.value.code == 422


def test_a_uid_never_creates(world: World) -> None:
    body = deployment()
    body["metadata"]["uid"] = "another"
    with pytest.raises(ApiError, match="no existing object was found") as refused:
        world.apply(body, "noctaya")
    assert refused.value.code == 409


def test_status_applied_on_its_subresource_leaves_the_spec_alone(widgets: World) -> None:
    widgets.apply(widget(size=3), "one")
    body = {
        **widget(size=99),
        "status": {"phase": "Ready", "conditions": [{"type": "Ready", "status": "True"}]},
    }
    seen = widgets.apply(body, "controller", sub="status")
    assert (seen["spec"]["size"], seen["status"]["phase"]) == (3, "Ready")
    assert owner_fields(seen, "controller") == {"status/phase"} | {
        f'status/conditions/{{"type":"Ready"}}{rest}' for rest in ("", "/type", "/status")
    }
    assert seen["metadata"]["generation"] == 1


def test_replicas_applied_on_the_scale_subresource_are_owned_there(world: World) -> None:
    made = world.apply(deployment(replicas=0), "noctaya")
    body = scales.applied(world.kind_of(made), {"spec": {"replicas": 2}}, "d")
    body["metadata"]["namespace"] = "default"
    scaled = world.apply(body, "scaler", force=True, sub="scale")
    assert scaled["spec"]["replicas"] == 2
    assert owner_fields(scaled, "scaler") == {"spec/replicas"}


def test_a_client_may_rewrite_ownership_itself(world: World) -> None:
    made = world.apply(config_map(k="1"), "one")
    entries = [{**entry, "manager": "two"} for entry in made["metadata"]["managedFields"]]

    def rewritten(found: Object) -> Object:
        return {**found, "metadata": {**found["metadata"], "managedFields": entries}}

    changed = world.patch(config_map(), rewritten)
    assert owner_fields(changed, "two") == {"data/k"}
    assert not owner_fields(changed, "one")


KEYS = st.sampled_from("abcdef")
VALUES = st.text("xy", min_size=1, max_size=2)
DATA = st.dictionaries(KEYS, VALUES, max_size=4)


@given(DATA, DATA, DATA)
@settings(max_examples=30)
def test_two_managers_with_disjoint_fields_both_survive(one: Object, two: Object, later: Object) -> None:
    world = World(Clock())
    mine = {f"one-{key}": value for key, value in one.items()}
    theirs = {f"two-{key}": value for key, value in two.items()}
    mine_later = {f"one-{key}": value for key, value in later.items()}
    world.apply(config_map(**mine), "one")
    world.apply(config_map(**theirs), "two")
    assert (world.get(config_map()).get("data") or {}) == {**mine, **theirs}
    world.apply(config_map(**mine_later), "one")
    assert (world.get(config_map()).get("data") or {}) == {**mine_later, **theirs}


@given(DATA, DATA)
@settings(max_examples=30)
def test_after_a_forced_apply_its_values_hold_and_nothing_it_did_not_name_changed(
    one: Object, two: Object
) -> None:
    world = World(Clock())
    world.apply(config_map(**one), "one")
    forced = world.apply(config_map(**two), "two", force=True)
    assert (forced.get("data") or {}) == {**one, **two}
    kept = {key for key in one if key not in two or one[key] == two[key]}
    assert owner_fields(forced, "one") - {"data"} == {f"data/{key}" for key in kept}


@given(
    st.sets(
        st.lists(st.sampled_from(["f:a", "f:b", 'k:{"n":1}', 'v:"x"']), min_size=1, max_size=4).map(tuple)
    )
)
def test_fields_v1_gives_back_the_set_that_was_put_in(paths: set[tuple[str, ...]]) -> None:
    assert decode(encode(paths)) == paths

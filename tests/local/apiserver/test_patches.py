"""Merge patch, JSON patch and strategic merge patch: laws, and the cases that kubectl depends on."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noctaya.local.apiserver import ApiError
from noctaya.local.apiserver.builtintypes import merge_type
from noctaya.local.apiserver.patches import json_patch, merge_patch
from noctaya.local.apiserver.resources import BUILTIN_KINDS
from noctaya.local.apiserver.strategic import strategic_patch
from tests.local.apiserver.manifests import deployment

SCALARS = st.one_of(st.booleans(), st.integers(-9, 9), st.text("ab", max_size=2))
KEYS = st.sampled_from("abcd")


def trees(leaves: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.recursive(
        leaves,
        lambda inner: st.dictionaries(KEYS, inner, max_size=3) | st.lists(inner, max_size=2),
        max_leaves=8,
    )


DOCUMENTS = st.dictionaries(KEYS, trees(SCALARS), max_size=4)
PATCHES = st.dictionaries(KEYS, trees(SCALARS | st.none()), max_size=4)


def has_null(value: Any) -> bool:
    if isinstance(value, dict):
        return any(below is None or has_null(below) for below in value.values())
    return False


def difference(old: Any, new: Any) -> Any:
    """The merge patch that makes `new` of `old`."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return new
    changed = {
        key: difference(old.get(key), value) for key, value in new.items() if old.get(key, ...) != value
    }
    return {**changed, **{key: None for key in old if key not in new}}


@settings(max_examples=25)
@given(DOCUMENTS, PATCHES)
def test_a_merge_patch_applied_twice_is_applied_once(document: Any, patch: Any) -> None:
    once = merge_patch(document, patch)
    assert merge_patch(once, patch) == once


@settings(max_examples=25)
@given(DOCUMENTS, PATCHES)
def test_no_null_of_a_merge_patch_is_stored_and_nothing_is_changed_in_place(
    document: Any, patch: Any
) -> None:
    before = copy.deepcopy((document, patch))
    assert not has_null(merge_patch(document, patch))
    assert (document, patch) == before


@settings(max_examples=25)
@given(DOCUMENTS, DOCUMENTS)
def test_the_difference_of_two_documents_is_a_merge_patch_between_them(old: Any, new: Any) -> None:
    assert merge_patch(old, difference(old, new)) == new


@settings(max_examples=25)
@given(DOCUMENTS)
def test_an_empty_patch_changes_nothing(document: Any) -> None:
    assert merge_patch(document, {}) == document
    assert json_patch(document, []) == document
    assert strategic_patch(document, {}, merge_type(BUILTIN_KINDS[0])) == document


@settings(max_examples=25)
@given(DOCUMENTS, KEYS, SCALARS)
def test_adding_and_removing_a_member_by_json_patch_gives_the_document_back(
    document: Any, key: str, value: Any
) -> None:
    document.pop(key, None)
    added = json_patch(document, [{"op": "add", "path": f"/{key}", "value": value}])
    assert added[key] == value
    assert json_patch(added, [{"op": "remove", "path": f"/{key}"}]) == document


def test_json_patch_knows_every_operation() -> None:
    document = {"a": [1, 2], "b": {"c/d": 1}}
    operations = [
        {"op": "test", "path": "/b/c~1d", "value": 1},
        {"op": "add", "path": "/a/-", "value": 3},
        {"op": "add", "path": "/a/0", "value": 0},
        {"op": "replace", "path": "/a/1", "value": 9},
        {"op": "move", "from": "/b/c~1d", "path": "/b/e"},
        {"op": "copy", "from": "/a/0", "path": "/z"},
        {"op": "remove", "path": "/a/2"},
    ]
    assert json_patch(document, operations) == {"a": [0, 9, 3], "b": {"e": 1}, "z": 0}


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "test", "path": "/a", "value": 2},
        {"op": "remove", "path": "/nope"},
        {"op": "replace", "path": "/l/7", "value": 1},
        {"op": "add", "path": "no-slash", "value": 1},
        {"op": "dance", "path": "/a"},
        {"path": "/a"},
    ],
)
def test_a_json_patch_that_cannot_be_done_is_refused_whole(operation: Any) -> None:
    document = {"a": 1, "l": []}
    with pytest.raises(ApiError) as refused:
        json_patch(document, [{"op": "replace", "path": "/a", "value": 5}, operation])
    assert refused.value.code == 422
    assert document == {"a": 1, "l": []}


DEPLOYMENTS = next(kind for kind in BUILTIN_KINDS if kind.plural == "deployments")


def patched(patch: Any, found: Any = None) -> Any:
    return strategic_patch(found or deployment(), patch, merge_type(DEPLOYMENTS))


def in_pod(**spec: Any) -> Any:
    return {"spec": {"template": {"spec": spec}}}


def test_a_strategic_patch_finds_a_container_and_its_variables_by_name() -> None:
    change = in_pod(containers=[{"name": "main", "env": [{"name": "B", "value": "2"}]}])
    (container,) = patched(change)["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "app:1"
    assert container["env"] == [{"name": "B", "value": "2"}, {"name": "A", "value": "1"}]


def test_a_strategic_patch_adds_a_container_that_is_not_there() -> None:
    containers = patched(in_pod(containers=[{"name": "side", "image": "s:1"}]))["spec"]["template"]["spec"][
        "containers"
    ]
    assert [c["name"] for c in containers] == ["side", "main"]


def test_a_strategic_patch_deletes_an_item_by_its_key() -> None:
    change = in_pod(containers=[{"name": "main", "env": [{"name": "A", "$patch": "delete"}]}])
    assert patched(change)["spec"]["template"]["spec"]["containers"][0]["env"] == []


def test_a_strategic_patch_can_replace_a_list_or_an_object() -> None:
    change = in_pod(containers=[{"$patch": "replace"}, {"name": "new", "image": "n:1"}])
    assert patched(change)["spec"]["template"]["spec"]["containers"] == [{"name": "new", "image": "n:1"}]
    replaced = patched({"spec": {"selector": {"$patch": "replace", "matchLabels": {"x": "y"}}}})
    assert replaced["spec"]["selector"] == {"matchLabels": {"x": "y"}}


def test_retained_keys_drop_the_others() -> None:
    found = {
        **deployment(),
        "spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}},
    }
    changed = patched({"spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}}, found)
    assert changed["spec"]["strategy"] == {"type": "Recreate"}


def test_an_element_order_is_obeyed() -> None:
    found = patched(in_pod(containers=[{"name": "side", "image": "s:1"}]))
    change = in_pod(**{"$setElementOrder/containers": [{"name": "main"}, {"name": "side"}]})
    containers = patched(change, found)["spec"]["template"]["spec"]["containers"]
    assert [c["name"] for c in containers] == ["main", "side"]


def test_finalizers_are_a_set_to_strategic_patches() -> None:
    found = {**deployment(), "metadata": {"name": "d", "finalizers": ["a", "b"]}}
    added = patched({"metadata": {"finalizers": ["c", "a"]}}, found)
    assert added["metadata"]["finalizers"] == ["a", "b", "c"]
    removed = patched({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a"]}}, found)
    assert removed["metadata"]["finalizers"] == ["b"]


def test_an_item_without_its_merge_key_is_refused() -> None:
    with pytest.raises(ApiError, match="merge key: name"):
        patched(in_pod(containers=[{"image": "x"}]))

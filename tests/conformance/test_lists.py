"""Lists: which state they show, in pages or whole, and what they select."""

from __future__ import annotations

import pytest

from noctaya.kube.resources import CONFIGMAPS
from tests.conformance.client import Api, Object
from tests.conformance.definitions import WIDGETS
from tests.conformance.differences import differs
from tests.conformance.objects import config_map

OURS = {"fieldSelector": "metadata.name!=kube-root-ca.crt"}
"""A real cluster's controllers put that one into every namespace."""


async def three(api: Api) -> list[str]:
    """Three objects; their versions."""
    made = [await api.create(CONFIGMAPS, config_map(f"c{number}")) for number in range(3)]
    return [one["metadata"]["resourceVersion"] for one in made]


def shown(found: Object) -> list[str]:
    return [item["metadata"]["name"] for item in found["items"]]


async def test_a_list_shows_the_newest_state_and_its_version(api: Api) -> None:
    *_, last = await three(api)
    found = await api.list(CONFIGMAPS, **OURS)
    assert (found["kind"], found["apiVersion"]) == ("ConfigMapList", "v1")
    assert shown(found) == ["c0", "c1", "c2"]
    assert int(found["metadata"]["resourceVersion"]) >= int(last)
    assert "continue" not in found["metadata"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"resourceVersionMatch": "Exact"}, ["c0"]),
        ({"resourceVersionMatch": "NotOlderThan"}, ["c0", "c1", "c2"]),
        ({}, ["c0", "c1", "c2"]),
        ({"limit": "5"}, ["c0"]),
    ],
)
async def test_a_named_version_is_meant_exactly_or_at_least(
    api: Api, query: dict[str, str], expected: list[str]
) -> None:
    first, _, last = await three(api)
    is_exact = len(expected) == 1
    # "At least" is asked with the last one: a server that lags behind may give any state from there on.
    found = await api.list(CONFIGMAPS, resourceVersion=first if is_exact else last, **query, **OURS)
    assert shown(found) == expected
    assert (found["metadata"]["resourceVersion"] == first) is is_exact


async def test_a_change_and_a_deletion_are_undone_in_an_earlier_version(api: Api) -> None:
    await three(api)
    await api.patch(CONFIGMAPS, "c1", {"data": {"k": "1"}})
    before = (await api.list(CONFIGMAPS))["metadata"]["resourceVersion"]
    await api.patch(CONFIGMAPS, "c1", {"data": {"k": "2"}})
    await api.delete(CONFIGMAPS, "c0")
    found = await api.list(CONFIGMAPS, resourceVersion=before, resourceVersionMatch="Exact", **OURS)
    assert shown(found) == ["c0", "c1", "c2"]
    assert found["items"][1]["data"] == {"k": "1"}


async def test_version_zero_is_any_state(api: Api) -> None:
    await three(api)

    async def has_all() -> bool:
        return shown(await api.list(CONFIGMAPS, resourceVersion="0", **OURS)) == ["c0", "c1", "c2"]

    await api.until(has_all)


@pytest.mark.parametrize(
    ("query", "code", "message"),
    [
        (
            {"resourceVersionMatch": "Exact"},
            422,
            "resourceVersionMatch is forbidden unless resourceVersion is provided",
        ),
        (
            {"resourceVersion": "0", "resourceVersionMatch": "Exact"},
            422,
            'resourceVersionMatch "exact" is forbidden for resourceVersion "0"',
        ),
        (
            {"resourceVersion": "5", "resourceVersionMatch": "Near"},
            422,
            'Unsupported value: "Near": supported values: "Exact", "NotOlderThan", ""',
        ),
        ({"sendInitialEvents": "true"}, 422, "sendInitialEvents is forbidden for list"),
        ({"resourceVersion": "abc"}, 400, 'invalid resource version: resourceVersion: Invalid value: "abc"'),
        ({"limit": "many"}, 400, 'strconv.ParseInt: parsing "many": invalid syntax'),
        ({"limit": "1", "continue": "zzz"}, 400, "invalid continue token: continue key is not valid"),
        (
            {"fieldSelector": "data.k=1"},
            400,
            '"data.k" is not a known field selector: only "metadata.name", "metadata.namespace"',
        ),
    ],
)
async def test_what_a_list_cannot_ask_for_is_refused(
    api: Api, query: dict[str, str], code: int, message: str
) -> None:
    refused = await api.refused("GET", api.path(CONFIGMAPS), query=query)
    assert (refused.code, refused.reason) == (code, {400: "BadRequest", 422: "Invalid"}[code])
    assert message in refused.message
    if code == 422:
        assert (refused.details["group"], refused.details["kind"]) == ("meta.k8s.io", "ListOptions")


@pytest.mark.parametrize("match", ["", "Exact"])
async def test_a_version_that_is_still_to_come_is_a_timeout_with_a_cause(api: Api, match: str) -> None:
    query = {"resourceVersion": "999999999", **({"resourceVersionMatch": match} if match else {})}
    refused = await api.refused("GET", api.path(CONFIGMAPS), query=query)
    assert (refused.code, refused.reason) == (504, "Timeout")
    assert refused.message.startswith("Timeout: Too large resource version: 999999999, current: ")
    assert refused.causes == [("ResourceVersionTooLarge", "", "Too large resource version")]
    assert refused.details["retryAfterSeconds"] == 1


async def test_a_list_comes_in_pages_of_one_moment(api: Api) -> None:
    for number in range(5):
        await api.create(CONFIGMAPS, config_map(f"page{number}", metadata={"labels": {"a": "b"}}))
    first = await api.list(CONFIGMAPS, limit="2", labelSelector="a=b")
    assert "remainingItemCount" not in first["metadata"]
    await api.delete(CONFIGMAPS, "page3")
    seen, token = shown(first), first["metadata"]["continue"]
    while token:
        page = await api.list(CONFIGMAPS, limit="2", labelSelector="a=b", **{"continue": token})
        seen += shown(page)
        assert page["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        token = page["metadata"].get("continue", "")
    assert seen == [f"page{number}" for number in range(5)]
    again = await api.list(
        CONFIGMAPS, limit="2", labelSelector="a=b", **{"continue": first["metadata"]["continue"]}
    )
    assert shown(again) == ["page2", "page3"]


async def test_a_page_tells_how_many_are_left_when_nothing_is_selected(widgets: Api) -> None:
    for name in ("a", "b", "c"):
        await widgets.create(WIDGETS, {"metadata": {"name": name}, "spec": {"size": 1}, **_identity()})
    page = await widgets.list(WIDGETS, limit="2")
    assert (shown(page), page["metadata"]["remainingItemCount"]) == (["a", "b"], 1)
    refused = await widgets.refused(
        "GET",
        widgets.path(WIDGETS),
        query={"limit": "1", "continue": page["metadata"]["continue"], "resourceVersion": "5"},
    )
    assert (refused.code, refused.message) == (
        400,
        "specifying resource version is not allowed when using continue",
    )


def _identity() -> Object:
    return {"apiVersion": "example.test/v1", "kind": "Widget"}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"labelSelector": "app=x"}, ["a"]),
        ({"labelSelector": "app in (x,y),!tier"}, ["b"]),
        ({"labelSelector": "app notin (x)"}, ["b", "c"]),
        ({"labelSelector": "app!=y,tier"}, ["a"]),
        ({"labelSelector": "app"}, ["a", "b"]),
        ({"labelSelector": "app==y"}, ["b"]),
        ({"fieldSelector": "metadata.name=b"}, ["b"]),
        ({"fieldSelector": "metadata.name!=b"}, ["a", "c"]),
    ],
)
async def test_selectors_choose_by_labels_and_fields(
    api: Api, query: dict[str, str], expected: list[str]
) -> None:
    for name, labels in (("a", {"app": "x", "tier": "1"}), ("b", {"app": "y"}), ("c", {})):
        await api.create(CONFIGMAPS, config_map(name, metadata={"labels": labels}))
    selector = ",".join(one for one in (query.get("fieldSelector"), OURS["fieldSelector"]) if one)
    assert shown(await api.list(CONFIGMAPS, **{**query, "fieldSelector": selector})) == expected


async def test_a_label_selector_that_cannot_be_parsed_is_a_bad_request(api: Api) -> None:
    refused = await api.refused("GET", api.path(CONFIGMAPS), query={"labelSelector": "a=b=c"})
    assert (refused.code, refused.reason) == (400, "BadRequest")
    differs(
        api.server,
        "label-selector-words",
        refused.message,
        real="found '=', expected: ',' or 'end of string'",
        embedded="unable to parse requirement: 'a=b=c' is not a label selector",
    )

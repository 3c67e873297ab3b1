"""Watches: where they begin, what they see, how they end."""

from __future__ import annotations

import pytest

from noctaya.kube.resources import CONFIGMAPS
from tests.conformance.client import MERGE, Api, names
from tests.conformance.definitions import WIDGETS, widget
from tests.conformance.objects import config_map

END = "k8s.io/initial-events-end"
OURS = {"fieldSelector": "metadata.name!=kube-root-ca.crt"}


async def test_a_watch_goes_on_where_a_list_ended(api: Api) -> None:
    await api.create(CONFIGMAPS, config_map("before"))
    version = (await api.list(CONFIGMAPS))["metadata"]["resourceVersion"]
    made = await api.create(CONFIGMAPS, config_map("a", k="1"))
    async with api.watch(CONFIGMAPS, resourceVersion=version, **OURS) as watch:
        changed = await api.patch(CONFIGMAPS, "a", {"data": {"k": "2"}})
        await api.delete(CONFIGMAPS, "a")
        events = await watch.take(3)
    assert names(events) == [("ADDED", "a"), ("MODIFIED", "a"), ("DELETED", "a")]
    assert events[0]["object"] == made
    assert events[1]["object"] == changed
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert versions == sorted(set(versions))
    assert events[2]["object"]["data"] == {"k": "2"}


@pytest.mark.parametrize("version", [{}, {"resourceVersion": "0"}])
async def test_a_watch_from_nowhere_begins_with_what_is_there(api: Api, version: dict[str, str]) -> None:
    await api.create(CONFIGMAPS, config_map("a"))
    await api.create(CONFIGMAPS, config_map("b"))

    async with api.watch(CONFIGMAPS, **version, **OURS) as watch:
        there = await watch.take(2)
        await api.create(CONFIGMAPS, config_map("c"))
        (later,) = await watch.take(1)
    assert sorted(names([*there, later])) == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]


async def test_an_object_that_starts_or_stops_matching_is_added_or_deleted(api: Api) -> None:
    version = (await api.list(CONFIGMAPS))["metadata"]["resourceVersion"]
    async with api.watch(CONFIGMAPS, resourceVersion=version, labelSelector="app=x") as watch:
        await api.create(CONFIGMAPS, config_map("a"))
        await api.patch(CONFIGMAPS, "a", {"metadata": {"labels": {"app": "x"}}})
        await api.patch(CONFIGMAPS, "a", {"data": {"k": "1"}})
        await api.patch(CONFIGMAPS, "a", {"metadata": {"labels": {"app": "y"}}})
        await api.patch(CONFIGMAPS, "a", {"metadata": {"labels": {"app": "x"}}})
        await api.delete(CONFIGMAPS, "a")
        events = await watch.take(5)
    assert [event["type"] for event in events] == ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]


async def test_a_watch_of_one_name_sees_only_that(api: Api) -> None:
    version = (await api.list(CONFIGMAPS))["metadata"]["resourceVersion"]
    async with api.watch(CONFIGMAPS, resourceVersion=version, fieldSelector="metadata.name=mine") as watch:
        await api.create(CONFIGMAPS, config_map("other"))
        await api.create(CONFIGMAPS, config_map("mine"))
        assert names(await watch.take(1)) == [("ADDED", "mine")]


async def test_a_watch_ends_at_its_time_limit(api: Api) -> None:
    version = (await api.list(CONFIGMAPS))["metadata"]["resourceVersion"]
    await api.create(CONFIGMAPS, config_map("a"))
    async with api.watch(CONFIGMAPS, resourceVersion=version, timeoutSeconds="1", **OURS) as watch:
        assert names(await watch.rest()) == [("ADDED", "a")]


async def test_a_bookmark_says_how_far_a_watch_has_seen(api: Api) -> None:
    version = (await api.list(CONFIGMAPS))["metadata"]["resourceVersion"]
    # The real server sends one two seconds before a watch's end, and else once in a minute; none when nothing was new.
    async with api.watch(
        CONFIGMAPS, resourceVersion=version, allowWatchBookmarks="true", timeoutSeconds="4", **OURS
    ) as watch:
        made = await api.create(CONFIGMAPS, config_map("a"))
        added, bookmark = await watch.next(), await watch.next()
    assert names([added]) == [("ADDED", "a")]
    said = bookmark["object"]
    assert (bookmark["type"], said["kind"], said["apiVersion"]) == ("BOOKMARK", "ConfigMap", "v1")
    assert int(said["metadata"]["resourceVersion"]) >= int(made["metadata"]["resourceVersion"])


async def test_a_watch_list_sends_what_is_there_and_marks_its_end(api: Api) -> None:
    made = await api.create(CONFIGMAPS, config_map("a"))
    async with api.watch(
        CONFIGMAPS,
        sendInitialEvents="true",
        resourceVersionMatch="NotOlderThan",
        allowWatchBookmarks="true",
        **OURS,
    ) as watch:
        first, end = await watch.next(), await watch.next()
        await api.create(CONFIGMAPS, config_map("b"))
        (later,) = await watch.take(1)
    assert (first["type"], first["object"]) == ("ADDED", made)
    assert end["type"] == "BOOKMARK"
    assert end["object"]["metadata"]["annotations"] == {END: "true"}
    assert int(end["object"]["metadata"]["resourceVersion"]) >= int(made["metadata"]["resourceVersion"])
    assert names([later]) == [("ADDED", "b")]


async def test_a_version_that_is_still_to_come_is_waited_for_in_silence(widgets: Api) -> None:
    version = int((await widgets.list(WIDGETS))["metadata"]["resourceVersion"])
    async with widgets.watch(WIDGETS, resourceVersion=str(version + 10), timeoutSeconds="30") as watch:
        for number in range(12):
            await widgets.create(WIDGETS, widget(f"w{number}"))
        (first,) = await watch.take(1)
    assert watch.code == 200
    assert int(first["object"]["metadata"]["resourceVersion"]) > version + 10


async def test_a_watch_from_forgotten_history_is_told_so(widgets: Api) -> None:
    await widgets.create(WIDGETS, widget())
    widgets.server.compact()
    async with widgets.watch(WIDGETS, resourceVersion="1") as watch:
        (error,) = await watch.rest()
    assert (watch.code, error["type"]) == (200, "ERROR")
    said = error["object"]
    assert (said["kind"], said["code"], said["reason"]) == ("Status", 410, "Expired")
    assert said["message"].startswith("too old resource version: 1 (")


async def test_an_exact_list_of_forgotten_history_is_told_so(widgets: Api) -> None:
    await widgets.create(WIDGETS, widget())
    widgets.server.compact()
    refused = await widgets.refused(
        "GET", widgets.path(WIDGETS), query={"resourceVersionMatch": "Exact", "resourceVersion": "1"}
    )
    assert (refused.code, refused.reason) == (410, "Expired")


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            {"sendInitialEvents": "true"},
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        ),
        (
            {"resourceVersionMatch": "NotOlderThan", "resourceVersion": "5"},
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        ),
    ],
)
async def test_what_a_watch_cannot_ask_for_is_invalid(api: Api, query: dict[str, str], message: str) -> None:
    refused = await api.refused("GET", api.path(CONFIGMAPS), query={"watch": "true", **query})
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert refused.causes == [
        ("FieldValueForbidden", "resourceVersionMatch", f"Forbidden: {message}"),
    ]


async def test_a_time_limit_that_is_no_number_is_a_bad_request(api: Api) -> None:
    refused = await api.refused(
        "GET", api.path(CONFIGMAPS), query={"watch": "true", "timeoutSeconds": "soon"}
    )
    assert (refused.code, refused.message) == (400, 'strconv.ParseInt: parsing "soon": invalid syntax')


async def test_a_write_that_changes_nothing_is_no_event(api: Api) -> None:
    made = await api.create(CONFIGMAPS, config_map("a", k="1"))
    version = made["metadata"]["resourceVersion"]
    async with api.watch(CONFIGMAPS, resourceVersion=version, **OURS) as watch:
        same = await api.patch(CONFIGMAPS, "a", {"data": {"k": "1"}}, MERGE)
        await api.create(CONFIGMAPS, config_map("b"))
        assert names(await watch.take(1)) == [("ADDED", "b")]
    assert same["metadata"]["resourceVersion"] == version

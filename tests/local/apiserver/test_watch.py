"""Watches over HTTP: no gaps, selections, bookmarks, WatchList, time limits, 410, slow readers, shutdown."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from noctaya.local.apiserver import ApiServer
from noctaya.local.apiserver.handlers import HttpLimits
from tests.local.apiserver.conftest import Http
from tests.local.apiserver.manifests import config_map

MAPS = "/api/v1/namespaces/default/configmaps"
MERGE = "application/merge-patch+json"
EVENTS_DEADLINE_SECONDS = 10.0


async def events(http: Http, path: str, count: int) -> list[Any]:
    """The first events of a watch."""
    found = []
    async with asyncio.timeout(EVENTS_DEADLINE_SECONDS), http.watch(path) as response:
        assert response.status == 200
        async for line in response.content:
            found.append(json.loads(line))
            if len(found) == count:
                break
    return found


def seen(found: list[Any]) -> list[tuple[str, str]]:
    return [(event["type"], event["object"]["metadata"].get("name", "")) for event in found]


async def test_a_watch_continues_from_a_list_without_a_gap(http: Http) -> None:
    _, listed = await http.call("GET", MAPS)
    version = listed["metadata"]["resourceVersion"]
    await http.call("POST", MAPS, config_map(k="1"))
    await http.call("PATCH", f"{MAPS}/c", {"data": {"k": "2"}}, content_type=MERGE)
    await http.call("DELETE", f"{MAPS}/c")
    found = await events(http, f"{MAPS}?watch=1&resourceVersion={version}", 3)
    assert seen(found) == [("ADDED", "c"), ("MODIFIED", "c"), ("DELETED", "c")]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in found]
    assert versions == sorted(versions)


async def test_an_object_that_starts_or_stops_matching_is_added_or_deleted(http: Http) -> None:
    _, listed = await http.call("GET", MAPS)
    version = listed["metadata"]["resourceVersion"]
    await http.call("POST", MAPS, config_map())
    for value in ("x", None):
        body = {"metadata": {"labels": {"app": value}}}
        await http.call("PATCH", f"{MAPS}/c", body, content_type=MERGE)
    found = await events(http, f"{MAPS}?watch=1&resourceVersion={version}&labelSelector=app", 2)
    assert seen(found) == [("ADDED", "c"), ("DELETED", "c")]


async def test_watchlist_sends_what_is_there_and_marks_its_end(http: Http) -> None:
    await http.call("POST", MAPS, config_map())
    query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    added, mark = await events(http, f"{MAPS}?{query}", 2)
    assert (added["type"], mark["type"]) == ("ADDED", "BOOKMARK")
    assert mark["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert mark["object"]["metadata"]["resourceVersion"] == added["object"]["metadata"]["resourceVersion"]


async def test_a_watch_ends_at_its_time_limit_with_a_bookmark(http: Http) -> None:
    _, listed = await http.call("GET", MAPS)
    version = listed["metadata"]["resourceVersion"]
    query = f"watch=1&resourceVersion={version}&timeoutSeconds=1&allowWatchBookmarks=true"
    found = await events(http, f"{MAPS}?{query}", 100)
    assert [event["type"] for event in found] == ["BOOKMARK"]
    assert int(found[0]["object"]["metadata"]["resourceVersion"]) >= int(version)


async def test_bookmarks_come_regularly_to_those_who_ask() -> None:
    async with (
        ApiServer(limits=HttpLimits(bookmark_seconds=0.02)) as server,
        aiohttp.ClientSession() as session,
    ):
        http = Http(server, session)
        found = await events(http, f"{MAPS}?watch=1&allowWatchBookmarks=true", 3)
        assert [event["type"] for event in found] == ["BOOKMARK"] * 3


async def test_a_watch_of_forgotten_history_gets_410(server: ApiServer, http: Http) -> None:
    _, listed = await http.call("GET", MAPS)
    await http.call("POST", MAPS, config_map())
    server.storage.compact()
    code, answer = await http.call(
        "GET", f"{MAPS}?watch=1&resourceVersion={listed['metadata']['resourceVersion']}"
    )
    assert (code, answer["type"]) == (200, "ERROR")
    assert (answer["object"]["code"], answer["object"]["reason"]) == (410, "Expired")


async def test_a_watch_that_is_too_slow_ends_with_an_error_line() -> None:
    async with ApiServer(watch_buffer=2) as server, aiohttp.ClientSession() as session:
        http = Http(server, session)
        async with asyncio.timeout(EVENTS_DEADLINE_SECONDS), http.watch(f"{MAPS}?watch=1") as response:
            # All in one go, so that the watch's task cannot run in between.
            for number in range(3):
                server.storage.put("/configmaps", "default", f"c{number}", config_map(f"c{number}"))
            lines = [json.loads(line) async for line in response.content]
    assert [(line["type"], line["object"].get("code")) for line in lines] == [("ERROR", 410)]


async def test_stopping_the_server_ends_its_watches() -> None:
    async with aiohttp.ClientSession() as session:
        server = ApiServer()
        await server.start()
        async with Http(server, session).watch(f"{MAPS}?watch=1") as response:
            async with asyncio.timeout(EVENTS_DEADLINE_SECONDS):
                await server.stop()
                assert await response.content.read() == b""


@pytest.mark.parametrize("step", ["prepare", "write"])
async def test_a_client_that_goes_while_its_watch_is_answered_is_no_error(
    http: Http, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, step: str
) -> None:
    await http.call("POST", MAPS, config_map())

    async def closing(*_: object) -> None:
        raise aiohttp.ClientConnectionResetError("Cannot write to closing transport")

    with monkeypatch.context() as patched:
        patched.setattr(web.StreamResponse, step, closing)
        with pytest.raises(aiohttp.ClientError):
            await events(http, f"{MAPS}?watch=1", 1)
    assert (await http.call("GET", f"{MAPS}/c"))[0] == 200
    assert not caplog.records


async def test_a_watch_with_a_time_limit_that_is_no_number_is_refused(http: Http) -> None:
    code, answer = await http.call("GET", f"{MAPS}?watch=1&timeoutSeconds=soon")
    assert (code, answer["reason"]) == (400, "BadRequest")
    assert "soon" in answer["message"]

"""The store against a server that misbehaves: it stays right, it says why when it cannot be current, and it never spins."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from aiohttp import web

from noctaya.kube.client import Client
from noctaya.kube.errors import Forbidden, KindNotServed, TooManyRequests, Unavailable
from noctaya.kube.metadata import Slim
from noctaya.kube.objects import Object, Pod
from noctaya.kube.reflector import Change, WatchSettings
from noctaya.kube.resources import PODS, SCALEDOBJECTS, Resource
from noctaya.kube.store import Store
from tests.kube.conftest import Until
from tests.kube.fake_server import (
    GONE_STATUS,
    FakeServer,
    drop,
    gone,
    hang,
    html_502,
    is_list,
    is_watch,
    status,
    too_many,
)

QUICK = WatchSettings(
    silence_seconds=0.2, backoff_base_seconds=0.01, backoff_cap_seconds=0.05, not_served_retry_seconds=0.05
)


@asynccontextmanager
async def running(client: Client, resource: Resource = PODS, **more: Any) -> AsyncIterator[Store[Pod]]:
    """A store that runs for as long as the block."""
    more.setdefault("settings", QUICK)
    store = Store(client, resource, Pod, random=Random(1), **more)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(store.run())
        try:
            yield store
        finally:
            task.cancel()


class Spec(Slim, frozen=True):
    replicas: int = 0


class Thing(Object, frozen=True):
    spec: Spec = Spec()


def names(store: Store[Pod]) -> set[str]:
    return {pod.name for pod in store.items()}


async def test_a_follower_hears_every_step_with_its_own_version(
    server: FakeServer, client: Client, until: Until
) -> None:
    """A list says that it is complete; an event names its own version, of a deletion too; a bookmark changes nothing."""
    server.put("pods", "a")
    steps: list[tuple[list[str], str, bool]] = []
    async with running(client) as store:
        store.follow(
            lambda step: steps.append(
                (
                    [f"{change.kind.value} {change.subject.name}" for change in step.changes],
                    step.resource_version,
                    step.is_list,
                )
            )
        )
        await store.synced.wait()
        assert steps == [(["added a"], str(server.version), True)]
        await until(lambda: bool(server.streams))
        server.remove("pods", "a")
        await until(lambda: len(steps) == 2)
        assert steps[1] == (["deleted a"], str(server.version), False)


async def test_it_lists_then_follows_the_watch(server: FakeServer, client: Client, until: Until) -> None:
    server.put("pods", "a")
    heard: list[tuple[str, str]] = []
    async with running(
        client, namespace="models", label_selector="app=x", field_selector="spec.nodeName=n"
    ) as store:
        store.subscribe(lambda change: heard.append((change.kind.value, change.subject.name)))
        await store.synced.wait()
        assert names(store) == {"a"}
        await until(lambda: bool(server.streams))
        server.put("pods", "b", status={"phase": "Pending"})
        server.put("pods", "b", status={"phase": "Running"})
        server.remove("pods", "a")
        await until(lambda: names(store) == {"b"})
        found = store.get("models", "b")
        assert found is not None
        assert found.status.phase == "Running"
        assert (store.problem, store.serves) == (None, True)
        assert len(store) == 1
    assert heard == [("added", "a"), ("added", "b"), ("modified", "b"), ("deleted", "a")]
    watch = next(one for one in server.seen if "watch" in one.query)
    assert watch.query["allowWatchBookmarks"] == "true"
    assert 300 <= int(watch.query["timeoutSeconds"]) <= 600
    assert watch.query["labelSelector"] == "app=x"
    assert watch.query["fieldSelector"] == "spec.nodeName=n"
    assert watch.path == "/api/v1/namespaces/models/pods"


async def test_a_late_subscriber_hears_of_what_is_there(
    server: FakeServer, client: Client, until: Until
) -> None:
    server.put("pods", "a")
    heard: list[Change[Pod]] = []
    async with running(client) as store:
        await store.synced.wait()
        leave = store.subscribe(heard.append)
        assert [change.subject.name for change in heard] == ["a"]
        leave()
        server.put("pods", "b")
        await until(lambda: names(store) == {"a", "b"})
    assert len(heard) == 1


async def test_indexes_follow_every_change(server: FakeServer, client: Client, until: Until) -> None:
    server.put("pods", "a", spec={"nodeName": "n1"})
    server.put("pods", "b", spec={"nodeName": "n1"})
    async with running(client, indexers={"node": lambda pod: [pod.spec.node_name]}) as store:
        await store.synced.wait()
        assert {pod.name for pod in store.by_index("node", "n1")} == {"a", "b"}
        server.put("pods", "b", spec={"nodeName": "n2"})
        server.remove("pods", "a")
        await until(lambda: not store.by_index("node", "n1"))
        assert [pod.name for pod in store.by_index("node", "n2")] == ["b"]
        with pytest.raises(KeyError):
            store.by_index("zone", "z")


async def test_an_index_is_right_when_a_subscriber_looks(
    server: FakeServer, client: Client, until: Until
) -> None:
    counts: list[int] = []
    async with running(client, indexers={"node": lambda pod: [pod.spec.node_name]}) as store:
        store.subscribe(lambda _: counts.append(len(store.by_index("node", "n"))))
        await store.synced.wait()
        server.put("pods", "a", spec={"nodeName": "n"})
        await until(lambda: counts == [1])


@pytest.mark.parametrize(
    "fault", [html_502, drop, too_many(0.01), gone()], ids=["html", "drop", "429", "410"]
)
async def test_a_list_that_fails_is_tried_again(server: FakeServer, client: Client, fault: Any) -> None:
    server.put("pods", "a")
    for _ in range(3):
        server.next(fault, is_list)
    async with running(client) as store:
        async with asyncio.timeout(5):
            await store.synced.wait()
        assert names(store) == {"a"}


async def test_a_410_when_connecting_leads_to_a_list_with_deletes(
    server: FakeServer, client: Client, until: Until
) -> None:
    server.put("pods", "a")
    heard: list[tuple[str, str]] = []
    async with running(client) as store:
        store.subscribe(lambda change: heard.append((change.kind.value, change.subject.name)))
        await until(lambda: bool(server.streams))
        server.next(gone(), is_watch)
        server.end_streams()
        server.remove("pods", "a")
        server.compact()
        server.put("pods", "b")
        await until(lambda: names(store) == {"b"})
    assert heard == [("added", "a"), ("deleted", "a"), ("added", "b")]
    assert server.lists("pods") == 2


async def test_a_410_inside_the_stream_leads_to_a_list(
    server: FakeServer, client: Client, until: Until
) -> None:
    server.put("pods", "a")
    async with running(client) as store:
        await until(lambda: bool(server.streams))
        for stream in server.streams:
            stream.is_silent = True
        server.remove("pods", "a")
        server.compact()
        await server.send("pods", "ERROR", GONE_STATUS)
        await until(lambda: names(store) == set())
        await until(lambda: server.watches("pods") == 2)
        assert server.lists("pods") == 2
        await until(lambda: store.problem is None)


async def test_a_stream_the_server_ends_is_resumed_where_it_was(
    server: FakeServer, client: Client, until: Until
) -> None:
    async with running(client) as store:
        await until(lambda: bool(server.streams))
        server.put("pods", "a")
        await until(lambda: names(store) == {"a"})
        await server.bookmark("pods")
        server.end_streams()
        await until(lambda: not server.streams)
        server.put("pods", "b")
        await until(lambda: names(store) == {"a", "b"})
    assert server.lists("pods") == 1


async def test_a_half_dead_stream_is_noticed_by_its_silence(
    server: FakeServer, client: Client, until: Until
) -> None:
    async with running(client) as store:
        await until(lambda: bool(server.streams))
        server.streams[0].is_silent = True
        server.put("pods", "a")
        await until(lambda: names(store) == {"a"})
        await until(lambda: server.watches("pods") == 2)
    assert server.lists("pods") == 2


async def test_a_cluster_restored_from_a_backup_is_listed_again_though_its_watches_are_only_silent(
    server: FakeServer, client: Client, until: Until
) -> None:
    server.put("pods", "a")
    server.version += 1000
    server.put("pods", "b")
    trusting = replace(QUICK, accept_older_list_after_seconds=0.1)
    async with running(client, settings=trusting) as store:
        await until(lambda: names(store) == {"a", "b"} and bool(server.streams))
        server.version -= 1000
        server.history.clear()
        del server.objects["pods", "models", "b"]
        server.put("pods", "c")
        await until(lambda: names(store) == {"a", "c"})
        await until(lambda: store.problem is None)


async def test_bookmarks_keep_a_quiet_stream_alive(server: FakeServer, client: Client, until: Until) -> None:
    async with running(client) as store:
        await until(lambda: bool(server.streams))
        for _ in range(6):
            before = store.last_contact
            await asyncio.sleep(0.05)
            await server.bookmark("pods")
            await until(lambda before=before: store.last_contact != before)  # type: ignore[misc]
        assert server.watches("pods") == 1


@pytest.mark.parametrize("fault", [html_502, drop, hang, too_many(0.01)], ids=["html", "drop", "hang", "429"])
async def test_a_watch_that_does_not_open_says_why_and_is_tried_again(
    server: FakeServer, until: Until, fault: Any
) -> None:
    server.next(fault, is_watch)
    server.next(fault, is_watch)
    async with Client(server.config(), request_timeout_seconds=0.2) as client, running(client) as store:
        await until(lambda: isinstance(store.problem, (Unavailable, TooManyRequests)))
        await until(lambda: store.problem is None)
        server.put("pods", "a")
        await until(lambda: names(store) == {"a"})
    assert server.lists("pods") == 1


async def test_a_connection_cut_in_mid_event_loses_nothing(
    server: FakeServer, client: Client, until: Until
) -> None:
    async with running(client) as store:
        await until(lambda: bool(server.streams))
        server.streams[0].is_silent = True
        item = server.put("pods", "a")
        line = json.dumps({"type": "ADDED", "object": item}).encode()
        await server.send_raw("pods", line[: len(line) // 2])
        server.streams[0].drop()
        await until(lambda: names(store) == {"a"})


async def test_an_event_may_come_in_many_pieces(server: FakeServer, client: Client, until: Until) -> None:
    async with running(client) as store:
        await until(lambda: bool(server.streams))
        server.streams[0].is_silent = True
        item = server.put("pods", "a", status={"phase": "Running", "message": "ü" * 100})
        line = json.dumps({"type": "ADDED", "object": item}, ensure_ascii=False).encode() + b"\n"
        for start in range(0, len(line), 50):
            await server.send_raw("pods", line[start : start + 50])
        await until(lambda: names(store) == {"a"})
        assert server.watches("pods") == 1


async def test_a_large_event_passes_and_a_huge_one_leads_to_a_list(
    server: FakeServer, client: Client, until: Until
) -> None:
    async with running(client) as store:
        await until(lambda: bool(server.streams))
        server.put("pods", "large", status={"message": "x" * 3_000_000})
        await until(lambda: names(store) == {"large"})
        assert server.lists("pods") == 1
        server.put("pods", "huge", status={"message": "x" * 9_000_000})
        await until(lambda: names(store) == {"large", "huge"})
        assert server.lists("pods") == 2


async def test_garbage_in_the_stream_leads_to_a_list(
    server: FakeServer, client: Client, until: Until
) -> None:
    async with running(client) as store:
        await until(lambda: bool(server.streams))
        server.streams[0].is_silent = True
        server.put("pods", "a")
        await server.send_raw("pods", b"<html>Bad Gateway</html>\n")
        await until(lambda: names(store) == {"a"})
        assert server.lists("pods") == 2


async def test_a_server_that_closes_every_watch_at_once_is_not_hammered(
    server: FakeServer, client: Client, until: Until
) -> None:
    async def empty(_: web.Request) -> web.Response:
        return web.Response()

    for _ in range(1000):
        server.next(empty, is_watch)
    settings = WatchSettings(backoff_base_seconds=0.1, backoff_cap_seconds=1)
    async with running(client, settings=settings):
        await until(lambda: server.watches("pods") >= 2)
        await asyncio.sleep(0.3)
    assert server.watches("pods") <= 6


async def test_a_missing_crd_is_told_apart_and_found_when_it_comes(
    server: FakeServer, client: Client, until: Until
) -> None:
    server.unserved.add("scaledobjects")
    async with running(client, SCALEDOBJECTS) as store:
        async with asyncio.timeout(5):
            await store.settled.wait()
        assert (store.synced.is_set(), store.serves) == (False, False)
        assert isinstance(store.problem, KindNotServed)
        server.unserved.clear()
        server.put("scaledobjects", "s")
        async with asyncio.timeout(5):
            await store.synced.wait()
        assert (store.serves, names(store)) == (True, {"s"})


async def test_a_refused_list_is_reported_and_not_fatal(
    server: FakeServer, client: Client, until: Until
) -> None:
    async def forbidden(_: web.Request) -> web.Response:
        return status(403, "Forbidden", "pods is forbidden")

    server.next(forbidden, is_list)
    async with running(client) as store:
        await until(lambda: isinstance(store.problem, Forbidden))
        async with asyncio.timeout(5):
            await store.synced.wait()


async def test_one_unreadable_object_does_not_hide_the_others(
    server: FakeServer, client: Client, until: Until
) -> None:
    server.put("pods", "good")
    server.put("pods", "bad", status={"phase": 7})
    async with running(client) as store:
        await store.synced.wait()
        assert names(store) == {"good"}
        assert list(store.unreadable) == [("models", "bad")]
        server.put("pods", "bad", status={"phase": "Running"})
        await until(lambda: names(store) == {"good", "bad"})
        server.put("pods", "good", status={"phase": []})
        await until(lambda: ("models", "good") in store.unreadable)
        assert names(store) == {"good", "bad"}, "what was known of it stays"
        server.remove("pods", "good")
        await until(lambda: names(store) == {"bad"})
        assert not store.unreadable


async def test_many_objects_come_in_pages(server: FakeServer, client: Client) -> None:
    for number in range(1203):
        server.put("pods", f"pod-{number}")
    async with running(client) as store:
        async with asyncio.timeout(5):
            await store.synced.wait()
        assert len(store) == 1203
    assert server.lists("pods") == 3


async def test_a_callback_that_raises_ends_the_store(server: FakeServer, client: Client) -> None:
    def broken(_: Change[Pod]) -> None:
        raise LookupError("a defect")

    server.put("pods", "a")
    store = Store(client, PODS, Pod)
    store.subscribe(broken)
    with pytest.raises(LookupError):
        await store.run()


async def test_a_store_runs_once_at_a_time(server: FakeServer, client: Client) -> None:
    async with running(client) as store:
        await store.synced.wait()
        with pytest.raises(RuntimeError, match="already running"):
            await store.run()


async def test_any_struct_with_metadata_will_do(server: FakeServer, client: Client) -> None:
    server.put("pods", "a", spec={"replicas": 3, "unknown": {"deep": []}})
    store = Store(client, PODS, Thing)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(store.run())
        await store.synced.wait()
        task.cancel()
    assert [thing.spec.replicas for thing in store.items()] == [3]


async def test_what_was_put_off_after_a_refusal_is_done_at_once_when_it_is_hurried(
    server: FakeServer, client: Client, until: Until
) -> None:
    server.next(lambda _: _refused())
    slow = replace(QUICK, backoff_base_seconds=1000.0, backoff_cap_seconds=1000.0)
    async with running(client, settings=slow) as store:
        await until(lambda: isinstance(store.problem, Forbidden))
        store.hurry()
        await asyncio.wait_for(store.synced.wait(), 10)
        await until(lambda: store.problem is None)


async def _refused() -> web.Response:
    return status(403, "Forbidden", "pods is forbidden")

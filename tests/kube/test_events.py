"""Events are a courtesy: counted together, bounded, and never in anyone's way."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from noctaya.kube.aggregation import Aggregation, EventKey
from noctaya.kube.client import Client
from noctaya.kube.events import EventRecorder, reference
from noctaya.kube.objects import Deployment, Metadata, ObjectReference
from noctaya.kube.resources import DEPLOYMENTS
from tests.kube.fake_server import FakeServer, html_502, status

ABOUT = reference(DEPLOYMENTS, Deployment(metadata=Metadata(name="llama", namespace="models", uid="u1")))


class Clock:
    now = 1_800_000_000.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def running(recorder: EventRecorder) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(recorder.run())
        yield
        assert await recorder.flush(5)
        task.cancel()


def written(server: FakeServer) -> list[dict[str, Any]]:
    return [item for (plural, _, _), item in server.objects.items() if plural == "events"]


async def test_an_event_says_what_who_and_when(server: FakeServer, client: Client) -> None:
    recorder = EventRecorder(client, "noctaya-worker", instance="w0", wall_clock=Clock())
    async with running(recorder):
        recorder.record(ABOUT, "Waking", "a request arrived", "Warning")
    (event,) = written(server)
    assert event["involvedObject"] == {
        "apiVersion": "apps/v1", "kind": "Deployment", "namespace": "models", "name": "llama", "uid": "u1",
    }  # fmt: skip
    assert (event["reason"], event["message"], event["type"]) == ("Waking", "a request arrived", "Warning")
    assert event["source"] == {"component": "noctaya-worker", "host": "w0"}
    assert event["firstTimestamp"] == event["lastTimestamp"] == "2027-01-15T08:00:00Z"
    assert event["count"] == 1
    assert event["metadata"]["namespace"] == "models"
    assert event["metadata"]["name"].startswith("llama.")


async def test_the_same_words_are_counted_for_ten_minutes(server: FakeServer, client: Client) -> None:
    clock = Clock()
    recorder = EventRecorder(client, "noctaya-worker", wall_clock=clock)
    async with running(recorder):
        for _ in range(500):
            recorder.record(ABOUT, "Waking", "a request arrived")
        assert await recorder.flush(5)
        clock.now += 599
        recorder.record(ABOUT, "Waking", "a request arrived")
        assert await recorder.flush(5)
        assert [event["count"] for event in written(server)] == [501]
        assert written(server)[0]["lastTimestamp"] == "2027-01-15T08:09:59Z"
        recorder.record(ABOUT, "Waking", "other words")
        clock.now += 601
        recorder.record(ABOUT, "Waking", "a request arrived")
    assert sorted(event["count"] for event in written(server)) == [1, 1, 501]
    assert len(server.seen) == 4
    assert recorder.dropped == 0


async def test_an_event_that_expired_on_the_server_is_made_anew(server: FakeServer, client: Client) -> None:
    recorder = EventRecorder(client, "noctaya-worker")
    async with running(recorder):
        recorder.record(ABOUT, "Waking", "x")
        assert await recorder.flush(5)
        server.objects.clear()
        recorder.record(ABOUT, "Waking", "x")
    assert [event["count"] for event in written(server)] == [2]


async def test_an_event_about_a_cluster_wide_object_goes_to_default(
    server: FakeServer, client: Client
) -> None:
    recorder = EventRecorder(client, "noctaya-worker")
    async with running(recorder):
        recorder.record(ObjectReference(kind="InferenceRuntime", name="vllm"), "Changed", "x")
    assert written(server)[0]["metadata"]["namespace"] == "default"


async def test_a_server_that_fails_for_a_moment_loses_nothing(server: FakeServer, client: Client) -> None:
    server.next(html_502)
    recorder = EventRecorder(client, "noctaya-worker")
    async with running(recorder):
        recorder.record(ABOUT, "Waking", "x")
    assert [event["count"] for event in written(server)] == [1]
    assert recorder.dropped == 0


async def test_a_create_whose_answer_was_lost_is_not_made_twice(server: FakeServer, client: Client) -> None:
    async def made_but_not_said(request: web.Request) -> web.Response:
        content = await request.json()
        name = content["metadata"]["name"]
        server.put("events", name, count=content["count"])
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    server.next(made_but_not_said)
    recorder = EventRecorder(client, "noctaya-worker")
    async with running(recorder):
        recorder.record(ABOUT, "Waking", "x")
    assert len(written(server)) == 1
    assert recorder.dropped == 0


async def test_a_refusal_drops_and_counts(server: FakeServer, client: Client) -> None:
    async def forbidden(_: web.Request) -> web.Response:
        return status(403, "Forbidden", "events is forbidden")

    server.next(forbidden)
    recorder = EventRecorder(client, "noctaya-worker")
    async with running(recorder):
        recorder.record(ABOUT, "Waking", "x")
        recorder.record(ABOUT, "Waking", "x")
        assert await recorder.flush(5)
        recorder.record(ABOUT, "Waking", "y")
    assert recorder.dropped == 2
    assert [event["message"] for event in written(server)] == ["y"]


async def test_a_full_queue_drops_the_oldest(client: Client) -> None:
    recorder = EventRecorder(client, "noctaya-worker", capacity=3)
    for number in range(5):
        recorder.record(ABOUT, "Waking", f"message {number}" + "x" * 2000)
    assert recorder.dropped == 2
    assert not await recorder.flush(0.01)


def test_a_dropped_event_counts_for_all_its_occurrences() -> None:
    aggregation = Aggregation(capacity=1, window_seconds=600)
    for message in ("a", "a", "a", "b"):
        aggregation.add(EventKey(about=ABOUT, type="Normal", reason="R", message=message), 0)
    assert aggregation.dropped == 3


@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.integers(0, 900), st.sampled_from(["add", "write", "refuse"]))
    ),
    st.integers(1, 3),
)
def test_every_occurrence_is_written_waiting_or_counted_as_dropped(
    steps: list[tuple[str, int, str]], capacity: int
) -> None:
    aggregation = Aggregation(capacity=capacity, window_seconds=600)
    at, added, names = 0.0, 0, 0
    server: dict[str, int] = {}
    for message, later, step in steps:
        at += later
        if step == "add":
            aggregation.add(EventKey(about=ABOUT, type="Normal", reason="R", message=message), at)
            added += 1
        elif (entry := aggregation.take()) is not None:
            if step == "refuse":
                aggregation.refused(entry)
                continue
            if entry.name is None:
                names += 1
                entry.name = str(names)
            server[entry.name] = entry.count
            aggregation.wrote(entry)
    while (entry := aggregation.take()) is not None:
        server[entry.name or f"last {len(server)}"] = entry.count
        aggregation.wrote(entry)
    assert sum(server.values()) + aggregation.dropped == added
    assert len(aggregation) == 0

"""The store: versions, watches over them, bounded history and buffers, and a life after a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from noctaya.local.apiserver import ApiError, Change, Storage
from noctaya.local.apiserver.journal import FileJournal
from noctaya.local.errors import StateUnreadable
from tests.local.apiserver.manifests import Object

THINGS = "example.test/things"


def thing(name: str, value: int = 0) -> Object:
    return {"apiVersion": "example.test/v1", "kind": "Thing", "metadata": {"name": name}, "value": value}


def put(storage: Storage, name: str, value: int = 0, namespace: str = "a") -> Object:
    return storage.put(THINGS, namespace, name, thing(name, value))


def test_every_write_takes_the_next_version_of_one_global_counter() -> None:
    storage = Storage()
    first = put(storage, "x")
    other = storage.put("/pods", "a", "p", thing("p"))
    assert int(other["metadata"]["resourceVersion"]) == int(first["metadata"]["resourceVersion"]) + 1
    assert storage.revision == int(other["metadata"]["resourceVersion"])


def test_a_stored_object_is_not_the_callers() -> None:
    storage = Storage()
    given = thing("x")
    put_back = storage.put(THINGS, "a", "x", given)
    assert "resourceVersion" not in given["metadata"]
    assert put_back is storage.get(THINGS, "a", "x")


async def test_a_watch_sees_every_change_after_its_start_in_order() -> None:
    storage = Storage()
    start = put(storage, "x")
    put(storage, "x", 1)
    watch = storage.watch(THINGS, None, int(start["metadata"]["resourceVersion"]))
    put(storage, "y")
    storage.remove(THINGS, "a", "x")
    changes = await watch.changes()
    assert [(c.type, c.name) for c in changes] == [("MODIFIED", "x"), ("ADDED", "y"), ("DELETED", "x")]
    assert [c.revision for c in changes] == sorted({c.revision for c in changes})
    assert changes[-1].object["metadata"]["resourceVersion"] == str(storage.revision)


async def test_a_watch_of_one_namespace_sees_only_that() -> None:
    storage = Storage()
    watch = storage.watch(THINGS, "a", storage.revision)
    put(storage, "x", namespace="b")
    put(storage, "y", namespace="a")
    assert [c.name for c in await watch.changes()] == ["y"]


def test_a_watch_from_before_the_known_history_is_told_to_list_again() -> None:
    storage = Storage(history=3)
    versions = [int(put(storage, "x", n)["metadata"]["resourceVersion"]) for n in range(5)]
    with pytest.raises(ApiError) as refused:
        storage.watch(THINGS, None, versions[0])
    assert (refused.value.code, refused.value.reason) == (410, "Expired")
    assert len(storage.watch(THINGS, None, versions[1]).drain()) == 3


def test_compaction_makes_older_watches_expire_but_not_the_present_one() -> None:
    storage = Storage()
    old = storage.revision
    put(storage, "x")
    storage.compact()
    with pytest.raises(ApiError, match="too old"):
        storage.watch(THINGS, None, old)
    assert storage.watch(THINGS, None, storage.revision).drain() == []


def test_a_watch_from_the_future_hears_nothing_before_it() -> None:
    storage = Storage()
    watch = storage.watch(THINGS, None, storage.revision + 1)
    put(storage, "early")
    assert watch.drain() == []
    put(storage, "later")
    assert [change.name for change in watch.drain()] == ["later"]


def test_an_earlier_version_can_be_listed_until_it_is_forgotten() -> None:
    storage = Storage()
    put(storage, "a", 1)
    before = storage.revision
    put(storage, "a", 2)
    put(storage, "b")
    storage.remove(THINGS, "a", "a")
    (seen,) = storage.list_at(THINGS, "a", before) or []
    assert (seen["metadata"]["name"], seen["value"]) == ("a", 1)
    storage.compact()
    assert storage.list_at(THINGS, "a", before) is None
    assert storage.list_at(THINGS, "a", storage.revision) == storage.list(THINGS, "a")


async def test_a_reader_that_falls_behind_is_cut_and_costs_no_memory() -> None:
    storage = Storage(watch_buffer=10)
    watch = storage.watch(THINGS, None, storage.revision)
    for number in range(11):
        put(storage, "x", number)
    with pytest.raises(ApiError, match="too slow"):
        await watch.changes()


async def test_a_closed_watch_wakes_its_reader_and_is_fed_no_more() -> None:
    storage = Storage()
    watch = storage.watch(THINGS, None, storage.revision)
    async with asyncio.TaskGroup() as group:
        reading = group.create_task(watch.changes())
        await asyncio.sleep(0)
        storage.close()
    assert reading.result() == []
    put(storage, "x")
    assert watch.drain() == []


def restarted(directory: Path) -> tuple[Storage, FileJournal]:
    journal = FileJournal(directory)
    storage = Storage(journal=journal)
    journal.load(storage)
    return storage, journal


def test_objects_and_versions_survive_a_restart(tmp_path: Path) -> None:
    storage, journal = restarted(tmp_path)
    put(storage, "x", 1)
    put(storage, "gone")
    storage.remove(THINGS, "a", "gone")
    journal.close(storage)
    again, journal = restarted(tmp_path)
    assert again.get(THINGS, "a", "x") == storage.get(THINGS, "a", "x")
    assert again.get(THINGS, "a", "gone") is None
    assert again.revision == storage.revision
    journal.close(again)


def test_a_killed_process_loses_nothing_and_watches_go_on_where_they_were(tmp_path: Path) -> None:
    storage, killed = restarted(tmp_path)
    seen = int(put(storage, "x", 1)["metadata"]["resourceVersion"])
    put(storage, "x", 2)
    again, journal = restarted(tmp_path)
    assert [c.object["value"] for c in again.watch(THINGS, None, seen).drain()] == [2]
    journal.close(again)
    killed.release()


def test_a_line_torn_by_a_crash_is_ignored_and_the_next_write_is_whole(tmp_path: Path) -> None:
    storage, journal = restarted(tmp_path)
    put(storage, "x", 1)
    journal.append(Change("ADDED", THINGS, "a", "y", storage.revision + 1, thing("y"), None))
    journal.release()
    log = tmp_path / "changes.jsonl"
    log.write_bytes(log.read_bytes()[:-20])
    again, journal = restarted(tmp_path)
    assert again.get(THINGS, "a", "y") is None
    put(again, "z")
    journal.release()
    third, journal = restarted(tmp_path)
    assert third.get(THINGS, "a", "z") is not None
    journal.close(third)


def test_damage_in_the_middle_is_named_not_ignored(tmp_path: Path) -> None:
    storage, journal = restarted(tmp_path)
    put(storage, "x", 1)
    put(storage, "y", 1)
    journal.release()
    log = tmp_path / "changes.jsonl"
    log.write_bytes(b"{broken\n" + log.read_bytes())
    with pytest.raises(StateUnreadable, match="line 1"):
        restarted(tmp_path)

"""Stores under faults: whatever happened on the way, the copy becomes the server's state, and its changes replay to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random

import pytest

from noctaya.kube.client import Client
from noctaya.kube.metadata import Object
from noctaya.kube.reflector import Change, WatchSettings
from noctaya.kube.resources import CONFIGMAPS
from noctaya.kube.store import Store
from tests.faults import ProxiedClient, Where
from tests.faults.conftest import WAIT_SECONDS, Maps, Until

OURS = "metadata.name!=kube-root-ca.crt"
QUICK = WatchSettings(
    silence_seconds=3.0,
    healthy_after_seconds=0.2,
    backoff_base_seconds=0.01,
    backoff_cap_seconds=0.1,
)
WATCHES = Where(watches=True)
LISTS = Where(path="/configmaps", watches=False)


class Map(Object, frozen=True):
    """As much of a ConfigMap as is compared."""

    data: dict[str, str] | None = None


class Followed:
    """A store, and the state that its changes alone give."""

    def __init__(self, store: Store[Map]) -> None:
        self.store = store
        self.replayed: dict[str, str | None] = {}
        store.subscribe(self._hear)

    def _hear(self, change: Change[Map]) -> None:
        if change.new is None:
            del self.replayed[change.subject.name]
        else:
            self.replayed[change.new.name] = (change.new.data or {}).get("k")

    @property
    def copy(self) -> dict[str, str | None]:
        return {item.name: (item.data or {}).get("k") for item in self.store.items()}


@asynccontextmanager
async def following(client: Client, namespace: str) -> AsyncIterator[Followed]:
    store = Store(
        client, CONFIGMAPS, Map, namespace=namespace, field_selector=OURS, settings=QUICK, random=Random(1)
    )
    followed = Followed(store)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(store.run())
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await store.synced.wait()
            yield followed
        finally:
            task.cancel()


async def busy(maps: Maps, random: Random) -> dict[str, str | None]:
    """Changes of every kind; the state after them."""
    state: dict[str, str | None] = {}
    for number in range(12):
        name = random.choice("abcd")
        if name in state and random.random() < 0.4:
            await maps.delete(name)
            del state[name]
        else:
            await maps.put(name, str(number))
            state[name] = str(number)
    return state


FAULTS: dict[str, Callable[[ProxiedClient], object]] = {
    "latency": lambda way: way.latency(0.05, 0.05),
    "late": lambda way: way.late(0.5, 0.1),
    "reset": lambda way: way.reset(0.5),
    "lost answers": lambda way: way.lose_response(0.5, LISTS),
    "500": lambda way: way.status(500, probability=0.5),
    "429": lambda way: way.status(429, WATCHES, 0.5),
    "410": lambda way: way.status(410, WATCHES, 0.7),
    "no watches": lambda way: way.status(503, WATCHES),
    "black hole": lambda way: way.black_hole(),
    "frozen": lambda way: way.freeze(),
}


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_store_is_right_again_after_any_fault(
    through: Client, way: ProxiedClient, maps: Maps, until: Until, fault: str
) -> None:
    async with following(through, maps.namespace) as followed:
        FAULTS[fault](way)
        way.drop_watches()
        state = await busy(maps, Random(fault))
        way.clear()
        await until(lambda: followed.copy == state)
        assert followed.replayed == state
        await maps.put("last", "1")
        await until(lambda: followed.copy == {**state, "last": "1"})
        await until(lambda: followed.store.problem is None)


async def test_a_store_survives_watches_that_are_dropped_again_and_again(
    through: Client, way: ProxiedClient, maps: Maps, until: Until
) -> None:
    async with following(through, maps.namespace) as followed:
        dropped = 0
        for number in range(10):
            dropped += way.drop_watches()
            await maps.put("a", str(number))
        await until(lambda: followed.copy == {"a": "9"})
        assert dropped > 0
        assert followed.replayed == followed.copy


async def test_a_store_does_not_go_back_to_a_server_that_lags_behind(
    through: Client, way: ProxiedClient, maps: Maps, until: Until
) -> None:
    await maps.put("a", "before")
    async with following(through, maps.namespace) as followed:
        fault = await way.stale()
        way.lift(fault)
        await maps.put("a", "after")
        await until(lambda: followed.copy == {"a": "after"})
        seen: list[str | None] = []
        followed.store.subscribe(lambda change: seen.append((change.subject.data or {}).get("k")))
        way.faults.own.append(
            fault
        )  # the same past again, and a watch that ends: what follows is a list of then
        gone = way.status(410, WATCHES)
        way.drop_watches()
        await until(
            lambda: followed.store.problem is not None and "lags behind" in str(followed.store.problem)
        )
        assert followed.copy == {"a": "after"}
        way.lift(gone)
        way.lift(fault)
        await until(lambda: followed.store.problem is None)
        await maps.put("a", "later")
        await until(lambda: followed.copy == {"a": "later"})
        assert "before" not in seen


async def test_a_silent_watch_leads_to_a_list(
    through: Client, way: ProxiedClient, maps: Maps, until: Until
) -> None:
    async with following(through, maps.namespace) as followed:
        await until(lambda: way.plans["watches"] >= 1)
        lists = way.plans["requests"]
        way.black_hole(WATCHES)
        await maps.put("a", "1")
        await until(lambda: followed.copy == {"a": "1"})
        assert way.plans["requests"] > lists

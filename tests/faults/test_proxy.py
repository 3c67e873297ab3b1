"""The proxy itself: that it is not there when no fault is in force, and that each fault does what it says and no more."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import msgspec
import pytest

from noctaya.kube.client import Client
from noctaya.kube.errors import Gone, NotFound, TooManyRequests, Unavailable
from noctaya.kube.resources import CONFIGMAPS
from tests.conformance.server import Server
from tests.faults import FaultProxy, ProxiedClient, Where
from tests.faults.conftest import Maps, Until
from tests.faults.rules import WRITES

MAPS = Where(path="/configmaps")
ROUND = 15


async def changed(client: Client, namespace: str, name: str, value: str) -> None:
    """A write through the proxy."""
    body = {"metadata": {"name": name}, "data": {"k": value}}
    await client.apply(CONFIGMAPS, namespace, name, body, field_manager="through", force=True)


async def test_without_a_fault_it_is_as_if_it_were_not_there(
    through: Client, namespace: str, maps: Maps
) -> None:
    await changed(through, namespace, "a", "1")
    assert await maps.value("a") == "1"
    assert (await through.get(CONFIGMAPS, namespace, "a"))["data"] == {"k": "1"}
    large = "x" * 500_000
    await changed(through, namespace, "large", large)
    assert (await through.get(CONFIGMAPS, namespace, "large"))["data"]["k"] == large
    listed = await through.list(CONFIGMAPS, namespace)
    async with through.watch(
        CONFIGMAPS, namespace, resource_version=listed.resource_version, timeout_seconds=30
    ) as stream:
        await maps.put("b", "2")
        event = await anext(stream)
    assert (event.type, msgspec.json.decode(event.object)["metadata"]["name"]) == ("ADDED", "b")
    await through.delete(CONFIGMAPS, namespace, "a")
    with pytest.raises(NotFound):
        await through.get(CONFIGMAPS, namespace, "a")


async def test_it_adds_less_than_a_millisecond(through: Client, direct: Client, namespace: str) -> None:
    """Of processor time, which is all that it takes: it waits for nothing, and a busy machine does not count here."""

    async def work_seconds(client: Client) -> float:
        start = time.thread_time()
        for _ in range(ROUND):
            await client.raw("GET", CONFIGMAPS.path(namespace), query={"limit": "1"})
        return (time.thread_time() - start) / ROUND

    rounds = [(await work_seconds(direct), await work_seconds(through)) for _ in range(15)]
    added = min(behind for _, behind in rounds) - min(before for before, _ in rounds)
    assert added < 0.001, rounds


async def test_latency_delays_and_does_nothing_else(
    through: Client, way: ProxiedClient, namespace: str, maps: Maps
) -> None:
    await maps.put("a", "1")
    fault = way.latency(0.3, where=MAPS)
    start = time.monotonic()
    assert (await through.get(CONFIGMAPS, namespace, "a"))["data"] == {"k": "1"}
    assert time.monotonic() - start >= 0.3
    way.lift(fault)
    assert way.faults.in_force == ()


async def test_the_events_of_a_slow_watch_come_late_and_not_one_after_the_other(
    through: Client, way: ProxiedClient, namespace: str, maps: Maps
) -> None:
    listed = await through.list(CONFIGMAPS, namespace)
    way.latency(0.5)
    async with through.watch(
        CONFIGMAPS, namespace, resource_version=listed.resource_version, timeout_seconds=60
    ) as stream:
        start = time.monotonic()
        for number in range(10):
            await maps.put("a", str(number))
        seen = [msgspec.json.decode((await anext(stream)).object)["data"]["k"] for _ in range(10)]
        assert seen == [str(number) for number in range(10)]
        assert 0.5 <= time.monotonic() - start < 10 * 0.5


async def test_a_freeze_holds_everything_and_a_thaw_lets_it_go_on(
    through: Client, way: ProxiedClient, namespace: str, maps: Maps
) -> None:
    listed = await through.list(CONFIGMAPS, namespace)
    async with through.watch(
        CONFIGMAPS, namespace, resource_version=listed.resource_version, timeout_seconds=60
    ) as stream:
        way.freeze()
        with pytest.raises(Unavailable):
            await through.raw("GET", "/version", timeout_seconds=0.2)
        waiting = asyncio.create_task(changed(through, namespace, "b", "2"))
        event = asyncio.ensure_future(anext(stream))
        await maps.put("a", "1")
        done, _ = await asyncio.wait([waiting, event], timeout=0.2)
        assert not done
        way.thaw()
        await waiting
        assert msgspec.json.decode((await event).object)["metadata"]["name"] == "a"


async def test_a_black_hole_swallows_and_what_it_swallowed_is_lost(
    through: Client, way: ProxiedClient, namespace: str, maps: Maps
) -> None:
    fault = way.black_hole(where=MAPS)
    with pytest.raises(Unavailable, match="within"):
        await through.raw("GET", CONFIGMAPS.path(namespace), timeout_seconds=0.2)
    await through.version()  # other paths are not meant
    way.lift(fault)
    await changed(through, namespace, "a", "1")
    assert await maps.value("a") == "1"


async def test_one_clients_black_hole_is_not_the_others(
    proxy: FaultProxy, through: Client, way: ProxiedClient
) -> None:
    other = await proxy.client("other")
    way.black_hole()
    async with Client(other.config, user_agent="other") as client:
        await client.version()
        with pytest.raises(Unavailable):
            await through.raw("GET", "/version", timeout_seconds=0.2)
        proxy.status(503)
        with pytest.raises(Unavailable, match="503"):
            await client.version()
        proxy.clear()
        await client.version()
        await through.version()


async def test_a_watch_falls_into_a_black_hole_too(
    through: Client, way: ProxiedClient, namespace: str, maps: Maps
) -> None:
    listed = await through.list(CONFIGMAPS, namespace)
    async with through.watch(
        CONFIGMAPS,
        namespace,
        resource_version=listed.resource_version,
        timeout_seconds=60,
        silence_seconds=0.5,
    ) as stream:
        way.black_hole(Where(watches=True))
        await maps.put("a", "1")
        with pytest.raises(Unavailable, match="silent"):
            await anext(stream)


async def test_dropped_watches_break(
    through: Client, way: ProxiedClient, namespace: str, until: Until
) -> None:
    listed = await through.list(CONFIGMAPS, namespace)
    async with through.watch(
        CONFIGMAPS, namespace, resource_version=listed.resource_version, timeout_seconds=60
    ) as stream:
        assert way.drop_watches() == 1
        with pytest.raises(Unavailable, match="broke"):
            await anext(stream)
    await until(lambda: way.drop_watches() == 0)


async def test_a_reset_request_never_reaches_the_server(
    through: Client, way: ProxiedClient, namespace: str, maps: Maps
) -> None:
    way.reset(where=WRITES)
    with pytest.raises(Unavailable):
        await changed(through, namespace, "a", "1")
    assert await maps.value("a") is None
    assert way.plans["is_reset"] == 1


async def test_a_lost_response_leaves_the_servers_act(
    through: Client, way: ProxiedClient, namespace: str, maps: Maps
) -> None:
    way.lose_response(where=WRITES)
    with pytest.raises(Unavailable):
        await changed(through, namespace, "a", "1")
    assert await maps.value("a") == "1"


async def test_a_late_request_arrives_when_its_client_has_given_up(
    through: Client, way: ProxiedClient, namespace: str, maps: Maps
) -> None:
    fault = way.late(1.0, 0.5, where=WRITES)
    body = {"metadata": {"name": "a"}, "data": {"k": "late"}}
    with pytest.raises(Unavailable, match="within"):
        await through.create(CONFIGMAPS, namespace, body, timeout_seconds=0.1)
    assert await maps.value("a") is None
    way.lift(fault)
    async with asyncio.timeout(60):
        while await maps.value("a") != "late":  # noqa: ASYNC110 - the server tells nobody
            await asyncio.sleep(0.02)


async def test_a_stale_server_answers_from_the_past_and_its_watches_stand_still(
    through: Client, way: ProxiedClient, namespace: str, maps: Maps
) -> None:
    await maps.put("a", "before")
    await maps.put("gone", "1")
    listed = await through.list(CONFIGMAPS, namespace)
    async with through.watch(
        CONFIGMAPS, namespace, resource_version=listed.resource_version, timeout_seconds=60
    ) as stream:
        fault = await way.stale()
        await maps.put("a", "after")
        await maps.put("new", "1")
        await maps.delete("gone")
        assert (await through.get(CONFIGMAPS, namespace, "a"))["data"] == {"k": "before"}
        assert (await through.get(CONFIGMAPS, namespace, "gone"))["kind"] == "ConfigMap"
        with pytest.raises(NotFound, match='configmaps "new" not found'):
            await through.get(CONFIGMAPS, namespace, "new")
        past = await through.list(CONFIGMAPS, namespace)
        assert {"a", "gone"} <= {item["metadata"]["name"] for item in past.items}
        assert past.resource_version == fault.version
        event = asyncio.ensure_future(anext(stream))
        done, _ = await asyncio.wait([event], timeout=0.2)
        assert not done
        way.lift(fault)
        assert msgspec.json.decode((await event).object)["data"] == {"k": "after"}
    assert (await through.get(CONFIGMAPS, namespace, "a"))["data"] == {"k": "after"}


async def test_a_stale_time_ends_by_itself(way: ProxiedClient, until: Until) -> None:
    await way.stale(0.1)
    assert way.faults.in_force
    await until(lambda: not way.faults.in_force)


@pytest.mark.parametrize(
    ("code", "error"), [(429, TooManyRequests), (500, Unavailable), (503, Unavailable), (410, Gone)]
)
async def test_a_status_is_answered_without_the_server(
    through: Client, way: ProxiedClient, namespace: str, maps: Maps, code: int, error: type[Exception]
) -> None:
    way.status(code, where=WRITES)
    with pytest.raises(error):
        await changed(through, namespace, "a", "1")
    assert await maps.value("a") is None


async def test_the_server_may_claim_to_be_an_old_one(through: Client, way: ProxiedClient) -> None:
    way.version("1.29")
    version = await through.version()
    assert (version["major"], version["minor"], version["gitVersion"]) == ("1", "29", "v1.29.0")
    way.clear()
    assert (await through.version())["minor"] != "29"


@pytest.mark.kubectl
async def test_kubectl_goes_through_it(
    api_server: Server, way: ProxiedClient, maps: Maps, tmp_path: Path
) -> None:
    if api_server.kubectl is None:
        pytest.skip("kubectl is not on PATH")
    await maps.put("a", "1")
    process = await asyncio.create_subprocess_exec(
        api_server.kubectl,
        f"--kubeconfig={way.kubeconfig(tmp_path / 'kubeconfig')}",
        f"--namespace={maps.namespace}",
        "get",
        "configmap/a",
        "-o",
        "jsonpath={.data.k}",
        env={"HOME": str(tmp_path), "KUBERC": "off"},
        stdout=asyncio.subprocess.PIPE,
    )
    out, _ = await process.communicate()
    assert (process.returncode, out) == (0, b"1")


async def test_more_connections_than_a_test_needs_are_cut_off(
    way: ProxiedClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.faults.proxy.CONNECTIONS", 0)
    async with Client(way.config, user_agent="many") as client:
        with pytest.raises(Unavailable):
            await client.version()


async def test_a_client_that_leaves_its_watch_ends_it_at_the_server_too(
    through: Client, way: ProxiedClient, namespace: str, until: Until
) -> None:
    listed = await through.list(CONFIGMAPS, namespace)
    async with through.watch(
        CONFIGMAPS, namespace, resource_version=listed.resource_version, timeout_seconds=60
    ):
        assert any(one.request is not None and one.request.is_watch for one in way.connections)
    await until(lambda: not any(one.request is not None and one.request.is_watch for one in way.connections))

"""A worker whose cluster is not as it should be: it starts, says what it waits for, and begins when that has come."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from noctaya.kube.resources import CONFIGMAPS, EVENTS, NAMESPACES
from noctaya.workers import announcer
from noctaya.workers.founding import ShardMapMismatch
from noctaya.workers.main import serve
from noctaya.workers.settings import AdminSettings, PodSettings
from tests.ports import free_port
from tests.workers.clients import until as eventually
from tests.workers.process.test_worker import Admin, settings, worker
from tests.workers.reconcile.cluster import SYSTEM, running, until

ELSEWHERE = "elsewhere"


async def test_without_its_namespace_a_worker_says_so_on_its_admin_port_and_begins_when_it_is_made(
    tmp_path: Path,
) -> None:
    async with running(tmp_path) as cluster:
        port, stop = free_port(), asyncio.Event()
        began = asyncio.get_running_loop().create_future()
        chosen = settings(
            tmp_path,
            pod=PodSettings(namespace=ELSEWHERE, name="w0", uid="uid0uid0-0"),
            admin=AdminSettings(host="127.0.0.1", port=port),
        )
        task = asyncio.create_task(serve(chosen, stop, started=began.set_result))
        admin = Admin(port)

        async def told() -> bool:
            try:
                status, body = await admin.get("/readyz")
            except aiohttp.ClientConnectionError:
                return False
            return status == 503 and "FleetUnreadable" in body and ELSEWHERE in body

        try:
            await until(told)
            assert (await admin.get("/healthz"))[0] == 200
            assert 'noctaya_worker_problem{problem="FleetUnreadable"} 1.0' in (await admin.get("/metrics"))[1]
            assert not began.done()
            await cluster.client.create(NAMESPACES, None, {"metadata": {"name": ELSEWHERE}})
            found = await asyncio.wait_for(began, 10)
            await eventually(found.is_synced)
            assert "FleetUnreadable" not in (await admin.get("/readyz"))[1]
        finally:
            stop.set()
            await asyncio.wait_for(task, 10)


async def test_a_stop_ends_the_waiting(tmp_path: Path) -> None:
    async with running(tmp_path):
        stop = asyncio.Event()
        chosen = settings(tmp_path, pod=PodSettings(namespace=ELSEWHERE, name="w0", uid="uid0uid0-0"))
        task = asyncio.create_task(serve(chosen, stop))
        await asyncio.sleep(0)
        stop.set()
        await asyncio.wait_for(task, 10)


async def test_what_no_waiting_mends_is_raised_as_it_is(tmp_path: Path) -> None:
    async with running(tmp_path) as cluster:
        body = {"metadata": {"name": "noctaya-shardmap"}, "data": {"shards": "64", "hash": "other"}}
        await cluster.client.create(CONFIGMAPS, SYSTEM, body)
        with pytest.raises(ShardMapMismatch):
            await serve(settings(tmp_path), asyncio.Event())


async def test_a_problem_that_lasts_is_an_event_of_the_workers_pod(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(announcer, "LASTING_SECONDS", 0.0)
    async with running(tmp_path, with_keda=False) as cluster, worker(settings(tmp_path)):

        async def noted() -> list[str]:
            found = await cluster.client.list(EVENTS, SYSTEM)
            return [
                event["message"]
                for event in found.items
                if (event["reason"], event["type"]) == ("KEDAMissing", "Warning")
                and event["involvedObject"]["kind"] == "Pod"
                and event["involvedObject"]["name"] == "w0"
            ]

        (message,) = await until(noted)
        assert "Install KEDA" in message

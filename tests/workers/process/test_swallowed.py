"""Connections that a network swallowed without a word: what a worker sees of its fleet must not stay what it was then."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from noctaya.kube import ClusterConfig
from noctaya.kube.resources import CONFIGMAPS
from noctaya.leader.lease_names import ANNOTATION_FREEZE, SHARDMAP
from noctaya.workers.permission import Permission
from noctaya.workers.settings import KubeSettings, PodSettings
from noctaya.workers.worker import Worker
from tests.faults import FaultProxy, ProxiedClient, Where
from tests.workers.clients import until
from tests.workers.process.test_fleet import QUICK, is_whole
from tests.workers.process.test_worker import settings, worker
from tests.workers.reconcile.cluster import SYSTEM, Cluster, running

AGAIN_SECONDS = 15.0
"""Below what any store that is not of the fleet waits for: a list 30 s, a silent watch 90 s."""


@asynccontextmanager
async def behind_a_proxy(tmp_path: Path) -> AsyncIterator[tuple[Cluster, Worker, ProxiedClient]]:
    async with (
        running(tmp_path) as cluster,
        FaultProxy(ClusterConfig.load(str(tmp_path / "kubeconfig"))) as proxy,
    ):
        way = await proxy.client("worker")
        chosen = settings(
            tmp_path,
            pod=PodSettings(namespace=SYSTEM, name="w0", ip="127.0.0.1"),
            tenure=QUICK,
            kube=KubeSettings(kubeconfig=str(way.kubeconfig(tmp_path / "way"))),
        )
        async with worker(chosen) as first:
            await until(lambda: is_whole(first) and first.place.leading.planner.is_leading)
            yield cluster, first, way


async def test_a_change_of_the_map_is_heard_though_its_watch_was_swallowed(tmp_path: Path) -> None:
    async with behind_a_proxy(tmp_path) as (cluster, first, way):
        hole = way.black_hole(Where(path="/configmaps", watches=True))
        body = {"metadata": {"annotations": {"noted.test/swallowed": "true"}}}
        await cluster.client.patch(CONFIGMAPS, SYSTEM, SHARDMAP, body)
        await until(lambda: way.plans["is_swallowed"] > 0, AGAIN_SECONDS)
        way.lift(hole)
        body = {"metadata": {"annotations": {ANNOTATION_FREEZE: "true"}}}
        await cluster.client.patch(CONFIGMAPS, SYSTEM, SHARDMAP, body)
        await until(lambda: first.place.leading.planner.maps.is_freeze_asked, AGAIN_SECONDS)


async def test_a_list_of_the_leases_that_was_swallowed_is_asked_for_again(tmp_path: Path) -> None:
    async with behind_a_proxy(tmp_path) as (_, first, way):
        way.black_hole(Where(path="/leases$", methods=frozenset({"GET"}), watches=False))
        way.status(410, Where(path="/leases$", watches=True))  # so that a list follows
        way.drop_watches()
        await until(lambda: first.ownership.permission(7) is not Permission.ACT, AGAIN_SECONDS)
        way.clear()
        await until(lambda: first.ownership.permission(7) is Permission.ACT, AGAIN_SECONDS)

"""What stories do around workers: to the API server and the way there, to Leases and map, to gateways and to peers."""

from __future__ import annotations

import contextlib

from noctaya.kube.errors import NotFound
from noctaya.kube.resources import CONFIGMAPS, LEASES
from noctaya.leader.lease_names import SHARDMAP
from tests.chaos.stage import Deed, Stage
from tests.workers.reconcile.cluster import SYSTEM

# -- the API server ----------------------------------------------------------------------------------------------------------


def freeze_api(seconds: float) -> Deed:
    """Nothing passes for anybody."""

    async def run(stage: Stage) -> None:
        with stage.fleet.fault("freeze"):
            stage.fleet.proxy.freeze()
            await stage.pause(seconds)
            stage.fleet.proxy.thaw()

    return run


def slow_api(seconds: float, lasting: float) -> Deed:
    """Every request and every event of every watch comes so much later."""

    async def run(stage: Stage) -> None:
        fleet = stage.fleet
        with fleet.fault("latency"):
            fault = fleet.proxy.latency(stage.seconds(seconds), stage.seconds(seconds) / 10)
            fleet.proxy.drop_watches()  # those that are open would go on at their old pace
            await stage.pause(lasting)
            fleet.proxy.lift(fault)
            fleet.proxy.drop_watches()

    return run


def black_hole(*, is_leader: bool, seconds: float = 20.0) -> Deed:
    """One worker reaches the API server no more; to gateways, peers and KEDA it goes on talking."""

    async def run(stage: Stage) -> None:
        fleet = stage.fleet
        pod = fleet.leader() if is_leader else fleet.follower()
        with fleet.fault("black hole"):
            fault = pod.way.black_hole()
            await stage.pause(seconds)
            pod.way.lift(fault)

    return run


async def lossy_api(stage: Stage) -> None:
    fleet = stage.fleet
    with fleet.fault("losses"):
        faults = [
            fleet.proxy.late(0.05, stage.seconds(8.0)),
            fleet.proxy.lose_response(0.05),
            fleet.proxy.reset(0.05),
        ]
        await stage.pause(60)
        for fault in faults:
            fleet.proxy.lift(fault)


async def stale_api(stage: Stage) -> None:
    fleet = stage.fleet
    pod = fleet.leader()
    with fleet.fault("stale"):
        fault = await pod.way.stale()
        await stage.pause(30)
        pod.way.lift(fault)


# -- what people do ----------------------------------------------------------------------------------------------------------


async def corrupt_map(stage: Stage) -> None:
    """Garbage is mended by the leader; a map for another number of shards is left alone until somebody mends it."""
    fleet = stage.fleet

    async def edit(data: dict[str, str]) -> None:
        fleet.record.hands += 1
        await fleet.client.patch(CONFIGMAPS, SYSTEM, SHARDMAP, {"data": data})

    for data in ({"desired": "{"}, {"generation": "-4"}, {"leaderEpoch": "x", "draining": "7"}):
        written = fleet.record.maps_written
        await edit(data)
        await fleet.until(
            lambda written=written: fleet.record.maps_written > written, 30.0, f"{data} is mended"
        )
    good = (await fleet.client.get(CONFIGMAPS, SYSTEM, SHARDMAP))["data"]
    await edit({"shards": "64"})
    await stage.pause(5)
    left = (await fleet.client.get(CONFIGMAPS, SYSTEM, SHARDMAP))["data"]
    if left["shards"] != "64" or left["generation"] != good["generation"]:
        raise AssertionError("a map of another number of shards was written over")
    await edit({"shards": good["shards"]})
    fleet.struck()


async def delete_all(stage: Stage) -> None:
    """Every Lease and the map, while the workers run."""
    fleet = stage.fleet
    former = fleet.record.fleet
    for lease in (await fleet.client.list(LEASES, SYSTEM)).items:
        with contextlib.suppress(NotFound):
            await fleet.client.delete(LEASES, SYSTEM, lease["metadata"]["name"])
    await fleet.client.delete(CONFIGMAPS, SYSTEM, SHARDMAP)
    fleet.struck()
    await fleet.until(lambda: fleet.record.fleet not in ("", former), 60.0, "the fleet is founded anew")


# -- gateways and peers ------------------------------------------------------------------------------------------------------


async def break_gateways_off(stage: Stage) -> None:
    """One worker and all gateways hear nothing of each other; its peers and the API server do."""
    fleet = stage.fleet
    pod = fleet.follower()
    with fleet.fault("gateways off", slows_reports=True):
        for gateway in fleet.gateways:
            gateway.ways[pod.name].freeze()
        await stage.pause(20)
        for gateway in fleet.gateways:
            gateway.ways[pod.name].mend()


def break_peers_off(*, is_frozen: bool) -> Deed:
    """No worker reaches one of them, which everybody else does: frozen, or refused."""

    async def run(stage: Stage) -> None:
        pod = stage.fleet.follower()
        with stage.fleet.fault("peers off"):
            if is_frozen:
                pod.peers.freeze()
            else:
                pod.peers.cut()
            await stage.pause(15)
            pod.peers.mend()

    return run


async def kill_a_gateway(stage: Stage) -> None:
    """With everybody inside; the kubelet tells of it a little later, and starts it again."""
    gateway = stage.fleet.gateways[0]
    with stage.fleet.fault("gateway killed"):
        await gateway.kill(is_reported=False)
        await stage.pause(3)
        await gateway.tell_end()
        await stage.pause(2)
        await gateway.start()


async def silence_a_gateway(stage: Stage) -> None:
    """It runs, takes requests, and no worker hears of it."""
    fleet = stage.fleet
    with fleet.fault("gateway silent", slows_reports=True):
        for way in fleet.gateways[-1].ways.values():
            way.freeze()
        await stage.pause(25)
        for way in fleet.gateways[-1].ways.values():
            way.mend()


async def reconnect_slowly(stage: Stage) -> None:
    """An owner dies while one gateway cannot reach anybody: what it holds is not known for a while."""
    fleet = stage.fleet
    with fleet.fault("gateway cut off", slows_reports=True):
        for way in fleet.gateways[-1].ways.values():
            way.cut()
        pod = fleet.follower()
        await fleet.kill(pod)
        await pod.start()
        await stage.pause(12)
        for way in fleet.gateways[-1].ways.values():
            way.mend()

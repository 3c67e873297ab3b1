"""The rows of the plan's table that can be made on one machine (sharding.md 6.4): what is done to the fleet, what it promises.

A story begins and ends with a whole fleet. `Story.run` does its faults; the runner waits for the fleet to be whole again, 30 s
after the last fault at most. Durations are those of the default tenure; with a quicker one they shrink alike (`Stage.seconds`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from noctaya.api.names import SHARD_COUNT
from tests.chaos import deeds_around as around
from tests.chaos import worker_deeds as deeds
from tests.chaos.history import Bounds
from tests.chaos.stage import Stage, Story

IN_PLACE_SECONDS: Final = 3.0


def duck(seconds: float) -> Story:
    """A random worker dies every now and then, in place or for good, for so long."""

    async def run(stage: Stage) -> None:
        fleet = stage.fleet
        end = fleet.notes.now + seconds
        while fleet.notes.now < end:
            pod = fleet.any_worker()
            await fleet.kill(pod)
            if fleet.rng.random() < 0.5:
                await pod.start()
            else:
                await fleet.bury(pod)
                await stage.pause(fleet.rng.uniform(0, 12))
                await fleet.join()
            fleet.struck()
            await stage.pause(fleet.rng.uniform(20, 60))

    return Story("duck", f"a random worker is killed every 20-60 s, for {seconds:.0f} s", run, seconds + 20)


def _unmoved(stage: Stage) -> Bounds:
    return Bounds(no_handover=True, no_fence=True)


def _degraded(stage: Stage) -> Bounds:
    """Once, and once more on the way back: a claim after an unknown write passes through it."""
    return Bounds(no_handover=True, no_fence=True, falls=2)


def _back(stage: Stage) -> Bounds:
    return Bounds(comes_back=5.0)


def _taken_over(stage: Stage) -> Bounds:
    return Bounds(takeover=stage.seconds(8.5) + 3.5)


def _both_taken_over(stage: Stage) -> Bounds:
    """Who sees more than half of the fleet fall silent at once doubts itself, and fences the rest a wait later (F23)."""
    waits = 2 if 2 * 2 > len(stage.fleet.workers) else 1
    return Bounds(takeover=waits * stage.seconds(8.5) + 3.5)


def _in_place(stage: Stage) -> Bounds:
    """Nothing moves if the process is back before its Lease is taken from it."""
    is_quick = 2 * stage.start_seconds < stage.fleet.tenure.fence_after
    return Bounds(takeover=IN_PLACE_SECONDS + stage.start_seconds, moves=0 if is_quick else None)


def _drained(stage: Stage) -> Bounds:
    count = len(stage.fleet.workers)
    leaving = -(-SHARD_COUNT // count)
    return Bounds(gap=1.0, exit=20.0, moves=2 * (leaving + count), moves_a_round=SHARD_COUNT)


def _rolled(stage: Stage) -> Bounds:
    count = len(stage.fleet.workers)
    return Bounds(gap=1.0, exit=20.0, moves=SHARD_COUNT + count)


def _scaled(to: int) -> Callable[[Stage], Bounds]:
    def bounds(stage: Stage) -> Bounds:
        before = len(stage.fleet.workers)
        ideal = SHARD_COUNT - before * (SHARD_COUNT // to)
        return Bounds(gap=1.0, exit=20.0, moves=2 * (ideal + to))

    return bounds


def _steady(stage: Stage) -> Bounds:
    return Bounds(no_handover=True, no_fence=True, lease_writes=0.5 / stage.fleet.tenure.scale, moves=0)


def stories(scaled_to: int = 10) -> tuple[Story, ...]:
    """All of them, in the order in which they are played."""
    return (
        Story("steady", "nothing happens for 30 s", lambda stage: stage.pause(30), 31, _steady),
        Story("stop-3", "SIGSTOP a worker for 3 s", deeds.stop_for(3), 5, _unmoved),
        Story("stop-5", "SIGSTOP a worker for 5 s", deeds.stop_for(5), 7, _unmoved),
        Story("stop-7", "SIGSTOP a worker for 7 s", deeds.stop_for(7), 15),
        Story("stop-12", "SIGSTOP a worker for 12 s", deeds.stop_for(12), 30, _back),
        Story("stop-30", "SIGSTOP a worker for 30 s", deeds.stop_for(30), 50, _back),
        Story("stop-leader", "SIGSTOP the leader for 12 s", deeds.stop_the_leader, 35, _back),
        Story("kill-worker", "SIGKILL a worker, nobody tells", deeds.kill_a_follower, 30, _taken_over),
        Story("kill-leader", "SIGKILL the leader, nobody tells", deeds.kill_the_leader, 30, _taken_over),
        Story("kill-both", "SIGKILL the leader and a worker", deeds.kill_both, 45, _both_taken_over),
        Story("kill-told", "SIGKILL a worker, the kubelet tells", deeds.kill_and_tell, 22, _taken_over),
        Story("in-place", "SIGKILL a worker, restart in place", deeds.restart_in_place, 10, _in_place),
        Story("sigterm", "SIGTERM a worker, another one joins", deeds.leave_and_join, 30, _drained),
        Story("roll", "rolling update of all workers", deeds.roll, 90, _rolled),
        Story("scale", f"scale to {scaled_to} and back", deeds.scale_to(scaled_to), 110, _scaled(scaled_to)),
        Story("freeze-8", "the API server is frozen for 8 s", around.freeze_api(8), 15, _unmoved),
        Story("freeze-30", "the API server is frozen for 30 s", around.freeze_api(30), 40, _unmoved),
        Story("slow-0.5", "the API server takes 0.5 s longer, for 45 s", around.slow_api(0.5, 45), 50, _unmoved),
        Story("slow-2", "the API server takes 2 s longer, for 45 s", around.slow_api(2, 45), 55, _unmoved),
        Story("slow-3.5", "the API server takes 3.5 s longer, for 45 s", around.slow_api(3.5, 45), 65, _degraded),
        Story("hole-worker", "a worker's way to the API server swallows all", around.black_hole(is_leader=False), 40),
        Story("hole-leader", "the leader's way to the API server does", around.black_hole(is_leader=True), 40),
        Story("lossy", "5 % of requests late by 8 s, 5 % of answers lost, 5 % reset", around.lossy_api, 75),
        Story("stale", "the leader's API server lags behind by 30 s", around.stale_api, 45, lambda _: Bounds(no_fence=True)),
        Story("map", "the map is garbage, then one for 64 shards", around.corrupt_map, 15, lambda _: Bounds(no_fence=True)),
        Story("delete-all", "every Lease and the map are deleted", around.delete_all, 30),
        Story("gateways-off", "a worker and all gateways are parted", around.break_gateways_off, 25, _unmoved),
        Story(
            "peers-frozen", "no peer reaches a worker, without refusal", around.break_peers_off(is_frozen=True), 18,
            lambda _: Bounds(no_fence=True, answers_within=2.0),
        ),
        Story(
            "peers-refused", "no peer reaches a worker, refused", around.break_peers_off(is_frozen=False), 18,
            lambda _: Bounds(no_fence=True, answers_within=2.0),
        ),
        Story("gateway-killed", "a gateway dies with its requests", around.kill_a_gateway, 12, _unmoved),
        Story("gateway-silent", "a gateway runs and nobody hears it", around.silence_a_gateway, 30, _unmoved),
        Story("gateway-slow", "a worker dies, a gateway cannot reach any", around.reconnect_slowly, 25),
    )  # fmt: skip

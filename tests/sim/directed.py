"""Schedules with a trap in them, for what random ones almost never find. Each is also run with all rules in force."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from noctaya.leader import planner_events as leads
from noctaya.leader.lease_names import member_lease
from noctaya.workers import shard_events as owns
from tests.sim.checker import Figures, Violation
from tests.sim.few_shards import few_shards
from tests.sim.network import API, Trap
from tests.sim.rules import Rules
from tests.sim.worker import Worker
from tests.sim.world import World

PARTS = 4


@dataclass
class Directed:
    """What came of it."""

    violation: Violation | None
    world: World


Play = Callable[[World], None]


def play(rules: Rules, story: Play, *, workers: int = 2, seed: int = 1) -> Directed:
    """Let `story` happen to a small fleet that has settled, then give it a minute to be well again."""
    with few_shards(PARTS):
        world = World(seed, PARTS, rules, drift=0.0)
        world.is_quiet = True
        try:
            world.begin(workers, 1)
            until(world, lambda: _is_settled(world))
            world.checker.figures = Figures()
            story(world)
            world.clockwork.run(world.clockwork.now + 60.0)
            world.settle()
        except Violation as violation:
            return Directed(violation, world)
        return Directed(None, world)


def until(world: World, claim: Callable[[], bool], within: float = 60.0) -> None:
    """Let time pass until `claim` holds."""
    end = world.clockwork.now + within
    while not claim():
        if world.clockwork.now >= end:
            raise AssertionError(f"waited {within} s in vain")
        world.clockwork.run(world.clockwork.now + 0.005)


def _is_settled(world: World) -> bool:
    counts = [len(worker.owned) for worker in world.workers.values()]
    return sum(counts) == PARTS and max(counts) - min(counts) <= 1


def _follower(world: World) -> Worker:
    """A worker that owns something and does not lead."""
    return next(worker for worker in world.workers.values() if worker.owned and not worker.planner.is_leading)


def _desired(world: World, pod: str) -> set[int]:
    found = world.api.read("noctaya-shardmap")
    return set(found.map.shards_of(pod)) if found is not None and found.map is not None else set()


def late_answer(world: World) -> None:
    """A renewal lands at once, its sender is stopped for 5.9 s before it reads the answer, and is cut off then."""
    victim = _follower(world)
    sprung: list[str] = []

    def trap(node: str, what: object) -> Trap | None:
        if node == victim.name and isinstance(what, tuple) and what[0] == member_lease(node) and not sprung:
            sprung.append(node)
            world.clockwork.later(0.0, lambda: world.pause(victim.name, 5.9))
            world.clockwork.later(0.01, lambda: world.cut(victim.name, API, 20.0))
            return Trap(0.002, 0.002)
        return None

    world.network.trap = trap
    until(world, lambda: bool(sprung))
    world.clockwork.run(world.clockwork.now + 15.0)


def parked_handover(world: World) -> None:
    """The write that gives a shard away lands 2 s later, when its sender has given up; the heir cannot be reached either."""
    giver = _follower(world)
    heir = next(worker for worker in world.workers.values() if worker is not giver)
    sprung: list[int] = []

    def trap(node: str, what: object) -> Trap | None:
        if node == giver.name and isinstance(what, owns.CasShard) and what.holder.startswith(heir.name):
            if what.shard not in sprung:
                sprung.append(what.shard)
                if len(sprung) == 1:
                    world.silence_watch(giver.name, 6.0)
                    world.cut(giver.name, heir.name, 6.0)
                return Trap(2.0, None)
        return None

    world.network.trap = trap
    giver.drain()
    until(world, lambda: bool(sprung))


def records_deleted_unseen(world: World) -> None:
    """The shards' records are deleted while one owner's watch is silent and nobody tells; a new worker should have them."""
    victim = _follower(world)
    victim.pod.believes_silence_for = 120.0
    world.silence_watch(victim.name, 50.0)
    before = set(victim.owned)
    world.join()
    until(world, lambda: not before <= _desired(world, victim.name))
    world.delete([name for name in sorted(world.api.objects) if name.startswith("noctaya-shard-")])
    world.clockwork.run(world.clockwork.now + 55.0)


def member_deleted_unseen(world: World) -> None:
    """A member Lease is deleted under an owner that is cut off, just when the map gives one of its shards to another."""
    victim = _follower(world)
    world.silence_watch(victim.name, 9.0)
    before = set(victim.owned)
    world.join()
    until(world, lambda: not before <= _desired(world, victim.name))
    world.cut(victim.name, API, 12.0)
    world.delete([member_lease(victim.name)])


def renewed_just_before_the_fence(world: World) -> None:
    """A worker wakes up and renews while the fence that it has earned is on the way."""
    victim = _follower(world)
    sprung: list[str] = []

    def trap(node: str, what: object) -> Trap | None:
        if isinstance(what, leads.FenceMember) and what.pod == victim.name and not sprung:
            sprung.append(node)
            world.silence_watch(victim.name, 5.0)
            world.clockwork.later(0.05, wake)
            return Trap(0.6)
        return None

    def wake() -> None:
        victim.pod.paused -= 1
        victim.resume()

    world.network.trap = trap
    victim.pod.paused += 1
    until(world, lambda: bool(sprung))


def left_behind(world: World) -> None:
    """A worker is stopped just when a shard is given to it, for so long that another has it when it wakes up."""
    heir = _follower(world)
    giver = next(worker for worker in world.workers.values() if worker is not heir)
    sprung: list[int] = []

    def trap(node: str, what: object) -> Trap | None:
        if (
            node == giver.name
            and isinstance(what, owns.CasShard)
            and what.holder.startswith(heir.name)
            and not sprung
        ):
            sprung.append(what.shard)
            world.clockwork.later(0.002, lambda: world.pause(heir.name, 20.0))
            return Trap(0.002)
        return None

    world.network.trap = trap
    giver.drain()
    until(world, lambda: bool(sprung))
    world.join()


def fenced_and_back(world: World) -> None:
    """A worker is cut off until another has its shards, and reaches the API server again before its watch tells."""
    victim = _follower(world)
    victim.pod.believes_silence_for = 60.0
    owned = set(victim.owned)
    world.silence_watch(victim.name, 30.0)
    world.network.cut(victim.name, API)
    others = [worker for worker in world.workers.values() if worker is not victim]
    until(world, lambda: any(owned & set(worker.owned) for worker in others))
    world.network.mend(victim.name, API)


def everything_deleted(world: World) -> None:
    """An operator deletes every Lease and the map under load."""
    world.clockwork.run(world.clockwork.now + 5.0)
    world.delete([name for name in sorted(world.api.objects) if not name.startswith("status-")])


def records_deleted(world: World) -> None:
    """An operator deletes the shards' records alone."""
    world.join()
    world.clockwork.run(world.clockwork.now + 15.0)
    world.delete([name for name in sorted(world.api.objects) if name.startswith("noctaya-shard-")])


def records_deleted_with_their_owner(world: World) -> None:
    """An owner dies, and before anybody has taken its shards an operator deletes all records."""
    victim = _follower(world)
    world.clockwork.run(world.clockwork.now + 5.0)
    world.crash(victim.name, restarts_in=None, is_told=False)
    world.delete([name for name in sorted(world.api.objects) if name.startswith("noctaya-shard-")])


def api_outage(world: World) -> None:
    """The API server is gone for 20 s."""
    world.api_outage(20.0)


def short_pauses(world: World) -> None:
    """Every worker in turn is stopped for 4 s: less than anybody waits."""
    for name in sorted(world.workers):
        world.pause(name, 4.0)
        world.clockwork.run(world.clockwork.now + 10.0)


def unreachable_owner(world: World) -> None:
    """An owner cannot reach the API server, and its peers can reach it: it is asked to resign before it is fenced."""
    victim = _follower(world)
    world.silence_watch(victim.name, 30.0)
    before = set(victim.owned)
    world.join()
    until(world, lambda: not before <= _desired(world, victim.name))
    world.cut(victim.name, API, 30.0)


STORIES: dict[str, Play] = {
    story.__name__: story
    for story in (
        late_answer,
        parked_handover,
        records_deleted_unseen,
        member_deleted_unseen,
        renewed_just_before_the_fence,
        left_behind,
        fenced_and_back,
        everything_deleted,
        records_deleted,
        records_deleted_with_their_owner,
        api_outage,
        short_pauses,
        unreachable_owner,
    )
}

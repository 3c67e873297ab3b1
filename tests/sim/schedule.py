"""What goes wrong in one seed's schedule, as data: it can be printed, run again, and made shorter."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from tests.sim.network import API
from tests.sim.world import World

FIRST, LAST = 8.0, 45.0
"""When faults begin and by when they are over, in seconds; the fleet is founded at 0."""
CALM = 40.0
"""After the last fault: 30 s until all is well (I6), and the hold-off after a join in the last of them."""


@dataclass(frozen=True)
class Fault:
    """One thing that goes wrong at `at`. `who` picks among whoever is there then."""

    kind: str
    at: float
    who: int = 0
    other: int = 0
    seconds: float = 0.0
    rate: float = 0.0

    def __str__(self) -> str:
        return f"{self.at:6.2f}  {self.kind:<15} who={self.who} other={self.other} seconds={self.seconds:.2f} rate={self.rate:.2f}"


@dataclass(frozen=True)
class Schedule:
    """One fleet and its faults."""

    seed: int
    workers: int
    gateways: int
    parts: int
    faults: tuple[Fault, ...]
    until: float

    def begin(self, world: World) -> None:
        """Found the fleet and let the faults come."""
        world.begin(self.workers, self.gateways)
        for fault in self.faults:
            world.clockwork.later(fault.at, lambda fault=fault: KINDS[fault.kind](world, fault))  # type: ignore[misc]
        world.clockwork.later(self.until - CALM, lambda: setattr(world, "is_quiet", True))


def schedule_of(seed: int, *, parts: int = 8) -> Schedule:
    """The schedule of `seed`: two to five workers, one to seven faults."""
    dice = random.Random(seed * 7919 + 17)
    faults = [_fault(dice, dice.choice(CHOICES)) for _ in range(dice.randint(1, 7))]
    if dice.random() < 0.4:  # a network that is never quite well
        faults.append(Fault("weather", FIRST, seconds=LAST - FIRST, rate=dice.choice([0.03, 0.17])))
    faults.sort(key=lambda fault: fault.at)
    end = max(fault.at + fault.seconds for fault in faults)
    tail = 90.0 if any(fault.kind == "roll" for fault in faults) else CALM
    return Schedule(seed, dice.randint(2, 5), dice.randint(1, 2), parts, tuple(faults), end + tail)


def _fault(dice: random.Random, kind: str) -> Fault:
    at = dice.uniform(FIRST, LAST - 5.0)
    longest = LAST - at
    seconds = min(
        dice.choice([dice.uniform(0.5, 6.0), dice.uniform(5.0, 9.5), dice.uniform(8.0, 25.0)]), longest
    )
    if kind in ("crash", "drain", "replace", "join", "drop_watch", "crash_gateway", "delete", "restart"):
        seconds = dice.uniform(0.2, 4.0)
    if kind == "roll":
        seconds = 20.0
    return Fault(kind, at, dice.randrange(1000), dice.randrange(1000), seconds, dice.random())


def _worker(world: World, pick: int) -> str:
    names = sorted(world.workers)
    return names[pick % len(names)] if names else ""


def _crash(world: World, fault: Fault) -> None:
    world.crash(_worker(world, fault.who), restarts_in=None, is_told=fault.rate < 0.3)


def _join(world: World, fault: Fault) -> None:
    del fault
    world.join()


def _restart(world: World, fault: Fault) -> None:
    world.crash(_worker(world, fault.who), restarts_in=fault.seconds, is_told=fault.rate < 0.7)


def _drain(world: World, fault: Fault) -> None:
    if len(world.workers) > 2:
        world.drain(_worker(world, fault.who), is_replaced=False)


def _peers(world: World, fault: Fault) -> None:
    one, other = _worker(world, fault.who), _worker(world, fault.who + 1 + fault.other % 3)
    if one and one != other:
        world.cut(one, other, fault.seconds)


def _weather(world: World, fault: Fault) -> None:
    weather, rate = world.network.weather, fault.rate * 0.3
    weather.loss, weather.late, weather.doubled = rate, rate, rate

    def clear() -> None:
        weather.loss = weather.late = weather.doubled = 0.0

    world.clockwork.later(fault.seconds, clear)


def _slow(world: World, fault: Fault) -> None:
    world.network.weather.slow = 2.9 * fault.rate
    world.clockwork.later(fault.seconds, lambda: setattr(world.network.weather, "slow", 0.0))


def _delete(world: World, fault: Fault) -> None:
    names = sorted(world.api.objects)
    leases = [name for name in names if not name.startswith("status-")]
    chosen = {
        0: leases,
        1: [name for name in leases if "worker" in name],
        2: [name for name in leases if "shard-" in name],
        3: [name for name in leases if name == "noctaya-shardmap"],
        4: [name for name in leases if name == "noctaya-leader"],
        5: leases[fault.other % len(leases) :][:1] if leases else [],
    }[fault.who % 6]
    world.delete(chosen)


KINDS: dict[str, Callable[[World, Fault], None]] = {
    "crash": _crash,
    "restart": _restart,
    "pause": lambda world, fault: world.pause(_worker(world, fault.who), fault.seconds),
    "api_outage": lambda world, fault: world.api_outage(fault.seconds),
    "cut_api": lambda world, fault: world.cut(_worker(world, fault.who), API, fault.seconds),
    "cut_peers": _peers,
    "cut_gateway": lambda world, fault: world.cut(
        _worker(world, fault.who), f"g{fault.other % 2}", fault.seconds
    ),
    "drop_watch": lambda world, fault: world.drop_watch(_worker(world, fault.who)),
    "silence_watch": lambda world, fault: world.silence_watch(_worker(world, fault.who), fault.seconds),
    "lag": lambda world, fault: world.lag(_worker(world, fault.who), 30.0 * fault.rate, fault.seconds),
    "drain": _drain,
    "replace": lambda world, fault: world.drain(_worker(world, fault.who), is_replaced=True),
    "join": _join,
    "roll": lambda world, fault: world.roll(3.0),
    "weather": _weather,
    "slow": _slow,
    "delete": _delete,
    "crash_gateway": lambda world, fault: world.crash_gateway(fault.other % len(world.gateways)),
}
CHOICES = (*KINDS, "crash", "pause", "pause", "cut_api", "api_outage", "crash", "replace")
"""Some come more often."""

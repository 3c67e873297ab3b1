"""A history of a fleet that never was, in which everything is as it should be: what the checker's own tests spoil."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from noctaya.api.names import SHARD_COUNT, shard_of
from noctaya.leader.shard_map import ShardMap
from noctaya.workers.audit import AnyLine, Fenced, Mapped, Sent, Started, Stood, Stopped, Told, Wrote
from tests.chaos.history import (
    AnyEvent,
    Applied,
    Bounds,
    Heard,
    LeaderWritten,
    MapWritten,
    MemberWritten,
    Process,
    Recorded,
    StoryBegan,
    StoryEnded,
    Truth,
)

SERVICES = ("ai/one", "ai/two", "ai/three")
FLEET = "fleet-1"


@dataclass
class MadeUp:
    """Grows by whole steps: each leaves a fleet that is as it should be."""

    seed: int
    now: float = 1000.0
    lines: list[AnyLine] = field(default_factory=list)
    events: list[AnyEvent] = field(default_factory=list)
    pods: dict[str, str] = field(default_factory=dict)
    """Pod → incarnation."""
    owners: dict[int, tuple[str, int]] = field(default_factory=dict)
    """Shard → (pod, epoch)."""
    map: ShardMap = field(default_factory=lambda: ShardMap(leader_epoch=1))
    leader: str = ""
    pending: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)
        for number in range(3):
            self.join(f"w{number}")
        self.lead("w0")
        self.plan(tuple(f"w{shard % 3}" for shard in range(SHARD_COUNT)))
        for shard in range(SHARD_COUNT):
            self.take(shard, self.map.desired[shard])

    def tick(self, seconds: float = 0.01) -> float:
        """A little later."""
        self.now += self.rng.uniform(seconds / 2, seconds)
        return self.now

    # -- the fleet ---------------------------------------------------------------------------------------------------

    def join(self, pod: str) -> None:
        """A new incarnation."""
        former = self.pods.get(pod, "")
        self.pods[pod] = f"{pod}_uid_{len(self.lines)}"
        self.lines.append(Stood(at=self.tick(), by=self.pods[pod], standing="act"))
        self.events.append(MemberWritten(at=self.tick(), pod=pod, holder=self.pods[pod], state="Ready"))
        assert former != self.pods[pod]

    def lead(self, pod: str) -> None:
        """It leads from now on."""
        self.leader = pod
        epoch = self.map.leader_epoch + 1
        self.events.append(LeaderWritten(at=self.tick(), holder=self.pods[pod], epoch=epoch))
        self.plan(self.map.desired, epoch)

    def plan(self, desired: tuple[str, ...], epoch: int = 0) -> None:
        """The leader writes the next map."""
        self.map = ShardMap(
            generation=self.map.generation + 1, leader_epoch=epoch or self.map.leader_epoch, desired=desired
        )
        by = self.pods[self.leader]
        self.lines.append(
            Mapped(
                at=self.tick(), by=by, epoch=self.map.leader_epoch, generation=self.map.generation, reason=""
            )
        )
        self.events.append(MapWritten(at=self.tick(), fleet=FLEET, data=self.map.data()))

    def take(self, shard: int, pod: str) -> None:
        """`pod` owns it under the next epoch, and everybody is told."""
        epoch = self.owners.get(shard, ("", 0))[1] + 1
        self.owners[shard] = (pod, epoch)
        by = self.pods[pod]
        self.events.append(Recorded(at=self.tick(), shard=shard, holder=by, epoch=epoch))
        self.lines.append(Started(at=self.tick(), by=by, shard=shard, epoch=epoch))
        self.lines.append(
            Sent(at=self.tick(), by=by, shard=shard, epoch=epoch, version=1, to="g0-1", permission="act")
        )
        self.events.append(
            Applied(
                at=self.tick(), gateway="g0", boot="g0-1", fleet=FLEET, shard=shard, epoch=epoch, version=1
            )
        )

    def hand_over(self, shard: int) -> None:
        """Two shards change places, so that shares stay even."""
        other = next(one for one in range(SHARD_COUNT) if self.owners[one][0] != self.owners[shard][0])
        one_pod, other_pod = self.owners[shard][0], self.owners[other][0]
        desired = list(self.map.desired)
        desired[shard], desired[other] = other_pod, one_pod
        self.plan(tuple(desired))
        for number, heir in ((shard, other_pod), (other, one_pod)):
            pod, epoch = self.owners[number]
            self.lines.append(Stopped(at=self.tick(), by=self.pods[pod], shard=number, epoch=epoch))
            self.take(number, heir)

    def restart(self, pod: str) -> float:
        """Killed, and back in the same pod; when it was killed."""
        at = self.tick()
        self.events.append(Process(at=at, pod=pod, number=1, what="kill"))
        if pod == self.leader:
            self.lead(next(other for other in self.pods if other != pod))
        by = self.pods[self.leader]
        self.lines.append(
            Fenced(
                at=self.tick(), by=by, epoch=self.map.leader_epoch, pod=pod, incarnation=self.pods[pod],
                is_proven=True,
            )
        )  # fmt: skip
        self.join(pod)
        for shard in self.shards_of(pod):
            self.take(shard, pod)
        return at

    def shards_of(self, pod: str) -> list[int]:
        """What it owns."""
        return [shard for shard, (owner, _) in self.owners.items() if owner == pod]

    # -- what owners do ----------------------------------------------------------------------------------------------

    def owner(self, service: str) -> tuple[str, int, int]:
        """(incarnation, shard, epoch)."""
        shard = shard_of(*service.split("/"))
        pod, epoch = self.owners[shard]
        return self.pods[pod], shard, epoch

    def write(self, service: str) -> None:
        """Its owner writes something."""
        by, shard, epoch = self.owner(service)
        self.lines.append(Wrote(at=self.tick(), by=by, shard=shard, epoch=epoch, what="apply"))

    def ask(self, service: str) -> None:
        """KEDA hears what is so."""
        by, shard, epoch = self.owner(service)
        demand, asked_at = self.pending.get(service, 0), self.tick()
        for about, value in (("demand", demand), ("active", int(demand > 0))):
            self.lines.append(
                Told(
                    at=self.tick(), by=by, shard=shard, epoch=epoch, service=service, about=about,
                    permission="act", value=value, demand="known", seen=demand,
                )
            )  # fmt: skip
            self.events.append(
                Heard(
                    at=self.tick(), asked_at=asked_at, worker="w0", service=service, about=about, value=value
                )
            )

    def arrive(self, service: str, count: int) -> None:
        """So many requests wait from now on."""
        self.pending[service] = count
        self.events.append(Truth(at=self.tick(), gateway="g0", service=service, pending=count))

    # -- whole histories ---------------------------------------------------------------------------------------------

    def some_steps(self, count: int) -> MadeUp:
        """A story with so many steps, by chance."""
        self.begin("made-up", Bounds())
        for _ in range(count):
            service = self.rng.choice(SERVICES)
            match self.rng.randrange(7):
                case 0:
                    self.hand_over(self.rng.randrange(SHARD_COUNT))
                case 1:
                    self.restart(self.rng.choice(list(self.pods)))
                case 2:
                    self.lead(self.rng.choice(list(self.pods)))
                case 3:
                    self.arrive(service, self.rng.randrange(3))
                case 4:
                    self.write(service)
                case _:
                    self.ask(service)
            self.tick(2.0)
        return self.finish()

    def begin(self, name: str, bounds: Bounds) -> None:
        """A story begins."""
        self.events.append(StoryBegan(at=self.tick(), name=name, bounds=bounds))

    def finish(self, name: str = "made-up") -> MadeUp:
        """It ends well."""
        end = self.tick()
        self.events.append(
            StoryEnded(at=end, name=name, last_fault_at=end, is_settled=True, alive=tuple(self.pods))
        )
        return self

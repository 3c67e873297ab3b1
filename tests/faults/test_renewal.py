"""A Lease kept through faults: at no instant do two act, and when the fault is gone one does.

Everything runs in one process and by one clock, so "at the same instant" can be asked directly: before and after every change
of standing, and at every tick in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack

import pytest

from noctaya.kube.client import Client
from noctaya.kube.clock import boottime
from noctaya.kube.leases import Leases
from noctaya.leader import Identity, Renewal, Standing, Tenure, Timing
from tests.faults import FaultProxy, ProxiedClient, Where
from tests.faults.beside import running
from tests.faults.conftest import TICK_SECONDS, Until

TIMING = Timing(0.2, 1.2, 1.8, observe_every=0.1, observed_gap=1.0, retry_after=0.05)
LEASES = Where(path="/leases")
WRITES = Where(path="/leases", methods=frozenset({"PUT", "POST"}))
STORM_REQUESTS = 30


class Worker:
    """A contender and its way to the server."""

    def __init__(self, name: str, way: ProxiedClient, client: Client, namespace: str) -> None:
        self.way = way
        identity = Identity(name, f"uid-{name}", "n")
        self.tenure = Tenure(identity, TIMING, is_first=name == "w0")
        leases = Leases(client, namespace, attempt_timeout_seconds=0.5)
        self.renewal = Renewal(
            self.tenure, leases, namespace=namespace, name="leader", on_change=self._changed
        )
        self.on_change: Callable[[], None] = lambda: None

    def _changed(self) -> None:
        self.on_change()

    @property
    def standing(self) -> Standing:
        return self.tenure.standing(boottime())

    @property
    def acts(self) -> bool:
        return self.standing is Standing.ACT


class Pair:
    """Two workers, and the claim that holds at every instant."""

    def __init__(self, first: Worker, second: Worker) -> None:
        self.first, self.second = first, second
        self.epochs: list[int] = []
        for worker in (first, second):
            worker.on_change = self.check

    def check(self) -> None:
        now = boottime()
        acting = [one for one in (self.first, self.second) if one.tenure.standing(now) is Standing.ACT]
        assert len(acting) < 2, "two workers act at one instant"
        for one in acting:
            if not self.epochs or self.epochs[-1] != one.tenure.epoch:
                self.epochs.append(one.tenure.epoch)
        assert self.epochs == sorted(self.epochs), f"an epoch came back: {self.epochs}"

    async def watch(self) -> None:
        while True:
            self.check()
            await asyncio.sleep(TICK_SECONDS)


@pytest.fixture
async def pair(
    proxy: FaultProxy, namespace: str, until: Until, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Pair]:
    """Two workers, of which the first holds the Lease; what goes wrong in them fails the test."""
    monkeypatch.setattr("noctaya.leader.renewal.ATTEMPT_SECONDS", 0.6)
    monkeypatch.setattr("noctaya.leader.renewal.HEDGE_SECONDS", 0.2)
    async with AsyncExitStack() as stack:
        workers = []
        for name in ("w0", "w1"):
            way = await proxy.client(name)
            client = await stack.enter_async_context(Client(way.config, user_agent=name))
            workers.append(Worker(name, way, client, namespace))
        pair = Pair(*workers)
        async with running(pair.first.renewal.run(), pair.watch()):
            await until(lambda: pair.first.acts)
            async with running(pair.second.renewal.run()):
                yield pair


@pytest.mark.parametrize("fault", ["black hole", "frozen", "writes lost on the way", "refused"])
async def test_a_holder_that_is_cut_off_stops_before_another_one_acts(
    pair: Pair, until: Until, fault: str
) -> None:
    way = pair.first.way
    match fault:
        case "black hole":
            way.black_hole()
        case "frozen":
            way.freeze()
        case "refused":
            way.status(500)
        case _:
            way.reset(where=WRITES)
    await until(lambda: pair.second.acts)
    assert not pair.first.acts
    epoch = pair.second.tenure.epoch
    way.clear()
    await until(lambda: pair.first.standing is Standing.NONE)
    await until(lambda: pair.second.acts and pair.second.tenure.epoch == epoch)


async def test_answers_that_are_lost_cost_no_tenure(pair: Pair, until: Until) -> None:
    """The write was accepted and we do not know it: what we read next is our own."""
    way = pair.first.way
    epoch = pair.first.tenure.epoch
    way.lose_response(0.5, WRITES)
    await until(lambda: way.plans["loses_response"] >= 4)
    way.clear()
    await until(lambda: pair.first.acts or pair.second.acts)
    if pair.first.acts:
        assert pair.first.tenure.epoch >= epoch


async def test_a_standby_that_reads_the_past_takes_nothing_over(pair: Pair, until: Until) -> None:
    """It sees a Lease that nobody renews; its compare-and-swap meets the one that somebody does."""
    epoch = pair.first.tenure.epoch
    await pair.second.way.stale()
    tried = pair.second.way.plans["requests"]
    await until(lambda: pair.second.way.plans["requests"] >= tried + 25)
    assert not pair.second.acts
    assert pair.first.tenure.epoch == epoch
    pair.second.way.clear()
    await until(lambda: pair.first.acts)


@pytest.mark.parametrize(
    "fault",
    {
        "late": lambda way: way.late(0.4, 1.0, LEASES),
        "everything": lambda way: (
            way.latency(0.05, 0.05),
            way.late(0.15, 1.5, WRITES),
            way.reset(0.15),
            way.lose_response(0.15),
            way.status(500, probability=0.15),
        ),
    }.items(),
    ids=lambda pair: pair[0],
)
async def test_in_a_storm_two_never_act_and_afterwards_one_does(
    pair: Pair, until: Until, fault: tuple[str, Callable[[ProxiedClient], object]]
) -> None:
    for worker in (pair.first, pair.second):
        fault[1](worker.way)
    await until(lambda: all(one.way.plans["requests"] >= STORM_REQUESTS for one in (pair.first, pair.second)))
    for worker in (pair.first, pair.second):
        worker.way.clear()
    await until(lambda: pair.first.acts or pair.second.acts)
    assert pair.epochs

"""The shell of tenure against Leases that answer, refuse, fail and hang."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from noctaya.kube.errors import AlreadyExists, Call, Conflict, Forbidden, NotFound, Unavailable
from noctaya.kube.objects import Lease, LeaseSpec, Metadata
from noctaya.leader import Identity, Renewal, Standing, Tenure, Timing
from noctaya.leader.tenure import Tick

CALL = Call("test", "leases noctaya-leader")
TIMING = Timing(0.05, 0.4, 0.5, observe_every=0.02, observed_gap=1.0, retry_after=0.02)


class Leases:
    """One Lease with a version, and a switch that breaks it."""

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self.is_down = False
        self.writes = 0

    async def read(self, name: str) -> Lease:
        self._check()
        if self.lease is None:
            raise NotFound(CALL, "no lease")
        return self.lease

    async def create(self, lease: Lease) -> Lease:
        self._check()
        if self.lease is not None:
            raise AlreadyExists(CALL, "there is one")
        return self._store(lease)

    async def replace(self, lease: Lease) -> Lease:
        self._check()
        if self.lease is None:
            raise NotFound(CALL, "no lease")
        if lease.metadata.resource_version != self.lease.metadata.resource_version:
            raise Conflict(CALL, "somebody was there first")
        return self._store(lease)

    def _check(self) -> None:
        if self.is_down:
            raise Unavailable(CALL, "down")

    def _store(self, lease: Lease) -> Lease:
        self.writes += 1
        metadata = msgspec.structs.replace(lease.metadata, resource_version=str(self.writes))
        self.lease = Lease(metadata=metadata, spec=lease.spec)
        return self.lease


class SlowLeases(Leases):
    """Its answers take their time, on a clock of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        self.takes_seconds = 0.0

    async def replace(self, lease: Lease) -> Lease:
        self.now += self.takes_seconds
        return await super().replace(lease)


@asynccontextmanager
async def renewing(leases: Leases, pod: str = "w0", *, is_first: bool = True) -> AsyncIterator[Renewal]:
    tenure = Tenure(Identity(pod, f"uid-{pod}", "n"), TIMING, is_first=is_first)
    renewal = Renewal(tenure, leases, namespace="sys", name="noctaya-leader")
    task = asyncio.create_task(renewal.run())
    try:
        yield renewal
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(claim: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while True:
            if claim():
                return
            await asyncio.sleep(0.005)


def standing(renewal: Renewal) -> Standing:
    return renewal.tenure.standing(renewal._clock())


async def test_the_lease_is_made_renewed_and_released() -> None:
    leases = Leases()
    async with renewing(leases) as renewal:
        await until(lambda: standing(renewal) is Standing.ACT and leases.writes >= 3)
        assert leases.lease is not None
        spec = leases.lease.spec
        assert (spec.holder_identity, spec.lease_transitions, spec.lease_duration_seconds) == (
            "w0_uid-w0_n",
            1,
            10,
        )
    await renewal.leave()
    assert leases.lease.spec.holder_identity == ""
    assert standing(renewal) is Standing.NONE


async def test_an_api_server_that_is_gone_means_grow_and_its_return_means_act_again() -> None:
    leases = Leases()
    async with renewing(leases) as renewal:
        await until(lambda: standing(renewal) is Standing.ACT)
        leases.is_down = True
        await until(lambda: standing(renewal) is Standing.GROW)
        assert isinstance(renewal.problem, Unavailable)
        leases.is_down = False
        await until(lambda: standing(renewal) is Standing.ACT)
        assert renewal.tenure.epoch == 1


async def test_a_deadline_that_passes_while_a_renewal_is_under_way_is_announced_all_the_same() -> None:
    """Who was refused meanwhile waits for the announcement that follows."""
    leases, heard = SlowLeases(), list[Standing]()
    tenure = Tenure(Identity("w0", "uid-w0", "n"), Timing(), is_first=True)
    renewal = Renewal(
        tenure,
        leases,
        namespace="sys",
        name="noctaya-leader",
        on_change=lambda: heard.append(tenure.standing(leases.now)),
        clock=lambda: leases.now,
    )
    await renewal._perform(Tick())
    leases.now, leases.takes_seconds = 2.5, 4.0
    await renewal._perform(Tick())
    assert heard == [Standing.ACT, Standing.GROW, Standing.ACT]


async def test_a_second_one_takes_over_when_the_first_falls_silent() -> None:
    leases, told = Leases(), list[Standing]()
    async with renewing(leases) as first:
        await until(lambda: standing(first) is Standing.ACT)
    async with renewing(leases, "w1", is_first=False) as second:
        second._on_change = lambda: told.append(standing(second))
        await until(lambda: standing(second) is Standing.ACT)
        assert standing(first) is not Standing.ACT
        assert second.tenure.epoch == 2
        assert told == [Standing.ACT]


async def test_a_higher_epoch_in_a_status_is_overtaken_by_a_write() -> None:
    leases = Leases()
    async with renewing(leases) as renewal:
        await until(lambda: standing(renewal) is Standing.ACT)
        renewal.see_epoch(8)
        assert standing(renewal) is Standing.NONE
        await until(lambda: standing(renewal) is Standing.ACT)
        assert renewal.tenure.epoch == 9


async def test_a_lease_that_is_deleted_under_its_holder_is_made_again() -> None:
    leases = Leases()
    async with renewing(leases) as renewal:
        await until(lambda: standing(renewal) is Standing.ACT)
        leases.lease = None
        await until(lambda: leases.lease is not None and standing(renewal) is Standing.ACT)
        assert renewal.tenure.epoch == 2


class ReadOnlyLeases(Leases):
    """Somebody took the right to write away."""

    def __init__(self) -> None:
        super().__init__()
        self.is_read_only = True

    async def create(self, lease: Lease) -> Lease:
        return self._refuse() if self.is_read_only else await super().create(lease)

    async def replace(self, lease: Lease) -> Lease:
        return self._refuse() if self.is_read_only else await super().replace(lease)

    def _refuse(self) -> Lease:
        raise Forbidden(CALL, "not allowed to update leases")


async def test_a_lease_that_can_be_read_and_not_written_is_a_problem_until_it_can() -> None:
    leases = ReadOnlyLeases()
    leases.lease = Lease(metadata=Metadata(name="noctaya-leader", resource_version="1"))
    async with renewing(leases) as renewal:
        await until(lambda: isinstance(renewal.problem, Forbidden))
        for _ in range(20):  # many reads come and go in between
            assert isinstance(renewal.problem, Forbidden)
            await asyncio.sleep(TIMING.observe_every)
        assert standing(renewal) is Standing.NONE
        leases.is_read_only = False
        await until(lambda: standing(renewal) is Standing.ACT)
        assert renewal.problem is None


async def test_a_standby_that_failed_to_take_a_lease_which_others_renew_has_no_problem() -> None:
    leases = ReadOnlyLeases()
    leases.lease = Lease(metadata=Metadata(name="noctaya-leader", resource_version="1"))
    async with renewing(leases) as renewal:
        await until(lambda: isinstance(renewal.problem, Forbidden))
        renewed = Metadata(name="noctaya-leader", resource_version="2")
        leases.lease = Lease(metadata=renewed, spec=LeaseSpec(holder_identity="other", lease_transitions=1))
        await until(lambda: renewal.problem is None)

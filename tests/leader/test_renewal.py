"""The shell of tenure against Leases that answer, refuse, fail and hang."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest

from noctaya.kube.errors import AlreadyExists, Call, Conflict, Forbidden, NotFound, Unavailable
from noctaya.kube.objects import Lease, LeaseSpec, Metadata
from noctaya.leader import Identity, Renewal, Standing, Tenure, Timing
from noctaya.leader.lease_views import leader_metadata, lease_view, member_metadata
from noctaya.leader.member_record import MemberRecord, MemberState, read_record
from noctaya.leader.membership import Began, Departed, Ended, Membership, Synced
from noctaya.leader.tenure import Accepted, Action, Event, Seen, Tick, Watched, Write

CALL = Call("test", "leases noctaya-leader")
TIMING = Timing(0.05, 0.4, 0.5, observe_every=0.02, observed_gap=1.0, retry_after=0.02)


class Leases:
    """One Lease with a version, and a switch that breaks it."""

    def __init__(self) -> None:
        self.lease: Lease | None = None
        self.is_down = False
        self.reads = self.writes = 0

    async def read(self, name: str) -> Lease:
        self.reads += 1
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

    def delete(self) -> None:
        self.lease = None

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


class LateLeases(Leases):
    """Its answers are right and come after `late_seconds`."""

    def __init__(self) -> None:
        super().__init__()
        self.late_seconds = 0.0

    async def read(self, name: str) -> Lease:
        await asyncio.sleep(self.late_seconds)
        return await super().read(name)

    async def replace(self, lease: Lease) -> Lease:
        await asyncio.sleep(self.late_seconds)
        return await super().replace(lease)


@asynccontextmanager
async def renewing(
    leases: Leases, pod: str = "w0", *, is_first: bool = True, may_stand: Callable[[], bool] = lambda: True
) -> AsyncIterator[Renewal[Tenure]]:
    tenure = Tenure(Identity(pod, f"uid-{pod}", "n"), TIMING, is_first=is_first)
    renewal = Renewal(tenure, leases, namespace="sys", name="noctaya-leader", may_stand=may_stand)
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


def standing(renewal: Renewal[Tenure]) -> Standing:
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
    await renewal.perform(Tick())
    leases.now, leases.takes_seconds = 2.5, 4.0
    await renewal.perform(Tick())
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


def free(**annotations: str) -> Lease:
    metadata = Metadata(name="noctaya-leader", resource_version="1", annotations=annotations)
    return Lease(metadata=metadata, spec=LeaseSpec(holder_identity="", lease_transitions=4))


async def test_who_may_not_stand_asks_for_nothing_and_stands_as_soon_as_it_may() -> None:
    leases, may = Leases(), [False]
    leases.lease = free()
    looked = [0]

    def may_stand() -> bool:
        looked[0] += 1
        return may[0]

    async with renewing(leases, is_first=False, may_stand=may_stand) as renewal:
        await until(lambda: looked[0] >= 4)
        assert (leases.reads, leases.writes, standing(renewal)) == (0, 0, Standing.NONE)
        may[0] = True
        await until(lambda: standing(renewal) is Standing.ACT)


async def test_who_may_not_stand_looks_only_when_it_is_time_or_something_happened(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also when its core would like to be ticked at once."""
    monkeypatch.setattr("noctaya.leader.renewal.LOOK_AGAIN_SECONDS", 3600.0)
    looked = [0]

    def may_stand() -> bool:
        looked[0] += 1
        return False

    async with renewing(Leases(), may_stand=may_stand) as renewal:
        for _ in range(3):
            renewal.hear(Watched(None))
            before = looked[0]
            await until(lambda before=before: looked[0] > before)  # type: ignore[misc]
            for _ in range(100):  # whoever spins would look a hundred times
                await asyncio.sleep(0)
            assert looked[0] <= before + 3


async def test_a_free_lease_that_the_watch_shows_is_not_taken_by_who_may_not_stand() -> None:
    leases, may = Leases(), [False]
    leases.lease = free()
    async with renewing(leases, is_first=False, may_stand=lambda: may[0]) as renewal:
        await asyncio.sleep(0)
        renewal.hear(Watched(lease_view(leases.lease)))
        await until(lambda: not renewal.tenure.is_busy)
        assert (leases.writes, standing(renewal)) == (0, Standing.NONE)
        may[0] = True
        await until(lambda: standing(renewal) is Standing.ACT)
        assert renewal.tenure.epoch == 5


async def test_a_holder_that_may_not_stand_any_more_goes_on_until_it_leaves() -> None:
    leases, may = Leases(), [True]
    async with renewing(leases, may_stand=lambda: may[0]) as renewal:
        await until(lambda: standing(renewal) is Standing.ACT)
        may[0], writes = False, leases.writes
        await until(lambda: leases.writes >= writes + 3)
        assert standing(renewal) is Standing.ACT
        leases.is_down = True
        await until(lambda: standing(renewal) is Standing.GROW)
        leases.is_down = False
        await until(lambda: standing(renewal) is Standing.ACT)
    await renewal.leave()
    assert leases.lease is not None
    assert leases.lease.spec.holder_identity == ""


class NotingTenure(Tenure):
    """Keeps what it was told."""

    def __init__(self, identity: Identity, timing: Timing) -> None:
        super().__init__(identity, timing)
        self.heard = list[Event]()

    def on(self, event: Event, now: float) -> list[Action]:
        self.heard.append(event)
        return super().on(event, now)


async def test_what_others_wrote_into_a_lease_survives_every_write() -> None:
    """Also what came after our last read: the watch has shown that version, and it was never read here."""
    leases = Leases()
    leases.lease = Lease(metadata=free(note="old").metadata, spec=LeaseSpec(holder_identity="other"))
    tenure = NotingTenure(Identity("w0", "uid-w0", "n"), TIMING)
    renewal: Renewal[Tenure] = Renewal(
        tenure,
        leases,
        namespace="sys",
        name="noctaya-leader",
        describe=lambda metadata, write: leader_metadata(metadata),
    )
    await renewal.perform(Tick())
    assert (leases.reads, leases.writes) == (1, 0)
    noted = msgspec.structs.replace(free(note="new").metadata, resource_version="3")
    leases.lease = Lease(metadata=noted, spec=LeaseSpec(holder_identity="", lease_transitions=4))
    await renewal.perform(Watched(lease_view(leases.lease)))
    assert (standing(renewal), leases.writes) == (Standing.ACT, 1)
    assert [type(event) for event in tenure.heard] == [Tick, Seen, Watched, Accepted]
    assert leases.lease.metadata.annotations == {"note": "new"}
    assert leases.lease.metadata.labels == leader_metadata(Metadata()).labels


async def test_a_version_that_the_watch_showed_and_that_is_over_is_not_written_upon() -> None:
    leases = Leases()
    leases.lease = free(note="kept")
    tenure = Tenure(Identity("w0", "uid-w0", "n"), TIMING)
    renewal = Renewal(tenure, leases, namespace="sys", name="noctaya-leader")
    stale = leases.lease
    leases.lease = Lease(
        metadata=msgspec.structs.replace(stale.metadata, resource_version="2"),
        spec=LeaseSpec(holder_identity="other", lease_transitions=5),
    )
    await renewal.perform(Watched(lease_view(stale)))
    assert (leases.writes, standing(renewal)) == (0, Standing.NONE)


async def test_a_member_lease_carries_the_record_of_the_instant_and_every_incarnation_is_told() -> None:
    """The shell is the same for the core that stands on a tenure; what it asks beyond reads and writes is handed on."""
    leases, actions = Leases(), list[object]()
    nonces = iter(["n1", "n2"])
    core = Membership("w0", "", TIMING, nonce=lambda: next(nonces))

    def describe(metadata: Metadata, write: Write) -> Metadata:
        record = MemberRecord(state=core.state if write.holder else MemberState.LEFT, address="w0:9443")
        return member_metadata(metadata, record, pod="w0", pod_uid="")

    renewal = Renewal(
        core, leases, namespace="sys", name="noctaya-worker-w0", on_action=actions.append, describe=describe
    )

    def state() -> MemberState | None:
        return read_record(leases.lease.metadata.annotations).state if leases.lease is not None else None

    def echo() -> None:
        """The watch shows what is stored."""
        renewal.hear(Watched(lease_view(leases.lease) if leases.lease is not None else None))

    task = asyncio.create_task(renewal.run())
    try:
        await until(lambda: state() is MemberState.JOINING)
        renewal.hear(Synced())
        echo()
        await until(lambda: state() is MemberState.READY)
        leases.delete()  # that incarnation is over
        await until(lambda: len(actions) == 2 and state() is MemberState.JOINING)
        echo()
        await until(lambda: state() is MemberState.READY)
        assert actions == [Ended("w0__n1"), Began(Identity("w0", "", "n2"))]
        assert leases.lease is not None
        assert leases.lease.spec.holder_identity == "w0__n2"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
    await renewal.perform(Departed())
    assert state() is MemberState.LEFT
    assert leases.lease.spec.holder_identity == ""


@pytest.mark.parametrize("late_seconds", [0.06, 0.1])
async def test_a_slow_server_that_refuses_is_understood_though_the_hedge_has_no_answer_in_time(
    late_seconds: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After an outage: a renewal that nobody waits for any more has landed, and every answer takes longer than a hedge waits."""
    monkeypatch.setattr("noctaya.leader.renewal.ATTEMPT_SECONDS", 0.15)
    monkeypatch.setattr("noctaya.leader.renewal.HEDGE_SECONDS", 0.05)
    leases = LateLeases()
    async with renewing(leases) as renewal:
        await until(lambda: standing(renewal) is Standing.ACT)
        assert leases.lease is not None
        leases._store(leases.lease)
        leases.late_seconds = late_seconds
        await until(lambda: standing(renewal) is not Standing.ACT)
        await until(lambda: standing(renewal) is Standing.ACT)
        assert renewal.tenure.epoch == 1

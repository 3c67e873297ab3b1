"""The shell of the ownership core at its two ends: before it runs, and after."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from noctaya.api.names import SHARD_COUNT
from noctaya.kube.leases import Leases
from noctaya.leader.member_record import MemberState
from noctaya.leader.tenure import Identity, Standing
from noctaya.workers import shard_events as owns
from noctaya.workers.ownership import Acting, Ownership, Telling

ME = Identity("w0", "aaaaaaaa-1111", "n1")


class Incarnation:
    """One that stands for ever."""

    identity = ME

    def standing(self, now: float) -> Standing:
        return Standing.ACT


def wanting() -> Ownership:
    """It would write its first records at the next plan; whatever it began after its end would miss its helpers."""
    ownership = Ownership(
        "w0", Incarnation(), cast(Leases, None), cast(Telling, None), cast(Acting, None), fleet="f1"
    )
    ownership.began(str(ME))
    ownership.hear(owns.MemberSeen("w0", str(ME), MemberState.READY))
    ownership.state_changed(MemberState.READY)
    ownership.hear(owns.Listed())
    return ownership


PLAN = owns.PlanSeen("f1", 1, ("w0",) * SHARD_COUNT)


async def test_what_is_told_before_it_runs_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="before it ran"):
        wanting().hear(PLAN)


async def test_what_is_told_after_its_end_begins_nothing_and_disturbs_nobody() -> None:
    """A lone worker that drains may hear of its replacement after its own work is done."""
    ownership = wanting()
    running = asyncio.create_task(ownership.run())
    await asyncio.sleep(0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    ownership.hear(PLAN)
    await asyncio.sleep(0)
    assert ownership.writes == {"accepted": 0, "refused": 0, "unanswered": 0}
    assert len(asyncio.all_tasks()) == 1

"""The checker finds nothing wrong with a history that is right, and each way of spoiling one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noctaya.api.names import SHARD_COUNT
from noctaya.workers.audit import Fenced, Mapped, Sent, Started, Stood, Stopped, Told, Wrote
from tests.chaos import bounds, figures
from tests.chaos.checker import check
from tests.chaos.history import (
    Applied,
    Bounds,
    FaultBegan,
    FaultEnded,
    Heard,
    LeaderWritten,
    MapWritten,
    MemberWritten,
    Process,
    Recorded,
    Slept,
    StoryEnded,
    Truth,
)
from tests.chaos.made_up import FLEET, SERVICES, MadeUp

Spoil = Callable[[MadeUp], None]
SEEDS = st.integers(0, 2**32)
FEW = settings(max_examples=8, deadline=None)
ONE = SERVICES[0]


def rules(run: MadeUp) -> set[str]:
    return {violation.rule for violation in check(run.lines, run.events)}


@FEW
@given(seed=SEEDS, steps=st.integers(1, 30))
def test_a_history_that_is_right_has_no_violation(seed: int, steps: int) -> None:
    run = MadeUp(seed).some_steps(steps)
    assert check(run.lines, run.events) == []
    assert bounds.broken(run.lines, run.events) == []


# -- spoiling ----------------------------------------------------------------------------------------------------------------


def late_effect(of: type) -> Spoil:
    """The former owner acts once more, after the next one has begun."""

    def spoil(run: MadeUp) -> None:
        by, shard, epoch = run.owner(ONE)
        run.hand_over(shard)
        lines: dict[type, Any] = {
            Wrote: Wrote(at=run.tick(), by=by, shard=shard, epoch=epoch, what="apply"),
            Sent: Sent(at=run.tick(), by=by, shard=shard, epoch=epoch, version=9, to="g", permission="act"),
            Started: Started(at=run.tick(), by=by, shard=shard, epoch=epoch),
            Told: told(run, by=by, shard=shard, epoch=epoch, value=4, demand="known", seen=4),
        }
        run.lines.append(lines[of])

    return spoil


def one_epoch_of_two(run: MadeUp) -> None:
    by, shard, epoch = run.owner(ONE)
    stranger = next(one for one in run.pods.values() if one != by)
    run.lines.append(Wrote(at=run.tick(), by=stranger, shard=shard, epoch=epoch, what="apply"))


def effect_of_nobody(run: MadeUp) -> None:
    _, shard, epoch = run.owner(ONE)
    run.lines.append(Wrote(at=run.tick(), by="", shard=shard, epoch=epoch + 1, what="apply"))


def record_without_an_epoch(run: MadeUp) -> None:
    by, shard, epoch = run.owner(ONE)
    other = next(one for one in run.pods.values() if one != by)
    run.events.append(Recorded(at=run.tick(), shard=shard, holder=other, epoch=epoch))


def leader_without_an_epoch(run: MadeUp) -> None:
    epoch = run.map.leader_epoch
    run.events.append(LeaderWritten(at=run.tick(), holder="w9_uid_1", epoch=epoch))


def leader_that_goes_back(run: MadeUp) -> None:
    epoch = run.map.leader_epoch
    run.events.append(LeaderWritten(at=run.tick(), holder="w9_uid_1", epoch=epoch - 1))


def map_of_before(run: MadeUp) -> None:
    former = run.map
    run.plan(run.map.desired)
    run.events.append(MapWritten(at=run.tick(), fleet=FLEET, data=former.data()))


def map_of_an_older_leader(run: MadeUp) -> None:
    data = run.map.data() | {"generation": str(run.map.generation + 1), "leaderEpoch": "1"}
    run.events.append(MapWritten(at=run.tick(), fleet=FLEET, data=data))


def map_with_a_hole(run: MadeUp) -> None:
    data = dict(run.map.data())
    desired = msgspec.json.decode(data["desired"])
    del desired["7"]
    data["desired"] = msgspec.json.encode(desired).decode()
    run.events.append(MapWritten(at=run.tick(), fleet=FLEET, data=data))


def config_of_before(run: MadeUp) -> None:
    _, shard, epoch = run.owner(ONE)
    run.events.append(
        Applied(at=run.tick(), gateway="g0", boot="g0-1", fleet=FLEET, shard=shard, epoch=epoch, version=0)
    )


def fleet_of_before(run: MadeUp) -> None:
    for fleet in ("fleet-2", FLEET):
        run.events.append(
            Applied(at=run.tick(), gateway="g0", boot="g0-1", fleet=fleet, shard=0, epoch=99, version=1)
        )


def told(run: MadeUp, **changes: Any) -> Told:
    by, shard, epoch = run.owner(ONE)
    line = Told(
        at=run.tick(), by=by, shard=shard, epoch=epoch, service=ONE, about="demand", permission="act", value=1
    )
    return msgspec.structs.replace(line, **changes)


def answer(**changes: Any) -> Spoil:
    return lambda run: run.lines.append(told(run, **changes))


def less_than_the_last_valid_answer(run: MadeUp) -> None:
    run.lines.append(told(run, value=7, demand="known", seen=7))
    run.lines.append(told(run, permission="grow", value=5, demand="known", seen=5))


def waited(run: MadeUp, seconds: float = 4.0) -> None:
    run.arrive(ONE, 0)
    run.arrive(ONE, 2)
    run.now += seconds


def zero_while_somebody_waits(run: MadeUp) -> None:
    waited(run)
    run.lines.append(told(run, value=0, demand="known"))


def no_while_somebody_waits(run: MadeUp) -> None:
    waited(run)
    run.lines.append(told(run, about="active", value=0, demand="known"))


def zero_heard_while_somebody_waits(run: MadeUp) -> None:
    waited(run)
    run.events.append(
        Heard(at=run.tick(), asked_at=run.now, worker="w1", service=ONE, about="demand", value=0)
    )


def put_to_sleep_while_somebody_waits(run: MadeUp) -> None:
    waited(run)
    run.events.append(Slept(at=run.tick(), service=ONE))


def zero_long_after_reports_were_slow(run: MadeUp) -> None:
    run.events.append(FaultBegan(at=run.tick(), name="stop", slows_reports=True))
    waited(run, 13.0)
    run.events.append(FaultEnded(at=run.tick(), name="stop"))
    run.lines.append(told(run, value=0, demand="known"))


def fence_without_a_claim(run: MadeUp) -> None:
    by, epoch = run.pods["w1"], run.map.leader_epoch + 1
    run.lines.append(
        Fenced(at=run.tick(), by=by, epoch=epoch, pod="w2", incarnation=run.pods["w2"], is_proven=False)
    )


def map_by_a_former_leader(run: MadeUp) -> None:
    run.lines.append(
        Mapped(at=run.tick(), by=run.pods["w2"], epoch=run.map.leader_epoch - 1, generation=999, reason="")
    )


def shard_that_nobody_acts_for(run: MadeUp) -> None:
    by, shard, epoch = run.owner(ONE)
    run.lines.append(Stopped(at=run.tick(), by=by, shard=shard, epoch=epoch))


def shard_that_nobody_holds(run: MadeUp) -> None:
    _, shard, epoch = run.owner(ONE)
    run.events.append(Recorded(at=run.tick(), shard=shard, holder="", epoch=epoch + 1))


def owner_that_is_not_ready(run: MadeUp) -> None:
    run.events.append(MemberWritten(at=run.tick(), pod="w1", holder=run.pods["w1"], state="Draining"))


def shares_that_differ(run: MadeUp) -> None:
    for shard in run.shards_of("w2")[:2]:
        _, epoch = run.owners[shard]
        run.lines.append(Stopped(at=run.tick(), by=run.pods["w2"], shard=shard, epoch=epoch))
        run.take(shard, "w0")


SPOILED: dict[str, list[Spoil]] = {
    "I1": [
        late_effect(Wrote), late_effect(Sent), late_effect(Told), late_effect(Started), one_epoch_of_two,
        effect_of_nobody,
    ],
    "I2": [
        record_without_an_epoch, leader_without_an_epoch, leader_that_goes_back, map_of_before,
        map_of_an_older_leader,
    ],
    "I3": [map_with_a_hole],
    "I4": [config_of_before, fleet_of_before],
    "I5": [
        answer(value=0, demand="unknown"),
        answer(value=0, demand="at_least", seen=0),
        answer(value=0, demand="known", permission="grow"),
        answer(value=0, permission="none"),
        answer(value=0, demand="unknown", about="active"),
        answer(value=2, demand="at_least", seen=3),
        less_than_the_last_valid_answer,
        zero_while_somebody_waits,
        no_while_somebody_waits,
        zero_heard_while_somebody_waits,
        put_to_sleep_while_somebody_waits,
        zero_long_after_reports_were_slow,
    ],
    "F13": [fence_without_a_claim, map_by_a_former_leader],
    "I6": [shard_that_nobody_acts_for, shard_that_nobody_holds, owner_that_is_not_ready, shares_that_differ],
}  # fmt: skip
CASES = [(rule, number) for rule, spoils in SPOILED.items() for number in range(len(spoils))]


@FEW
@given(seed=SEEDS, steps=st.integers(1, 12))
@pytest.mark.parametrize(("rule", "number"), CASES)
def test_each_way_of_spoiling_a_history_is_found(rule: str, number: int, seed: int, steps: int) -> None:
    run = MadeUp(seed).some_steps(steps)
    SPOILED[rule][number](run)
    assert rule in rules(run.finish())


def test_a_story_after_which_the_fleet_is_not_whole_is_a_violation() -> None:
    run = MadeUp(1)
    run.events.append(StoryEnded(at=run.tick(), name="x", last_fault_at=run.now, is_settled=False, alive=()))
    assert rules(run) == {"I6"}


# -- what is no violation ----------------------------------------------------------------------------------------------------


def test_a_short_wait_is_forgiven_and_a_longer_one_while_reports_are_slow() -> None:
    run = MadeUp(1)
    waited(run, 1.0)
    run.lines.append(told(run, value=0, demand="known"))
    run.events.append(FaultBegan(at=run.tick(), name="stop", slows_reports=True))
    run.now += 5.0
    run.lines.append(told(run, value=0, demand="known"))
    run.events.append(FaultEnded(at=run.tick(), name="stop"))
    assert rules(run.finish()) == set()


def test_a_request_that_ends_here_as_another_begins_there_makes_no_long_wait() -> None:
    run = MadeUp(1)
    run.arrive(ONE, 1)
    run.now += 60.0
    run.events.append(Truth(at=run.tick(), gateway="g1", service=ONE, pending=1))
    run.arrive(ONE, 0)
    run.lines.append(told(run, value=0, demand="known"))
    assert rules(run.finish()) == set()


def test_a_no_that_was_asked_for_while_somebody_waited_and_told_afterwards_is_right() -> None:
    run = MadeUp(1)
    waited(run, 9.0)
    asked_at = run.tick()
    run.arrive(ONE, 0)
    run.events.append(
        Heard(at=run.tick(), asked_at=asked_at, worker="w1", service=ONE, about="demand", value=0)
    )
    assert rules(run.finish()) == set()


def test_degraded_a_former_owner_may_say_yes_and_repeat_what_it_sent() -> None:
    run = MadeUp(1)
    by, shard, epoch = run.owner(ONE)
    run.hand_over(shard)
    run.lines.append(told(run, by=by, epoch=epoch, permission="grow", value=3, demand="known", seen=3))
    run.lines.append(
        Sent(at=run.tick(), by=by, shard=shard, epoch=epoch, version=1, to="g0-1", permission="grow")
    )
    assert rules(run.finish()) == set()


def test_what_the_harness_wrote_by_hand_is_nobodys_violation() -> None:
    run = MadeUp(1)
    for data in ({"desired": "{"}, run.map.data() | {"generation": "1"}):
        run.events.append(MapWritten(at=run.tick(), fleet=FLEET, data=data, by_hand=True))
    run.plan(run.map.desired)
    assert rules(run.finish()) == set()


# -- promises ----------------------------------------------------------------------------------------------------------------


def promised(promise: Bounds, deeds: Spoil) -> list[str]:
    """What of `promise` `deeds` break."""
    run = MadeUp(3)
    run.begin("made-up", promise)
    deeds(run)
    run.finish()
    return [violation.what for violation in bounds.broken(run.lines, run.events)]


def slowly_restarted(run: MadeUp) -> None:
    at = run.tick()
    run.events.append(Process(at=at, pod="w1", number=1, what="kill"))
    run.now += 5.0
    run.join("w1")
    for shard in run.shards_of("w1"):
        run.take(shard, "w1")


def never_taken(run: MadeUp) -> None:
    run.events.append(Process(at=run.tick(), pod="w1", number=1, what="kill"))


def slowly_handed_over(run: MadeUp) -> None:
    shard = run.shards_of("w1")[0]
    run.lines.append(Stopped(at=run.tick(), by=run.pods["w1"], shard=shard, epoch=run.owners[shard][1]))
    run.now += 2.0
    run.take(shard, "w2")


def slow_exit(run: MadeUp) -> None:
    run.events.append(Process(at=run.tick(), pod="w1", number=1, what="terminate"))
    run.now += 3.0
    run.events.append(Process(at=run.tick(), pod="w1", number=1, what="exit"))


def slowly_back(run: MadeUp) -> None:
    run.events.append(Process(at=run.tick(), pod="w1", number=1, what="continue"))
    run.now += 3.0
    run.join("w1")


def flapping(run: MadeUp) -> None:
    for standing in ("grow", "act", "grow", "act"):
        run.lines.append(Stood(at=run.tick(), by=run.pods["w1"], standing=standing))


def never_back(run: MadeUp) -> None:
    run.events.append(Process(at=run.tick(), pod="w1", number=1, what="continue"))


def slow_answer(run: MadeUp) -> None:
    run.events.append(
        Heard(at=run.now + 3.0, asked_at=run.now, worker="w1", service=ONE, about="demand", value=1)
    )
    run.now += 4.0


def many_renewals(run: MadeUp) -> None:
    for _ in range(20):
        run.events.append(MemberWritten(at=run.tick(1.0), pod="w1", holder=run.pods["w1"], state="Ready"))


@pytest.mark.parametrize(
    ("promise", "deeds"),
    [
        (Bounds(no_handover=True), lambda run: run.hand_over(5)),
        (Bounds(no_fence=True), lambda run: run.restart("w1")),
        (Bounds(takeover=4.0), slowly_restarted),
        (Bounds(takeover=4.0), never_taken),
        (Bounds(gap=1.0), slowly_handed_over),
        (Bounds(exit=2.0), slow_exit),
        (Bounds(comes_back=2.0), slowly_back),
        (Bounds(comes_back=2.0), never_back),
        (Bounds(falls=1), flapping),
        (Bounds(moves=1), lambda run: run.hand_over(5)),
        (Bounds(moves_a_round=1), lambda run: run.hand_over(5)),
        (Bounds(answers_within=2.0), slow_answer),
        (Bounds(lease_writes=0.5), many_renewals),
    ],
    ids=lambda value: next(iter(msgspec.structs.asdict(value))) if isinstance(value, Bounds) else "",
)
def test_a_promise_that_is_broken_is_told_and_one_that_is_kept_is_not(promise: Bounds, deeds: Spoil) -> None:
    assert promised(promise, deeds)
    assert promised(promise, lambda run: run.ask(ONE)) == []
    generous = Bounds(
        takeover=60, gap=60, exit=60, comes_back=60, falls=60, moves=SHARD_COUNT, moves_a_round=SHARD_COUNT, answers_within=60,
        lease_writes=60,
    )  # fmt: skip
    if deeds not in (never_taken, never_back):
        assert promised(generous, deeds) == []


# -- figures -----------------------------------------------------------------------------------------------------------------


def test_figures_tell_what_was_made_up() -> None:
    run = MadeUp(3)
    begun = run.now
    slowly_restarted(run)
    slowly_handed_over(run)
    many_renewals(run)
    (takeover,) = figures.takeovers(run.lines, run.events)
    assert takeover.is_in_place
    assert len(takeover.seconds) in (42, 43)
    assert 5.0 < max(takeover.seconds) < 8.0
    graceful = [gap.seconds for gap in figures.gaps(run.lines) if gap.is_graceful]
    assert [round(seconds) for seconds in graceful] == [2]
    crashes = [gap for gap in figures.gaps(run.lines) if not gap.is_graceful]
    assert {gap.giver for gap in crashes} == {"w1"}
    writes = figures.lease_writes(run.events, begun, run.tick())
    assert writes["w1"] == pytest.approx(21 / (run.now - begun), rel=0.01)
    assert figures.moves(run.events, begin=0.0) == []
    run.hand_over(5)
    assert figures.moves(run.events, begin=0.0) == [2]


def test_percentiles_are_values_that_were_there() -> None:
    assert figures.percentile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert figures.percentile([1.0], 0.99) == 1.0
    assert figures.percentile(list(map(float, range(1, 101))), 0.95) == 95.0
    assert str(figures.percentile([], 0.5)) == "nan"

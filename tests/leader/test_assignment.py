"""Assignment: everybody's share, no more moves than that needs, and each rule missed when it is gone."""

from __future__ import annotations

import random
import statistics
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from noctaya.api.names import SHARD_COUNT
from noctaya.leader import assignment
from noctaya.leader.assignment import Assignment, Candidate, Role, assign, shares
from noctaya.leader.explanation import explain, forecast
from noctaya.leader.rendezvous import best_for_shard, ranked, score

Owners = Mapping[int, str | None]


def workers(count: int, start: int = 0, **changes: object) -> list[Candidate]:
    return [Candidate(f"w{index}", **changes) for index in range(start, start + count)]  # type: ignore[arg-type]


def owners_of(plan: Assignment) -> dict[int, str | None]:
    return dict(enumerate(plan.owners))


def level(candidates: Sequence[Candidate]) -> dict[int, str | None]:
    return owners_of(assign({}, candidates))


def spread(plan: Assignment) -> int:
    held = [plan.counts().get(pod, 0) for pod in plan.shares]
    return max(held) - min(held)


def fewest_moves(previous: Owners, candidates: Sequence[Candidate]) -> int:
    """How many moves no plan can do without: orphans, and what is above or below the shares beyond them."""
    roles = {worker.pod: worker.role for worker in candidates}
    keeping = [owner for owner in previous.values() if roles.get(owner or "") in (Role.OPEN, Role.CORDONED)]
    orphans = SHARD_COUNT - len(keeping)
    kept = sum(roles[owner or ""] is Role.CORDONED for owner in keeping)
    held = {pod: keeping.count(pod) for pod, role in roles.items() if role is Role.OPEN}
    bounds = shares(candidates, SHARD_COUNT - kept)
    over = sum(max(held[pod] - share.ceiling, 0) for pod, share in bounds.items())
    extra = SHARD_COUNT - kept - sum(share.floor for share in bounds.values())
    at_ceiling = sum(held[pod] > share.floor for pod, share in bounds.items())
    under = sum(max(share.floor - held[pod], 0) for pod, share in bounds.items())
    return orphans + max(over, over + max(at_ceiling - extra, 0), under - orphans)


FLEETS = st.lists(
    st.builds(
        Candidate,
        pod=st.integers(0, 30).map(lambda index: f"w{index}"),
        role=st.sampled_from([Role.OPEN, Role.OPEN, Role.OPEN, Role.CORDONED, Role.DONOR]),
        weight=st.sampled_from([1.0, 1.0, 0.5, 2.0, 3.7]),
        version=st.sampled_from(["1", "2"]),
    ),
    max_size=14,
    unique_by=lambda worker: worker.pod,
)


@settings(deadline=None, max_examples=50)
@given(FLEETS, st.integers(0, 2**32), st.integers(0, 1), st.sampled_from([None, "1", "2"]), st.booleans())
def test_every_shard_has_exactly_one_owner_and_nobody_moves_for_nothing(
    fleet: list[Candidate], seed: int, slack: int, newest: str | None, is_balancing: bool
) -> None:
    rng = random.Random(seed)
    names = [None, "gone", *(worker.pod for worker in fleet)]
    previous: dict[int, str | None] = {shard: rng.choice(names) for shard in range(SHARD_COUNT)}
    plan = assign(previous, fleet, slack=slack, newest=newest, is_balancing=is_balancing)
    roles = {worker.pod: worker.role for worker in fleet}
    if not any(role is Role.OPEN for role in roles.values()):
        assert all(
            owner == (previous[shard] if previous[shard] in roles else None)
            for shard, owner in enumerate(plan.owners)
        )
        return
    assert all(roles[owner or ""] is not Role.DONOR for owner in plan.owners), "I3"
    for shard, owner in enumerate(plan.owners):
        before = previous[shard]
        if owner != before and before in roles:
            assert roles[before] is not Role.CORDONED, "a cordoned worker keeps what it has"
            assert is_balancing or roles[before] is Role.DONOR, "nobody asked for a move"
        if owner != before and owner is not None:
            assert roles[owner] is Role.OPEN, "only an open worker receives"
    if is_balancing:
        counts = plan.counts()
        assert all(
            share.floor - slack <= counts.get(pod, 0) <= share.ceiling + slack
            for pod, share in plan.shares.items()
        )
    if is_balancing and slack == 0 and newest is None:
        assert len(plan.moves_from(previous)) <= fewest_moves(previous, fleet), "I7"
    again = assign(owners_of(plan), fleet, slack=slack, newest=newest, is_balancing=is_balancing)
    assert again.owners == plan.owners, "a plan that was carried out changes nothing more"


class Fleet(RuleBasedStateMachine):
    """Workers come and go; the plan follows every change with as few moves as there can be (I3, I7)."""

    def __init__(self) -> None:
        super().__init__()
        self.fleet: dict[str, Candidate] = {}
        self.owners: dict[int, str | None] = {}
        self.born = 0
        self.version = 1

    @rule()
    def join(self) -> None:
        if len(self.fleet) < 12:
            self._join()
            self._plan()

    @precondition(lambda self: len(self.fleet) > 1)
    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        lost = data.draw(st.sampled_from(sorted(self.fleet)))
        was_level = self._is_level()
        orphans = sum(owner == lost for owner in self.owners.values())
        del self.fleet[lost]
        moved = self._plan(slack=1)
        if was_level:
            assert moved == orphans, "a crash moves what was lost and nothing else"
        self._plan()

    @precondition(lambda self: len(self.fleet) > 1)
    @rule(data=st.data())
    def drain(self, data: st.DataObject) -> None:
        leaving = data.draw(st.sampled_from(sorted(self.fleet)))
        had = sum(owner == leaving for owner in self.owners.values())
        was_level = self._is_level()
        self._change(leaving, role=Role.DONOR)
        moved = self._plan()
        if was_level:
            assert moved == had
        assert leaving not in self.owners.values()
        del self.fleet[leaving]

    @precondition(lambda self: bool(self.fleet))
    @rule(data=st.data(), weight=st.sampled_from([0.5, 1.0, 2.0]))
    def weigh(self, data: st.DataObject, weight: float) -> None:
        self._change(data.draw(st.sampled_from(sorted(self.fleet))), weight=weight)
        self._plan()

    @precondition(lambda self: bool(self.fleet))
    @rule()
    def roll_out(self) -> None:
        """Every worker is replaced by one of a new version, one after the other."""
        self.version += 1
        before = dict(self.owners)
        old = sorted(self.fleet)
        moves = dict.fromkeys(range(SHARD_COUNT), 0)
        was_level = self._is_level() and self._is_even()
        for pod in old:
            self._join()
            self._change(pod, role=Role.DONOR)
            plan = assign(
                self.owners, list(self.fleet.values()), newest=str(self.version), is_balancing=False
            )
            for shard in plan.moves_from(self.owners):
                moves[shard] += 1
            self.owners = owners_of(plan)
            del self.fleet[pod]
        if was_level:
            assert set(moves.values()) == {1}, "F15: each shard moves once"
        assert all(self.owners[shard] != before[shard] for shard in before)
        self._plan()

    @invariant()
    def every_shard_has_one_living_owner_within_its_share(self) -> None:
        if not self.fleet or not self.owners:
            return
        assert set(self.owners) == set(range(SHARD_COUNT))
        assert set(self.owners.values()) <= set(self.fleet)
        assert self._is_level()

    def _join(self) -> None:
        self.born += 1
        pod = f"w{self.born}"
        self.fleet[pod] = Candidate(pod, version=str(self.version))

    def _change(self, pod: str, **changes: object) -> None:
        worker = self.fleet[pod]
        fields = {
            "role": worker.role,
            "weight": worker.weight,
            "version": worker.version,
            **changes,
        }
        self.fleet[pod] = Candidate(pod, **fields)  # type: ignore[arg-type]

    def _plan(self, slack: int = 0) -> int:
        fleet = list(self.fleet.values())
        plan = assign(self.owners, fleet, slack=slack)
        moves = len(plan.moves_from(self.owners))
        if slack == 0:
            assert moves <= fewest_moves({s: self.owners.get(s) for s in range(SHARD_COUNT)}, fleet)
        self.owners = owners_of(plan)
        return moves

    def _is_level(self) -> bool:
        held = list(self.owners.values())
        return bool(self.owners) and all(
            share.floor <= held.count(pod) <= share.ceiling
            for pod, share in shares(list(self.fleet.values()), SHARD_COUNT).items()
        )

    def _is_even(self) -> bool:
        return len({worker.weight for worker in self.fleet.values()}) == 1


TestFleet = Fleet.TestCase
TestFleet.settings = settings(max_examples=12, stateful_step_count=15, deadline=None)


# --- figures -----------------------------------------------------------------------------------------------------------------


def test_from_three_to_ten_and_back_moves_what_the_newcomers_need_and_no_more() -> None:
    """Rendezvous alone would move 128 * 7/10 = 89.6 on average, and leave the fullest with twice the emptiest's."""
    three = level(workers(3))
    ten = assign(three, workers(10))
    newcomers = sum(ten.counts()[f"w{index}"] for index in range(3, 10))
    assert len(ten.moves_from(three)) == newcomers
    assert newcomers <= SHARD_COUNT * 7 / 10
    assert spread(ten) <= 1
    leaving = [*workers(3), *workers(7, start=3, role=Role.DONOR)]
    back = assign(owners_of(ten), leaving)
    assert len(back.moves_from(owners_of(ten))) == newcomers
    assert spread(back) <= 1


def test_a_crash_of_one_of_ten_moves_what_it_had_and_nothing_else() -> None:
    ten = level(workers(10))
    for lost in range(10):
        rest = [worker for worker in workers(10) if worker.pod != f"w{lost}"]
        plan = assign(ten, rest, slack=1)
        assert len(plan.moves_from(ten)) == sum(owner == f"w{lost}" for owner in ten.values())
        assert spread(plan) <= 1


def test_a_shard_goes_to_its_first_choice_as_long_as_there_is_room() -> None:
    plan = assign({}, workers(8))
    pods = [worker.pod for worker in workers(8)]
    firsts = sum(owner == best_for_shard(shard, pods) for shard, owner in enumerate(plan.owners))
    by_chance = SHARD_COUNT / 8
    assert firsts > 4 * by_chance


def test_the_same_fleet_has_the_same_plan_in_whatever_order_it_is_told() -> None:
    forward, backward = workers(7), list(reversed(workers(7)))
    assert assign({}, forward) == assign({}, backward)


def test_twice_the_weight_gets_twice_the_shards() -> None:
    plan = assign({}, [Candidate("small"), Candidate("big", weight=2.0), Candidate("little", weight=1.0)])
    assert plan.counts() == {"small": 32, "big": 64, "little": 32}


def test_a_cordoned_worker_keeps_what_it_has_and_the_others_share_the_rest() -> None:
    three = level(workers(3))
    fleet = [Candidate("w0", Role.CORDONED), *workers(2, start=1), Candidate("w9")]
    plan = assign(three, fleet)
    assert plan.counts()["w0"] == sum(owner == "w0" for owner in three.values())
    assert spread(plan) <= 1


def test_nobody_who_may_receive_means_that_everybody_keeps() -> None:
    three = level(workers(3))
    donors = workers(3, role=Role.DONOR)
    assert owners_of(assign(three, donors)) == three
    lost = assign(three, donors[:2])
    assert {lost.owners[shard] for shard, owner in three.items() if owner == "w2"} == {None}


def test_more_workers_than_shards_share_one_each() -> None:
    plan = assign({}, workers(200))
    assert set(plan.counts().values()) == {1}


# --- mutants: a rule switched off is missed ---------------------------------------------------------------------------------


def rolling_update(newest: str | None, *, is_balancing: bool) -> int:
    """Moves in a rolling update of ten, one surplus worker at a time."""
    fleet = {worker.pod: worker for worker in workers(10, version="1")}
    owners = level(list(fleet.values()))
    moves = 0
    for index in range(10):
        fleet[f"n{index}"] = Candidate(f"n{index}", version="2")
        for role in (Role.OPEN, Role.DONOR):  # the newcomer is ready a while before the old one is told to go
            fleet[f"w{index}"] = Candidate(f"w{index}", role, version="1")
            plan = assign(owners, list(fleet.values()), newest=newest, is_balancing=is_balancing)
            moves += len(plan.moves_from(owners))
            owners = owners_of(plan)
        del fleet[f"w{index}"]
    return moves


def test_a_rolling_update_moves_each_shard_once_and_needs_both_of_its_rules_for_that() -> None:
    assert rolling_update("2", is_balancing=False) == SHARD_COUNT
    assert rolling_update(None, is_balancing=False) > SHARD_COUNT
    assert rolling_update("2", is_balancing=True) > SHARD_COUNT
    assert rolling_update(None, is_balancing=True) > 1.5 * SHARD_COUNT


def test_without_stickiness_a_join_moves_more(monkeypatch: pytest.MonkeyPatch) -> None:
    nine = level(workers(9))
    sticky = len(assign(nine, workers(10)).moves_from(nine))
    monkeypatch.setattr(assignment._Plan, "_keeper", lambda self, owner: None)
    assert len(assign(nine, workers(10)).moves_from(nine)) > sticky


def test_without_levelling_a_newcomer_stays_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    nine = level(workers(9))
    monkeypatch.setattr(assignment._Plan, "_balance", lambda self, slack: None)
    assert "w9" not in assign(nine, workers(10)).counts()


def test_slack_leaves_in_peace_who_is_a_little_above_its_share() -> None:
    """Right after a crash; the emptiest is then one below the fullest's floor at most."""
    uneven = level(workers(4))
    moved = next(shard for shard, owner in uneven.items() if owner == "w0")
    uneven[moved] = "w1"  # 31, 33, 32, 32
    assert assign(uneven, workers(4), slack=1).moves_from(uneven) == []
    assert len(assign(uneven, workers(4), slack=0).moves_from(uneven)) == 1


# --- rendezvous, and answers for people -------------------------------------------------------------------------------------


def test_scores_are_the_same_for_ever() -> None:
    """They rank workers of different versions side by side."""
    assert score("17", "w0") == 0xBCBEF94C9651C358


def test_a_name_that_goes_changes_only_who_had_it_first() -> None:
    names = [f"w{index}" for index in range(6)]
    for key in map(str, range(50)):
        before = ranked(key, names)
        after = ranked(key, [name for name in names if name != before[3]])
        assert after == [name for name in before if name != before[3]]


def test_rendezvous_is_fair() -> None:
    names = [f"w{index}" for index in range(4)]
    firsts = [ranked(str(key), names)[0] for key in range(4000)]
    counts = [firsts.count(name) for name in names]
    assert statistics.pstdev(counts) < 4 * (4000 * 0.25 * 0.75) ** 0.5


def test_why_says_where_a_shard_is_and_where_it_goes() -> None:
    three = level(workers(3))
    lost = next(shard for shard, owner in three.items() if owner == "w2")
    kept = next(shard for shard, owner in three.items() if owner == "w0")
    stays = explain(kept, three, workers(3))
    assert (stays.owner, stays.planned) == ("w0", "w0")
    assert "stays with w0" in stays.because
    goes = explain(lost, three, workers(2))
    assert goes.owner == "w2"
    assert goes.planned in ("w0", "w1")
    assert "w2 is gone" in goes.because
    assert [each.score for each in goes.preferences] == sorted(
        (each.score for each in goes.preferences), reverse=True
    )
    emptied = explain(lost, three, [*workers(2), Candidate("w2", Role.DONOR)])
    assert "w2 is to be emptied" in emptied.because
    alone = explain(lost, three, [Candidate("w2", Role.DONOR)])
    assert "nobody may receive" in alone.because
    assert "no worker is ready" in explain(0, {}, []).because
    moved = assign(three, workers(4)).moves_from(three)[0]
    assert "more than its share" in explain(moved, three, workers(4)).because


def test_a_forecast_tells_the_moves_that_would_happen() -> None:
    three = level(workers(3))
    more = forecast(three, workers(3), 10)
    assert sorted(more.counts.values()) == [12, 12, *[13] * 8]
    assert more.moves == sum(held for pod, held in more.counts.items() if pod.startswith("new-"))
    fewer = forecast(three, workers(3), 1)
    assert list(fewer.counts.values()) == [SHARD_COUNT]
    assert forecast(three, workers(3), 3).moves == 0
    assert forecast({}, [], 0).counts == {}

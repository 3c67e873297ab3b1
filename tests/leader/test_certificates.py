"""What the leader writes into the certificate Secrets, and that nobody is ever refused for it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from noctaya.leader.certificate_views import (
    AuthoritySeen,
    Certificate,
    LeafSeen,
    MakeAuthority,
    MakeNext,
    Promote,
    WriteLeaf,
)
from noctaya.leader.certificates import BACKDATE, Certificates, CertificateTiming
from noctaya.leader.errors import CertificateTimingRefused
from noctaya.wire.identity import Role
from tests.leader.certificate_world import TIMING, Held, World


def founded(**holders: object) -> World:
    world = World(**holders)  # type: ignore[arg-type]
    world.look()
    return world


def kinds(world: World) -> list[str]:
    return [type(action).__name__ for action in world.written]


def leaf(world: World, role: Role) -> LeafSeen:
    found = world.leaves[role]
    assert found is not None
    return found


# -- the steps ---------------------------------------------------------------------------------------------------------


def test_a_new_fleet_gets_a_ca_and_two_leaves_at_once() -> None:
    world = founded()
    assert kinds(world) == ["MakeAuthority", "WriteLeaf", "WriteLeaf"]
    assert {role: leaf(world, role).bundle for role in Role} == dict.fromkeys(Role, (world.current,))
    assert [leaf(world, role).issuer for role in Role] == [world.current] * 2


def test_nothing_is_written_while_nothing_is_due() -> None:
    world = founded()
    before = len(world.written)
    world.run(TIMING.leaf * TIMING.renew_at - 20)
    assert len(world.written) == before


def test_a_leaf_is_renewed_at_two_thirds_of_its_life_under_the_same_ca() -> None:
    world = founded()
    first = world.current
    world.run(TIMING.leaf * TIMING.renew_at + 20)
    assert kinds(world)[3:] == ["WriteLeaf", "WriteLeaf"]
    assert world.current == first
    assert not world.expired()


def test_a_ca_is_replaced_in_five_steps_with_the_overlap_between_them() -> None:
    world = founded(workers=(0.0, 99.0), gateways=(50.0, 99.0))
    first = world.current
    times = dict[str, float]()
    while world.now < 1_000_000 + TIMING.authority:
        before = len(world.written)
        world.run(10.0)
        for action in world.written[before:]:
            times[type(action).__name__] = world.now
            if isinstance(action, WriteLeaf) and first not in action.bundle:
                times.setdefault("dropped", world.now)
            elif isinstance(action, WriteLeaf) and world.current != first:
                times.setdefault("issued", world.now)
            elif isinstance(action, WriteLeaf) and len(action.bundle) == 2:
                times.setdefault("bundled", world.now)
    assert times["MakeNext"] <= times["bundled"]
    assert times["bundled"] + TIMING.overlap <= times["Promote"] <= times["issued"]
    assert times["issued"] + TIMING.overlap <= times["dropped"]
    assert {leaf(world, role).bundle for role in Role} == {(world.current,)}
    assert world.current != first


@pytest.mark.parametrize("writes", range(9))
def test_any_leader_goes_on_where_another_one_died(writes: int) -> None:
    """It dies after each number of writes in turn, and the next one needs the overlap again, no more."""
    world = World()
    world.look(writes_lost_after=writes)
    world.run(TIMING.authority * TIMING.renew_at + 10)
    world.look(writes_lost_after=writes % 3)
    world.new_leader()
    world.run(3 * TIMING.overlap + 40)
    assert {leaf(world, role).issuer for role in Role} == {world.current}
    assert {leaf(world, role).bundle for role in Role} == {(world.current,)}
    assert not world.expired()


def test_a_leader_that_did_not_look_for_long_trusts_nothing_that_it_saw_before() -> None:
    world = founded()
    world.run(TIMING.authority * TIMING.renew_at + 20)
    world.run(TIMING.overlap / 2)
    assert "MakeNext" in kinds(world)
    world.pass_time(TIMING.overlap)
    world.look()
    assert "Promote" not in kinds(world)
    world.run(TIMING.overlap + 20)
    assert "Promote" in kinds(world)


# -- the property ------------------------------------------------------------------------------------------------------

LATE = st.lists(st.floats(0.0, TIMING.overlap - 1.0), min_size=1, max_size=3)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("run"), st.floats(1.0, 1200.0)),
        st.tuples(st.just("alone"), st.floats(1.0, 400.0)),
        st.tuples(st.just("dies"), st.integers(0, 3)),
        st.tuples(st.just("joins"), st.floats(0.0, TIMING.overlap - 1.0)),
        st.tuples(st.just("clock"), st.sampled_from([-3e6, -900.0, -60.0, 0.0, 60.0, 900.0, 3e6])),
        st.tuples(st.just("loses"), st.sampled_from([None, *Role])),
        st.tuples(st.just("spoils"), st.sampled_from([None, *Role])),
    ),
    max_size=15,
)


def act(world: World, what: str, value: object) -> None:
    if what == "run":
        world.run(float(value), step=7.0)  # type: ignore[arg-type]
    elif what == "alone":
        world.pass_time(float(value))  # type: ignore[arg-type]
    elif what == "dies":
        world.look(writes_lost_after=int(value))  # type: ignore[call-overload]
        world.new_leader()
    elif what == "joins":
        joining(world, float(value))  # type: ignore[arg-type]
    elif what == "clock":
        world.wall_error = float(value)  # type: ignore[arg-type]
    elif value is None:
        harm_authority(world, is_gone=what == "loses")
    else:
        assert isinstance(value, Role)
        harm_leaf(world, value, is_gone=what == "loses")


def joining(world: World, lateness: float) -> None:
    """A process starts with what its Secret holds now."""
    for role in Role:
        found = world.leaves[role]
        if found is not None:
            world.holders.append(Held(role, lateness, coming=[(world.now, found)]))


def is_whole(world: World) -> bool:
    return all(found is not None and found.leaf is not None for found in world.leaves.values())


def harm_authority(world: World, *, is_gone: bool) -> None:
    """Not while a role's Secret is lost too: with the CA's key, nobody could make it again in time."""
    if not is_whole(world):
        return
    if is_gone or world.authority is None:
        world.authority = None
    else:
        world.authority = replace(world.authority, version=world.authority.version + "x", current=None)


def harm_leaf(world: World, role: Role, *, is_gone: bool) -> None:
    """One at a time, and once it has been mended again before the next: nobody rebuilds trust from nothing."""
    if not is_whole(world):
        return
    if world.authority is None or world.authority.current is None:
        return
    if all(found.issuer != world.current for found in world.leaves.values() if found is not None):
        return
    if is_gone:
        world.leaves[role] = None
    else:
        found = leaf(world, role)
        world.put(role, replace(found, version=found.version + "x", leaf=None, issuer=""))
    world.look()


@settings(max_examples=100, deadline=None)
@given(LATE, LATE, STEPS)
def test_nobody_is_ever_refused(
    workers: list[float], gateways: list[float], steps: list[tuple[str, object]]
) -> None:
    """Whatever leaders, clocks and people do, every holder's leaf is under a CA that every other holder trusts (`World.check`)."""
    world = founded(workers=workers, gateways=gateways)
    for what, value in steps:
        act(world, what, value)
        world.check()


@settings(max_examples=30, deadline=None)
@given(LATE, LATE, st.lists(st.tuples(st.floats(1.0, 150.0), st.booleans()), max_size=15))
def test_with_true_clocks_and_a_leader_now_and_then_nothing_expires(
    workers: list[float], gateways: list[float], rests: list[tuple[float, bool]]
) -> None:
    world = founded(workers=workers, gateways=gateways)
    for seconds, changes in rests:
        if changes:
            world.new_leader()
        world.pass_time(seconds)
        assert not world.expired()
        world.run(TIMING.overlap + 3 * TIMING.look_every)
        assert not world.expired()


# -- each rule switched off, and what notices ---------------------------------------------------------------------------


class SignsBeforeAllTrustIt(Certificates):
    def _is_trusted(self, authority: str, now: float) -> bool:
        return authority in self._trusted


class DropsWhileLeavesAreUnderIt(Certificates):
    def _has_moved(self, authority: str, now: float) -> bool:
        return True


class DropsAsSoonAsLeavesAreWritten(Certificates):
    def _has_moved(self, authority: str, now: float) -> bool:
        return self._moved.value == authority


class BelievesWhatItSawBefore(Certificates):
    def forget(self) -> None:
        pass


@pytest.mark.parametrize(
    "core", [SignsBeforeAllTrustIt, DropsWhileLeavesAreUnderIt, DropsAsSoonAsLeavesAreWritten]
)
def test_a_core_without_a_rule_is_noticed(core: type[Certificates]) -> None:
    world = founded(workers=(90.0,), gateways=(5.0,))
    world.core = core(TIMING)
    with pytest.raises(AssertionError, match="refuses"):
        world.run(TIMING.authority)


def test_trusting_what_was_seen_before_a_gap_is_noticed() -> None:
    world = founded()
    world.core = BelievesWhatItSawBefore(TIMING)
    world.run(TIMING.authority * TIMING.renew_at + 20)
    world.pass_time(TIMING.overlap)
    world.look()
    assert "Promote" in kinds(world)  # what the test above on gaps forbids


# -- clocks ------------------------------------------------------------------------------------------------------------


def test_a_leader_whose_clock_is_years_ahead_makes_nothing_that_begins_in_the_future() -> None:
    world = founded()
    world.run(100.0)
    world.wall_error = 3e7
    world.run(4 * TIMING.overlap)
    assert "Promote" in kinds(world)
    begins = [leaf(world, role).leaf.begins for role in Role]  # type: ignore[union-attr]
    assert max(begins) <= 1_000_000.0 - BACKDATE


def test_a_leader_whose_clock_is_behind_the_secrets_makes_nothing_and_says_so() -> None:
    world = founded()
    world.leaves[Role.GATEWAY] = None
    world.wall_error = -BACKDATE - 1000.0
    (problem,) = world.look()
    assert "clock is behind" in problem
    assert world.leaves[Role.GATEWAY] is None


def test_a_clock_before_the_creation_of_the_secrets_is_behind_too() -> None:
    world = founded()
    seen = replace(
        world.seen(), newest_creation=world.now + 1000.0, leaves={**world.leaves, Role.GATEWAY: None}
    )
    plan = Certificates(TIMING).look(seen, world.now, world.now)
    assert not plan.actions
    assert "clock is behind" in plan.problems[0]


# -- garbage, and what others made --------------------------------------------------------------------------------------


def test_a_leaf_that_is_garbage_is_made_anew_at_once_under_the_same_ca() -> None:
    world = founded()
    world.run(50.0)
    before = world.current
    found = leaf(world, Role.GATEWAY)
    world.put(Role.GATEWAY, replace(found, version="garbage", leaf=None, issuer="", bundle=()))
    world.look()
    assert leaf(world, Role.GATEWAY).issuer == before == world.current
    assert leaf(world, Role.GATEWAY).bundle == (before,)


def test_a_ca_whose_key_is_lost_is_replaced_and_its_leaves_stay_trusted_for_the_overlap() -> None:
    world = founded()
    world.run(50.0)
    lost = world.current
    world.authority = None
    world.look()
    assert all(set(leaf(world, role).bundle) == {lost, world.current} for role in Role)
    assert all(leaf(world, role).issuer == lost for role in Role)
    world.run(2 * TIMING.overlap + 40)
    assert all(leaf(world, role).bundle == (world.current,) for role in Role)


def test_all_three_deleted_is_a_new_fleet_at_once() -> None:
    world = founded()
    world.holders.clear()
    world.authority, world.leaves = None, dict.fromkeys(Role)
    world.look()
    assert [leaf(world, role).issuer for role in Role] == [world.current] * 2


OTHERS = LeafSeen("7", False, Certificate("theirs", 0.0, 2_000_000.0), "their-ca", ("their-ca",))


def test_beside_somebody_elses_leaves_nothing_is_written() -> None:
    world = World()
    world.leaves = {Role.WORKER: OTHERS, Role.GATEWAY: OTHERS}
    assert world.look() == ()
    assert not world.written


def test_leaves_of_two_makers_are_a_problem_and_neither_is_touched() -> None:
    world = founded()
    before = len(world.written)
    world.leaves[Role.WORKER] = OTHERS
    (problem,) = world.look()
    assert "both roles' must come from the same CA" in problem
    assert len(world.written) == before


@pytest.mark.parametrize(
    ("theirs", "words"),
    [
        (replace(OTHERS, leaf=None), "cannot be used"),
        (replace(OTHERS, leaf=Certificate("t", 0.0, 5.0)), "expired"),
    ],
)
def test_somebody_elses_garbage_is_for_them_to_mend(theirs: LeafSeen, words: str) -> None:
    world = World()
    world.leaves = {Role.WORKER: theirs, Role.GATEWAY: OTHERS}
    (problem,) = world.look()
    assert words in problem
    assert not world.written


def test_somebody_elses_ca_signs_and_is_never_written() -> None:
    world = World()
    world.authority = AuthoritySeen("1", False, Certificate("company", 0.0, world.now + 5 * TIMING.authority))
    world.look()
    world.run(TIMING.authority)
    assert {leaf(world, role).issuer for role in Role} == {"company"}
    assert set(kinds(world)) == {"WriteLeaf"}
    assert not world.expired()


def test_somebody_elses_ca_that_is_exchanged_is_followed_without_a_refusal() -> None:
    world = World(workers=(99.0,), gateways=(0.0, 60.0))
    world.authority = AuthoritySeen("1", False, Certificate("company", 0.0, world.now + 5 * TIMING.authority))
    world.look()
    world.run(200.0)
    world.authority = AuthoritySeen(
        "2", False, Certificate("company-2", 0.0, world.now + 5 * TIMING.authority)
    )
    world.run(2 * TIMING.overlap + 40)
    assert {leaf(world, role).bundle for role in Role} == {("company-2",)}


def test_somebody_elses_broken_ca_is_a_problem_and_nothing_is_written() -> None:
    world = World()
    world.authority = AuthoritySeen("1", False, None, problem="tls.crt is no PEM certificate")
    (problem,) = world.look()
    assert "tls.crt is no PEM certificate" in problem
    assert not world.written


# -- settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [{"overlap": 0.0}, {"leaf": 1000.0}, {"authority": 30 * 86400.0}, {"renew_at": 1.0}, {"look_every": 0.0}],
)
def test_lifetimes_in_which_the_overlap_has_no_room_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(CertificateTimingRefused, match="NOCTAYA_TLS__"):
        CertificateTiming(**wrong)


def test_the_steps_are_in_the_order_of_their_names() -> None:
    """Read back: what a rotation wrote, once each, in this order."""
    world = founded()
    world.run(TIMING.authority)
    steps = [each for each in kinds(world) if each != "WriteLeaf"]
    assert steps == [MakeAuthority.__name__, MakeNext.__name__, Promote.__name__]

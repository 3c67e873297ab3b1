"""A fleet to which anything happens in any order: every map is good, few shards move, and in the end all is owned and level.

`FleetWorld` checks I2 and I3 at every map that is written. The directed tests are in `test_planner.py` and
`test_planner_fleet.py`.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from noctaya.api.names import SHARD_COUNT
from noctaya.leader.member_record import MemberState
from noctaya.leader.planner import Planner
from noctaya.leader.planner_events import RolloutSeen
from tests.leader.fleet_world import FleetWorld, started

QUIET_SECONDS = 60.0
"""Rejoin, hold-offs after a rollout (30 s), slack after a crash, suspicion and the rounds, one after the other."""


class Story(RuleBasedStateMachine):
    """Joins, crashes, drains, wishes, rollouts and new leaders."""

    world: FleetWorld

    @initialize(count=st.integers(1, 5))
    def start(self, count: int) -> None:
        self.world = started(count)
        self.born = count
        self.version = 1

    @rule(seconds=st.sampled_from([0.25, 1.0, 4.0, 9.0]))
    def time_passes(self, seconds: float) -> None:
        self.world.run(seconds)

    @precondition(lambda self: len(self._alive()) < 8)
    @rule(is_new_version=st.booleans(), weight=st.sampled_from([1.0, 1.0, 2.0]))
    def join(self, is_new_version: bool, weight: float) -> None:
        self.version += is_new_version
        self.world.join(f"w{self.born}", version=str(self.version), capacity=weight)
        self.born += 1

    @precondition(lambda self: len(self._alive()) > 1)
    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        self.world.crash(data.draw(st.sampled_from(self._alive())))

    @precondition(lambda self: len(self._alive()) > 1)
    @rule(data=st.data())
    def drain(self, data: st.DataObject) -> None:
        self.world.drain(data.draw(st.sampled_from(self._alive())))

    @precondition(lambda self: len(self._alive()) > 1)
    @rule(data=st.data())
    def leave_in_a_hurry(self, data: st.DataObject) -> None:
        self.world.leave(data.draw(st.sampled_from(self._alive())))

    @rule(data=st.data(), cordon=st.booleans(), drain=st.booleans())
    def wish(self, data: st.DataObject, cordon: bool, drain: bool) -> None:
        held = sorted(pod for pod, view in self.world.members.items() if view.incarnation)
        if held:
            self.world.wish(data.draw(st.sampled_from(held)), cordon=cordon, drain=drain)

    @rule()
    def change_leader(self) -> None:
        self.world.lead()

    @rule()
    def freeze_or_thaw(self) -> None:
        self.world.is_freeze_asked = not self.world.is_freeze_asked
        self.world.touch_map()

    def teardown(self) -> None:
        if not hasattr(self, "world"):
            return
        world = self.world
        world.is_freeze_asked = False
        world.touch_map()
        world.feed(RolloutSeen(is_running=False))
        for pod, view in list(world.members.items()):
            if view.incarnation:
                world.wish(pod)
        if not self._alive():
            world.join(f"w{self.born}")
        world.run(QUIET_SECONDS)
        assert world.is_settled(), "I6: all shards are with workers that live"
        shares = world.planner.rebalance(world.now)
        assert shares.moves_from(dict(enumerate(world.map.desired if world.map else ()))) == [], "I6: level"
        maps = len(world.written)
        world.run(10.0)
        assert len(world.written) == maps, "a quiet fleet is left in peace"
        self._replay()

    def _alive(self) -> list[str]:
        return sorted(
            pod
            for pod, worker in self.world.workers.items()
            if worker.is_alive and worker.state is MemberState.READY
        )

    def _replay(self) -> None:
        story = self.world.planner.story
        if story.is_complete:
            again = Planner(self.world.leader)
            for now, event in story.inputs():
                again.on(event, now)
            assert again.map == self.world.planner.map
            assert again.map is not None
            assert len(again.map.desired) == SHARD_COUNT


TestStory = Story.TestCase
TestStory.settings = settings(max_examples=8, stateful_step_count=12, deadline=None)

"""What a core heard can be written down, and lived again from the middle."""

from __future__ import annotations

from noctaya.workers import shard_events as events
from noctaya.workers.shard_replay import replay
from noctaya.workers.shard_story import Recording, chapters
from tests.sim.few_shards import few_shards
from tests.sim.rules import Rules
from tests.sim.schedule import schedule_of
from tests.sim.worker import Worker
from tests.sim.world import World

LENGTH = 20


def test_a_recording_that_forgot_its_beginning_still_replays_action_by_action() -> None:
    """With a fleet's whole trouble for input: every worker of a random schedule is replayed."""
    schedule = schedule_of(3)
    answered: dict[Worker, list[list[events.Action]]] = {}
    with few_shards(schedule.parts):
        world = World(schedule.seed, schedule.parts, Rules())
        schedule.begin(world)
        world.clockwork.run(0.0)
        workers = list(world.workers.values())
        for worker in workers:
            _record(worker, answered.setdefault(worker, []), length=LENGTH)
        world.clockwork.run(schedule.until)
    for worker in workers:
        assert worker.ownership.recording is not None
        told = chapters(worker.ownership.recording.dump())
        lived = [actions for chapter in told for _, actions, _ in replay(chapter)]
        assert 0 < len(lived) <= 2 * LENGTH
        assert lived == answered[worker][-len(lived) :]
    assert any(len(answers) > 2 * LENGTH for answers in answered.values())


def _record(worker: Worker, answered: list[list[events.Action]], *, length: int) -> None:
    core = worker.ownership
    core.recording = Recording(length=length)
    take = core.on

    def on(event: events.Event, now: float) -> list[events.Action]:
        actions = take(event, now)
        answered.append(list(actions))
        return actions

    core.on = on  # type: ignore[method-assign]

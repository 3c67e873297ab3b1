"""What stories do to workers: pauses, ends, restarts, rollouts. Each names what it does to real processes."""

from __future__ import annotations

from tests.chaos.stage import Deed, Stage
from tests.chaos.worker_process import WorkerPod

# -- pauses ------------------------------------------------------------------------------------------------------------------


def stop_for(seconds: float) -> Deed:
    """SIGSTOP a follower, then SIGCONT."""

    async def run(stage: Stage) -> None:
        await _stop(stage, stage.fleet.follower(), seconds)

    return run


async def stop_the_leader(stage: Stage) -> None:
    await _stop(stage, stage.fleet.leader(), 12)


async def _stop(stage: Stage, pod: WorkerPod, seconds: float) -> None:
    with stage.fleet.fault("stop", slows_reports=True):
        pod.stop()
        await stage.pause(seconds)
        pod.go_on()


# -- ends --------------------------------------------------------------------------------------------------------------------


async def kill_a_follower(stage: Stage) -> None:
    await _kill_and_replace(stage, [stage.fleet.follower()])


async def kill_the_leader(stage: Stage) -> None:
    await _kill_and_replace(stage, [stage.fleet.leader()])


async def kill_both(stage: Stage) -> None:
    leader = stage.fleet.leader()
    await _kill_and_replace(stage, [leader, stage.fleet.any_worker(but=leader)])


async def _kill_and_replace(stage: Stage, pods: list[WorkerPod]) -> None:
    """As when nodes die: nobody tells of it, and new pods come when the shards of the dead have been taken over."""
    fleet = stage.fleet
    lost = [fleet.record.members[pod.name][0] for pod in pods]
    for pod in pods:
        await fleet.kill(pod)
    await fleet.until(
        lambda: not {holder for holder, _ in fleet.record.records.values()} & set(lost), 60.0, "the dead own nothing"
    )  # fmt: skip
    for pod in pods:
        await fleet.bury(pod)
        await fleet.join()
    fleet.struck()


async def kill_and_tell(stage: Stage) -> None:
    """The kubelet reports the end of the container: the leader need not wait for its Lease."""
    fleet = stage.fleet
    pod = fleet.follower()
    lost = fleet.record.members[pod.name][0]
    await fleet.kill(pod)
    await pod.tell_end()
    await fleet.until(
        lambda: lost not in {holder for holder, _ in fleet.record.records.values()}, 60.0, "the dead owns nothing"
    )  # fmt: skip
    await fleet.bury(pod)
    await fleet.join()
    fleet.struck()


async def restart_in_place(stage: Stage) -> None:
    pod = stage.fleet.any_worker()
    await stage.fleet.kill(pod)
    await pod.start()
    stage.fleet.struck()


async def leave_and_join(stage: Stage) -> None:
    fleet = stage.fleet
    await fleet.leave(fleet.follower())
    fleet.struck()
    await fleet.settled()
    await fleet.join()
    fleet.struck()


async def roll(stage: Stage) -> None:
    """A rolling update as its Deployment does it: one new pod more, then one old pod less."""
    fleet = stage.fleet
    fleet.version = f"{fleet.version}x"
    await fleet.rollout(is_on=True)
    for old in list(fleet.workers.values()):
        new = await fleet.join()
        await fleet.until(
            lambda new=new: fleet.record.members.get(new.name, ("", ""))[1] == "Ready", 60.0, f"{new.name} is ready"
        )  # fmt: skip
        await fleet.leave(old)
    await fleet.rollout(is_on=False)
    fleet.struck()
    await fleet.until(lambda: not fleet.missing(), 90.0, "whole after the rollout")
    fleet.struck()


def scale_to(count: int) -> Deed:
    """From what there is to `count` at once, and back by one after the other."""

    async def run(stage: Stage) -> None:
        fleet = stage.fleet
        before = len(fleet.workers)
        for _ in range(count - before):
            await fleet.join()
        await fleet.settled(180.0)
        for pod in list(fleet.workers.values())[before:]:
            await fleet.leave(pod)
        fleet.struck()

    return run

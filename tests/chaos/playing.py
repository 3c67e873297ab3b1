"""Plays stories one after another on one fleet, and says how it goes."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.chaos.checker import LIVENESS_SECONDS
from tests.chaos.fleet import Fleet, NotSettled, running
from tests.chaos.history import StoryBegan, StoryEnded
from tests.chaos.stage import Stage, Story
from tests.chaos.worker_process import Tenure

Say = Callable[[str], None]
AGAIN_SECONDS = 90.0
"""For a fleet that is not whole after a story: the next one needs a whole one."""


@dataclass(frozen=True, slots=True)
class Played:
    """One story."""

    story: Story
    seconds: float
    trouble: str = ""
    """Why it did not come to its end as it should; the checker says more."""


async def play(
    stories: Sequence[Story],
    folder: Path,
    *,
    workers: int,
    seed: int,
    tenure: Tenure,
    say: Say,
    until: float = float("inf"),
    last: Callable[[float], Story | None] = lambda seconds: None,
) -> list[Played]:
    """Play what fits before `until` (on `time.monotonic`); with what is left of it, `last(seconds)`."""
    played: list[Played] = []
    start_seconds = await _start_seconds()
    async with running(folder, workers=workers, seed=seed, tenure=tenure) as fleet:
        stage = Stage(fleet, start_seconds)
        for story in stories:
            if time.monotonic() + story.about_seconds * tenure.scale > until:
                say(f"{story.name}: no time left for it")
                continue
            played.append(await _play(story, stage, say))
            if played[-1].trouble and not await _is_whole_again(fleet, say):
                return played
        if (rest := last(until - time.monotonic())) is not None:
            played.append(await _play(rest, stage, say))
    return played


async def _play(story: Story, stage: Stage, say: Say) -> Played:
    fleet = stage.fleet
    began = fleet.notes.now
    bounds = story.bounds(stage)
    if fleet.tenure.scale < 1.0:
        bounds = bounds.untimed()
    fleet.notes.write(StoryBegan(at=began, name=story.name, bounds=bounds))
    fleet.last_fault_at = began
    trouble = ""
    async with _progress(story, stage, say):
        try:
            await story.run(stage)
            left = fleet.last_fault_at + LIVENESS_SECONDS - fleet.notes.now
            await fleet.settled(max(left, 5.0))
        except (NotSettled, AssertionError, TimeoutError, RuntimeError) as error:
            trouble = f"{type(error).__name__}: {error}"
    ended = fleet.notes.now
    fleet.notes.write(
        StoryEnded(
            at=ended, name=story.name, last_fault_at=fleet.last_fault_at, is_settled=not trouble,
            alive=tuple(pod.name for pod in fleet.running()),
        )
    )  # fmt: skip
    say(f"{story.name}: {trouble or 'whole again'} after {ended - began:.0f} s")
    return Played(story, ended - began, trouble)


async def _is_whole_again(fleet: Fleet, say: Say) -> bool:
    """Bring back what a broken story left behind."""
    fleet.proxy.clear()
    for gateway in fleet.gateways:
        for way in gateway.ways.values():
            way.mend()
        if not gateway.is_running:
            await gateway.start()
    for pod in list(fleet.workers.values()):
        pod.peers.mend()
        if pod.is_running and pod.is_stopped:
            pod.go_on()
        if not pod.is_running:
            await fleet.bury(pod)
            await fleet.join()
    try:
        await fleet.settled(AGAIN_SECONDS)
    except NotSettled as error:
        say(f"the fleet is beyond help: {error}")
        return False
    return True


@asynccontextmanager
async def _progress(story: Story, stage: Stage, say: Say) -> AsyncIterator[None]:
    """On a terminal a line that counts down; elsewhere one line at the begin."""
    about = story.about_seconds * stage.fleet.tenure.scale
    if not sys.stderr.isatty():
        say(f"{story.name}: {story.what} (about {about:.0f} s)")
        yield
        return
    task = asyncio.create_task(_count_down(story, about))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        sys.stderr.write("\r\033[K")


async def _count_down(story: Story, about: float) -> None:
    end = time.monotonic() + about
    while True:
        left = end - time.monotonic()
        say_left = f"{left:.0f} s left" if left >= 0 else f"{-left:.0f} s late"
        sys.stderr.write(f"\r\033[K{story.name}: {story.what} ({say_left})")
        sys.stderr.flush()
        await asyncio.sleep(0.5)


async def _start_seconds() -> float:
    began = time.monotonic()
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", "import noctaya.workers.main")
    await process.wait()
    return time.monotonic() - began

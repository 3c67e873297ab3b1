"""A worker's problems as events on its own pod, for whoever looks with `kubectl describe` or `get events` and knows no admin port.

A problem is told once when it has lasted for a moment, and once when it is over; a sentence that changes while it lasts is no
news. Events are a courtesy: where they cannot be written (that is one of the problems), `/readyz` and the metrics still tell.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from noctaya.kube import Client
from noctaya.kube.clock import boottime
from noctaya.kube.events import EventRecorder
from noctaya.kube.objects import ObjectReference
from noctaya.workers.events import Note
from noctaya.workers.problems import Problem, Problems

LOOK_SECONDS: Final = 1.0
LASTING_SECONDS: Final = 3.0
"""A start has problems that are gone a moment later: the scaler was not asked yet, the API server was slow once."""


class Announcements:
    """Which notes a list of problems is worth. Pure."""

    def __init__(self, lasting_seconds: float) -> None:
        self._lasting_seconds = lasting_seconds
        self._since: dict[str, float] = {}
        self._told: set[str] = set()

    def on(self, problems: Iterable[Problem], now: float) -> list[Note]:
        """What to tell now that these are the problems."""
        present = {problem.name: problem for problem in problems}
        over = [name for name in self._since if name not in present]
        notes = [Note("Normal", name, f"{name} is over") for name in over if name in self._told]
        for name in over:
            del self._since[name]
            self._told.discard(name)
        for name, problem in present.items():
            if now - self._since.setdefault(name, now) >= self._lasting_seconds and name not in self._told:
                self._told.add(name)
                notes.append(Note("Warning", name, problem.message))
        return notes


class Announcer:
    """The shell. `run` belongs to the caller's TaskGroup."""

    def __init__(
        self,
        client: Client,
        problems: Problems,
        *,
        namespace: str,
        pod: str,
        uid: str,
        clock: Callable[[], float] = boottime,
    ) -> None:
        self._recorder = EventRecorder(client, "noctaya", instance=pod)
        self._problems = problems
        self._about = ObjectReference(api_version="v1", kind="Pod", namespace=namespace, name=pod, uid=uid)
        self._core = Announcements(LASTING_SECONDS)
        self._clock = clock

    async def run(self) -> None:
        """Tell until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._recorder.run())
            while True:
                for note in self._core.on(self._problems.current(), self._clock()):
                    self._recorder.record(self._about, note.reason, note.message, note.type)
                await asyncio.sleep(LOOK_SECONDS)

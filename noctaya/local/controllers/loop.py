"""The loop that all controllers share: level-based, one key at a time, back-off on failure.

A controller's `reconcile(namespace, name)` looks at the world, makes it a little more as it should be, and may return in how
many seconds to look again. Conflicts are normal (somebody was first) and tried again at once; a defect in one controller is
logged and retried with a pause, so that it does not take the others down.
"""

import asyncio
import logging
from abc import ABC, abstractmethod

from noctaya.kube.errors import Conflict, KubeError
from noctaya.local.controllers.keyqueue import KeyQueue
from noctaya.telemetry import context

log = logging.getLogger(__name__)

Key = tuple[str, str]
CONFLICT_PAUSE_SECONDS = 0.02
WORKERS = 2
RECONCILE_SECONDS = 30.0


class Controller(ABC):
    """One kind's controller."""

    name = "controller"

    def __init__(self) -> None:
        self._queue: KeyQueue[Key] = KeyQueue()
        self._wake = asyncio.Event()

    @abstractmethod
    async def reconcile(self, namespace: str, name: str) -> float | None:
        """Bring one object's world in order; seconds until the next look, or None."""

    def enqueue(self, namespace: str, name: str) -> None:
        """Look at this object soon."""
        self._queue.add((namespace, name))
        self._wake.set()

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(WORKERS):
                tasks.create_task(self._work(), name=f"{self.name} {number}")

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            key = self._queue.take(loop.time())
            if key is None:
                await self._wait()
                continue
            failed = False
            try:
                async with asyncio.timeout(RECONCILE_SECONDS):
                    again = await self.reconcile(*key)
                if again is not None:
                    self._queue.add_at(key, loop.time() + again)
            except Conflict:
                self._queue.add_at(key, loop.time() + CONFLICT_PAUSE_SECONDS)
            except Exception as error:  # a supervisor's boundary: say it, keep the other keys going
                failed = True
                about = context(controller=self.name, key="/".join(key), error=repr(error))
                if is_the_worlds_fault(error):
                    log.warning("will try again", extra=about)
                else:
                    log.exception("controller failed", extra=about)
            finally:
                self._queue.done(key, loop.time(), failed=failed)
                self._wake.set()

    async def _wait(self) -> None:
        self._wake.clear()
        try:
            async with asyncio.timeout_at(self._queue.next_at()):
                await self._wake.wait()
        except TimeoutError:
            return


def is_the_worlds_fault(error: Exception) -> bool:
    """A refused or lost call, or several of them at once (a TaskGroup's); anything else is a defect of ours."""
    if isinstance(error, ExceptionGroup):
        return all(is_the_worlds_fault(item) for item in error.exceptions)
    return isinstance(error, (KubeError, TimeoutError, OSError))

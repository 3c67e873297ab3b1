"""Tasks that belong to an object of the cluster: at most one per key, inside the caller's TaskGroup."""

import asyncio
from collections.abc import Callable, Coroutine

from noctaya.local.keda.records import Key

Work = Callable[[], Coroutine[None, None, None]]
"""Makes the coroutine only when it is run: one that never runs would be warned about."""


class KeyedTasks:
    """Starts and stops them. Invariant: a key's old task has ended before its new one starts."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        self._running: dict[Key, asyncio.Task[None]] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._running

    async def restart(self, key: Key, work: Work) -> None:
        """Run `work` for `key`, after the task that it replaces has ended."""
        await self.stop(key)
        self.start(key, work)

    def start(self, key: Key, work: Work) -> None:
        """Run `work` for `key`, which must have no task yet."""
        self._running[key] = self._tasks.create_task(work())

    async def stop(self, key: Key) -> None:
        """End the key's task and wait until it has ended; without a task nothing happens."""
        task = self._running.get(key)
        self.cancel(key)
        if task is not None:
            await asyncio.wait([task])

    def cancel(self, key: Key) -> None:
        """Tell the key's task to end, without waiting."""
        task = self._running.pop(key, None)
        if task is not None:
            task.cancel()

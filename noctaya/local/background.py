"""Background tasks of one context: they end when the body ends, and the body ends when one of them fails."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def background(*coroutines: Coroutine[Any, Any, Any]) -> AsyncIterator[None]:
    """Run `coroutines` beside the body; cancel them and wait for their end when it leaves.

    Raises:
        BaseExceptionGroup: what a background task raised, with what the body raised because of it.
    """
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(coroutine) for coroutine in coroutines]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()

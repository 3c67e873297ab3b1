"""Coroutines that run beside a test's body."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any


@asynccontextmanager
async def running(*coroutines: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Tasks beside the body. Their own failure is raised at its end."""
    tasks = [asyncio.ensure_future(one) for one in coroutines]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
    for outcome in ended:
        if isinstance(outcome, Exception):
            raise outcome

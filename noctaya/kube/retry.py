"""Repeats a call that may safely happen twice, for as long as its caller is willing to wait.

Only for idempotent calls: reads, server-side apply, writes guarded by resourceVersion or uid, deletes. Never for a bare
create or patch: `Unavailable` does not say whether the server acted. Repeated are the world's mistakes (`Unavailable`,
`TooManyRequests`), never a refusal; each wait is jittered, doubles, and is not shorter than the server's Retry-After.
The last error is raised as it is, no later than the deadline.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from tenacity import (
    AsyncRetrying,
    RetryCallState,
    retry_if_exception_type,
    stop_before_delay,
    wait_random_exponential,
)

from noctaya.kube.errors import Call, TooManyRequests, Unavailable

T = TypeVar("T")

RETRIED = (Unavailable, TooManyRequests)


async def retried(
    call: Callable[[], Awaitable[T]],
    *,
    deadline_seconds: float,
    base_seconds: float = 0.2,
    cap_seconds: float = 10.0,
) -> T:
    """`await retried(lambda: client.get(PODS, "models", "llama-0", Pod), deadline_seconds=30)`

    Raises the last attempt's error when the next wait would end after the deadline, and Unavailable when the deadline
    cuts an attempt.
    """
    wait = wait_random_exponential(multiplier=base_seconds, max=cap_seconds)

    def no_sooner_than_asked(state: RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome is not None else None
        asked = error.retry_after_seconds if isinstance(error, RETRIED) else None
        return max(wait(state), asked or 0.0)

    retrying = AsyncRetrying(
        retry=retry_if_exception_type(RETRIED),
        wait=no_sooner_than_asked,
        stop=stop_before_delay(deadline_seconds),
        sleep=asyncio.sleep,
        reraise=True,
    )
    last: Unavailable | TooManyRequests | None = None

    async def attempt() -> T:
        nonlocal last
        try:
            return await call()
        except RETRIED as error:
            last = error
            raise

    try:
        async with asyncio.timeout(deadline_seconds) as scope:
            return await retrying(attempt)
    except TimeoutError as cause:
        if not scope.expired():
            raise
        call_ = last.call if last is not None else Call("retry", "a call")
        before = f"; before that: {last.message}" if last is not None else ""
        raise Unavailable(call_, f"no answer within {deadline_seconds:g} s{before}") from cause

"""Repeating: only what the world got wrong, no longer than allowed, and no sooner than the server asked."""

from __future__ import annotations

import asyncio
import time

import pytest

from noctaya.kube.errors import Call, Conflict, Forbidden, KubeError, TooManyRequests, Unavailable
from noctaya.kube.retry import retried

CALL = Call("get", "pods models/a")


class Flaky:
    """Raises the given errors, one a call, then answers."""

    def __init__(self, *errors: KubeError) -> None:
        self.errors = list(errors)
        self.calls = 0

    async def __call__(self) -> str:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "done"


async def test_the_worlds_mistakes_are_repeated() -> None:
    flaky = Flaky(Unavailable(CALL, "502"), TooManyRequests(CALL, "429"), Unavailable(CALL, "502"))
    assert await retried(flaky, deadline_seconds=5, base_seconds=0.001) == "done"
    assert flaky.calls == 4


@pytest.mark.parametrize("kind", [Conflict, Forbidden])
async def test_a_refusal_is_not_repeated(kind: type[KubeError]) -> None:
    flaky = Flaky(kind(CALL, "no"))
    with pytest.raises(kind):
        await retried(flaky, deadline_seconds=5, base_seconds=0.001)
    assert flaky.calls == 1


async def test_the_server_is_not_asked_again_sooner_than_it_said() -> None:
    busy = TooManyRequests(CALL, "busy")
    busy.retry_after_seconds = 0.1
    started = time.monotonic()
    await retried(Flaky(busy), deadline_seconds=5, base_seconds=0.001)
    assert time.monotonic() - started >= 0.1


async def test_a_wait_that_would_pass_the_deadline_is_not_begun() -> None:
    busy = TooManyRequests(CALL, "busy")
    busy.retry_after_seconds = 60
    with pytest.raises(TooManyRequests):
        await retried(Flaky(busy), deadline_seconds=5)


async def test_an_attempt_that_hangs_is_cut_at_the_deadline_and_tells_the_last_error() -> None:
    flaky = Flaky(Unavailable(CALL, "refused before"))

    async def then_hang() -> str:
        await flaky()
        await asyncio.Event().wait()
        return "never"

    with pytest.raises(
        Unavailable, match=r"get pods models/a: no answer within 0\.1 s; before that: refused before"
    ):
        await retried(then_hang, deadline_seconds=0.1, base_seconds=0.001)


async def test_a_timeout_of_the_call_itself_is_not_taken_for_the_deadline() -> None:
    async def timed_out() -> str:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        await retried(timed_out, deadline_seconds=5)

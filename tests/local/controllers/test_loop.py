"""The loop that runs every controller: what fails comes back, and one key's defect does not stop the others."""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from noctaya.kube.errors import Call, Conflict, Unavailable
from noctaya.local.controllers.loop import Controller
from tests.local.agent.cluster import until

CALL = Call("create", "pods a/b")


class Scripted(Controller):
    """Does for each key what the test says, attempt by attempt."""

    name = "scripted"

    def __init__(self, script: Callable[[str, int], Awaitable[float | None]]) -> None:
        super().__init__()
        self._script = script
        self.attempts: dict[str, int] = {}
        self.done: set[str] = set()

    async def reconcile(self, namespace: str, name: str) -> float | None:
        self.attempts[name] = self.attempts.get(name, 0) + 1
        result = await self._script(name, self.attempts[name])
        self.done.add(name)
        return result


@asynccontextmanager
async def running(controller: Controller) -> AsyncIterator[None]:
    task = asyncio.create_task(controller.run())
    try:
        async with asyncio.timeout(5):
            yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def holds(claim: Callable[[], bool]) -> None:
    async def answer() -> bool:
        return claim()

    await until(answer, 5, lambda: "never true")


@pytest.mark.parametrize(
    "error",
    [
        Conflict(CALL, "taken"),
        Unavailable(CALL, "gone"),
        TimeoutError(),
        ExceptionGroup("two", [Unavailable(CALL, "gone")]),
    ],
)
async def test_the_worlds_mistakes_are_tried_again_without_alarm(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    async def script(name: str, attempt: int) -> None:
        if attempt == 1:
            raise error

    controller = Scripted(script)
    async with running(controller):
        controller.enqueue("ns", "a")
        await holds(lambda: "a" in controller.done)
    assert controller.attempts == {"a": 2}
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_a_defect_is_said_loudly_and_other_keys_go_on(caplog: pytest.LogCaptureFixture) -> None:
    async def script(name: str, attempt: int) -> None:
        if name == "bad":
            raise KeyError("spec")

    controller = Scripted(script)
    async with running(controller):
        controller.enqueue("ns", "bad")
        controller.enqueue("ns", "good")
        await holds(lambda: "good" in controller.done and controller.attempts.get("bad", 0) >= 2)
    assert any(record.message == "controller failed" for record in caplog.records)


async def test_a_controller_may_ask_to_be_called_again() -> None:
    async def script(name: str, attempt: int) -> float | None:
        return 0.02 if attempt < 3 else None

    controller = Scripted(script)
    async with running(controller):
        controller.enqueue("ns", "a")
        await holds(lambda: controller.attempts.get("a", 0) == 3)


async def test_one_key_is_never_worked_on_twice_at_a_time() -> None:
    busy: set[str] = set()
    overlaps: list[str] = []

    async def script(name: str, attempt: int) -> None:
        if name in busy:
            overlaps.append(name)
        busy.add(name)
        await asyncio.sleep(0.01)
        busy.discard(name)

    controller = Scripted(script)
    async with running(controller):
        for _ in range(10):
            controller.enqueue("ns", "a")
            controller.enqueue("ns", "b")
            await asyncio.sleep(0.004)
        await holds(lambda: controller.done == {"a", "b"} and not busy)
    assert controller.done == {"a", "b"}
    assert not overlaps

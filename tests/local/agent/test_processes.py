"""Processes by themselves: both event loops, groups, and no orphan after kill -9 of the agent."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import uvloop

from noctaya.local.agent.processes import ProcessTable

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
ENV = {"PATH": os.environ["PATH"]}


def run_on(loop: str, work: Callable[[], Awaitable[None]]) -> None:
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        runner.run(work())  # type: ignore[arg-type]


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.parametrize("loop", LOOPS)
def test_output_and_exit_code_arrive_on_either_loop(loop: str, tmp_path: Path) -> None:
    output = bytearray()

    async def work() -> None:
        table = ProcessTable()
        table.open()
        process = await table.spawn(
            ["sh", "-c", "echo out; echo err >&2; exit 3"], ENV, tmp_path, output.extend
        )
        await process.ended.wait()
        assert (process.exit_code, process.killed_by) == (3, 0)
        killed = await table.spawn(["sh", "-c", "kill -9 $$"], ENV, tmp_path, output.extend)
        await killed.ended.wait()
        assert (killed.exit_code, killed.killed_by) == (137, 9)
        await table.close(1)

    run_on(loop, work)
    assert output == b"out\nerr\n"


@pytest.mark.parametrize("loop", LOOPS)
def test_closing_ends_the_polite_and_the_deaf(loop: str, tmp_path: Path) -> None:
    async def work() -> None:
        table = ProcessTable()
        table.open()
        polite = await table.spawn(["sleep", "1000"], ENV, tmp_path, lambda _: None)
        deaf = await table.spawn(
            ["sh", "-c", "trap '' TERM; sleep 1000; sleep 1000"], ENV, tmp_path, lambda _: None
        )
        await asyncio.sleep(0.1)
        await table.close(0.3)
        assert polite.ended.is_set()
        assert deaf.ended.is_set()
        assert not is_alive(deaf.pid)

    run_on(loop, work)


def test_the_rest_of_a_group_dies_with_its_first_process(tmp_path: Path) -> None:
    output = bytearray()

    async def work() -> None:
        table = ProcessTable()
        table.open()
        process = await table.spawn(["sh", "-c", "sleep 1000 & echo $!"], ENV, tmp_path, output.extend)
        await process.ended.wait()
        child = int(output)
        deadline = time.monotonic() + 3
        while is_alive(child):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.01)
        await table.close(1)

    run_on("asyncio", work)


def test_kill_9_of_the_agents_process_leaves_nothing_behind(tmp_path: Path) -> None:
    """PR_SET_PDEATHSIG ends the program, the warden its children."""
    program = textwrap.dedent(
        """
        import asyncio, os, sys
        from pathlib import Path
        from noctaya.local.agent.processes import ProcessTable

        async def main():
            table = ProcessTable()
            table.open()
            sink = lambda data: print(data.decode(), end="", flush=True)
            await table.spawn(["sh", "-c", "sleep 1000 & echo $! $$; wait"], {"PATH": os.environ["PATH"]}, Path("."), sink)
            await asyncio.sleep(1000)

        asyncio.run(main())
        """
    )
    with subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.getcwd()},
    ) as agent:
        assert agent.stdout is not None
        pids = [int(word) for word in agent.stdout.readline().split()]
        assert len(pids) == 2
        assert all(is_alive(pid) for pid in pids)

        agent.send_signal(signal.SIGKILL)
        agent.wait()

    deadline = time.monotonic() + 3
    while any(is_alive(pid) for pid in pids):
        assert time.monotonic() < deadline, f"left behind: {pids}"
        time.sleep(0.01)


def test_a_killed_warden_is_replaced_and_knows_every_group(tmp_path: Path) -> None:
    async def work() -> None:
        table = ProcessTable()
        table.open()
        first = await table.spawn(["sleep", "1000"], ENV, tmp_path, lambda _: None)
        warden = table._warden
        assert warden is not None
        warden.kill()
        await asyncio.to_thread(warden.wait)
        await table.spawn(["sleep", "1000"], ENV, tmp_path, lambda _: None)
        assert table._warden is not warden
        assert first.pid in table._running
        await table.close(0.5)

    run_on("asyncio", work)

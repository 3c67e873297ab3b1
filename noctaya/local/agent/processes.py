"""Starting and ending real processes, so that none is ever left: not after a crash, not after kill -9 of the agent.

Each container's process leads its own session and process group; when it ends, the rest of its group is killed, as a
container's other processes die with its first. A process that leaves its group (a daemon) escapes when the container ends,
and dies only on Linux, never elsewhere, with the agent. Exit codes are a kubelet's: 128 + signal for a killed process.
"""

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from noctaya.telemetry import context

log = logging.getLogger(__name__)

LAUNCH = Path(__file__).with_name("launch.py")
WARDEN = Path(__file__).with_name("warden.py")
BARE_PYTHON = (sys.executable, "-I", "-S")
WARDEN_SECONDS = 5.0

Sink = Callable[[bytes], None]


class OutputPipe(asyncio.Protocol):
    """The reading end of a process's output.

    Our own pipe and not asyncio's: with that, `Process.wait()` returns only when every holder of the pipe is gone, and a
    container's stray child may hold it (python/cpython#119710; `test_the_rest_of_a_group_dies_with_its_first_process`).
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self.ended = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self._sink(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()


class RunningProcess:
    """One container's process group."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        transport: asyncio.BaseTransport,
        pipe: OutputPipe,
        drain_seconds: float,
    ) -> None:
        self._process = process
        self._transport = transport
        self._pipe = pipe
        self._drain_seconds = drain_seconds
        self.ended = asyncio.Event()
        self.returncode = 0

    @property
    def pid(self) -> int:
        """Process id, which is the group's too."""
        return self._process.pid

    @property
    def exit_code(self) -> int:
        """0-255 as a shell has it; valid once `ended`."""
        return 128 - self.returncode if self.returncode < 0 else self.returncode

    @property
    def killed_by(self) -> int:
        """The signal that killed it, or 0."""
        return -self.returncode if self.returncode < 0 else 0

    def send(self, number: signal.Signals) -> None:
        """Signal the whole group; nothing happens when it is gone."""
        if not self.ended.is_set():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    async def follow(self) -> None:
        """Wait for the end, kill what is left of the group, read the last of the output."""
        self.returncode = await self._process.wait()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, signal.SIGKILL)
        try:
            async with asyncio.timeout(self._drain_seconds):
                await self._pipe.ended.wait()
        except TimeoutError:
            log.info("output pipe is still held; the rest is lost", extra=context(pid=self.pid))
        finally:
            self._transport.close()
            self.ended.set()


class ProcessTable:
    """All processes of this agent."""

    def __init__(self, drain_seconds: float = 1.0) -> None:
        self._drain_seconds = drain_seconds
        self._warden: subprocess.Popen[bytes] | None = None
        self._running: dict[int, tuple[RunningProcess, asyncio.Task[None]]] = {}

    def open(self) -> None:
        """Start the warden; before the first `spawn`."""
        self._warden = subprocess.Popen(
            [*BARE_PYTHON, str(WARDEN)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env={},
        )
        for pid in self._running:
            self._note("+", pid)

    async def spawn(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: Path, sink: Sink
    ) -> RunningProcess:
        """Start a program; its output, both streams in one, goes to `sink` in pieces.

        Raises:
            OSError: this machine cannot start another process, or `cwd` is gone.
        """
        reading, writing = os.pipe()
        pipe = OutputPipe(sink)
        with os.fdopen(writing, "wb", buffering=0) as output:
            loop = asyncio.get_running_loop()
            transport, _ = await loop.connect_read_pipe(lambda: pipe, os.fdopen(reading, "rb", buffering=0))
            try:
                process = await asyncio.create_subprocess_exec(
                    *BARE_PYTHON,
                    str(LAUNCH),
                    str(os.getpid()),
                    *argv,
                    env=dict(env),
                    cwd=cwd,
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=output,
                    stderr=asyncio.subprocess.STDOUT,
                    start_new_session=True,
                )
            except BaseException:
                transport.close()
                raise
        self._note("+", process.pid)
        running = RunningProcess(process, transport, pipe, self._drain_seconds)
        # Not in a pod's TaskGroup: when that is cancelled, this one still has to reap the process.
        follower = asyncio.create_task(self._follow(running), name=f"end of {process.pid}")
        self._running[process.pid] = (running, follower)
        return running

    async def _follow(self, running: RunningProcess) -> None:
        try:
            await running.follow()
        finally:
            self._note("-", running.pid)
            self._running.pop(running.pid, None)

    async def close(self, grace_seconds: float) -> None:
        """End every process: SIGTERM, after `grace_seconds` SIGKILL; then the warden."""
        survivors = list(self._running.values())
        for running, _ in survivors:
            running.send(signal.SIGTERM)
        followers = [follower for _, follower in survivors]
        if followers:
            await asyncio.wait(followers, timeout=grace_seconds)
            for running, _ in survivors:
                running.send(signal.SIGKILL)
            await asyncio.wait(followers, timeout=self._drain_seconds + WARDEN_SECONDS)
        warden, self._warden = self._warden, None
        if warden is not None and warden.stdin is not None:
            warden.stdin.close()
            try:
                await asyncio.to_thread(warden.wait, WARDEN_SECONDS)
            except subprocess.TimeoutExpired:
                warden.kill()
                warden.wait()

    def _note(self, sign: str, pid: int) -> None:
        if self._warden is None or self._warden.stdin is None:
            return
        try:
            self._warden.stdin.write(f"{sign}{pid}\n".encode())
            self._warden.stdin.flush()
        except BrokenPipeError:
            log.warning("the warden was killed; starting another", extra=context(pid=self._warden.pid))
            with contextlib.suppress(BrokenPipeError):
                self._warden.stdin.close()
            self._warden.wait()
            self.open()

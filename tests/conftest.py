"""Checks that hold for every test: nothing that a test started may outlive it.

Sockets and files are covered by `-W error` (an unclosed one is a ResourceWarning, hence a failure); processes, threads and
temporary directories are covered here. End-to-end tests share one cluster and check the same at the end of their module.
"""

import asyncio
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest_plugins = ["tests.cluster.fixtures", "tests.conformance.fixtures"]

SETTLE_SECONDS = 3.0
"""A process that was told to end may need a moment to be reaped."""


def pytest_configure(config: pytest.Config) -> None:
    """Every temporary file of this run, its children's included, goes below one directory of its own.

    And no event loop is made by asking for one: pytest-asyncio and looptime ask before a test and close what they get never.
    """
    asyncio.set_event_loop(None)
    directory = tempfile.mkdtemp(prefix="noctaya-tests-")
    os.environ["TMPDIR"] = tempfile.tempdir = directory
    config.add_cleanup(lambda: shutil.rmtree(directory, ignore_errors=True))


def children() -> set[int]:
    """Process ids whose parent is this process, zombies included."""
    mine: set[int] = set()
    for thread in Path("/proc/self/task").iterdir():
        try:
            mine |= {int(pid) for pid in (thread / "children").read_text().split()}
        except FileNotFoundError:  # the thread has ended meanwhile
            continue
    return mine


def threads() -> set[str]:
    """Names of live threads that would keep the interpreter from ending."""
    return {
        thread.name
        for thread in threading.enumerate()
        if not thread.daemon and thread is not threading.main_thread()
    }


def work_directories() -> set[str]:
    """Directories that an embedded cluster made, and what is in them."""
    return {
        str(path) for top in Path(tempfile.gettempdir()).glob("noctaya-*") for path in (top, *top.rglob("*"))
    }


def left_over(before: dict[str, set[int] | set[str]]) -> dict[str, set[int] | set[str]]:
    """What is there now and was not `before`, after a moment to settle."""
    deadline = time.monotonic() + SETTLE_SECONDS
    while True:
        more = {name: now - before[name] for name, now in snapshot().items()}
        more = {name: extra for name, extra in more.items() if extra}
        if not more or time.monotonic() > deadline:
            return more
        time.sleep(0.02)


def snapshot() -> dict[str, set[int] | set[str]]:
    """What this process holds now."""
    return {"processes": children(), "threads": threads(), "work directories": work_directories()}


@pytest.fixture(autouse=True)
def nothing_left_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fail a test that leaves a process, a thread or a work directory."""
    if request.node.get_closest_marker("e2e"):
        yield
        return
    before = snapshot()
    yield
    more = left_over(before)
    assert not more, f"left behind: {more}"


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool], float], None]:
    """`eventually(claim, seconds)`: return as soon as `claim()` holds; fail when it never does."""

    def wait(claim: Callable[[], bool], seconds: float = 5.0) -> None:
        deadline = time.monotonic() + seconds
        while not claim():
            assert time.monotonic() < deadline, f"never true: {claim}"
            time.sleep(0.01)

    return wait

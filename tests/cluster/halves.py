"""The tests on a real cluster as two sessions side by side, each with a cluster of its own.

They wait for KEDA's intervals and for kubelets far more than they compute, so that two at a time take little more than half as
long. What they leave on the machine is counted once, around both.
"""

import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import IO

from rich.console import Console

from tests.cluster import sysctls
from tests.cluster.footprint import Footprint
from tests.cluster.requirements import missing_for_node

COUNTED_OUTSIDE = "NOCTAYA_TEST_FOOTPRINT_IS_COUNTED_OUTSIDE"
MARKED = ("-m", "cluster or containers")
FIRST_HALF = (
    "tests/acceptance/failures",
    "tests/acceptance/test_bad_environment.py",
    "tests/acceptance/test_install_document.py",
    "tests/containers",
)
"""About half of the time, measured; everything else that is marked is the other half."""


@dataclass(frozen=True, slots=True)
class Half:
    """One session of pytest."""

    name: str
    arguments: tuple[str, ...]


HALVES = (
    Half("failures", FIRST_HALF),
    Half("acceptance", ("tests", *(f"--ignore={path}" for path in FIRST_HALF))),
)


def run_tests(screen: Console, further: list[str]) -> int:
    """Run both halves; 0 when both passed and nothing stays on the machine. `further`: arguments for pytest."""
    is_counted = not missing_for_node()
    before = Footprint.now() if is_counted else None
    settings = sysctls.current()
    started = time.monotonic()
    sessions = [_start(half, further) for half in HALVES]
    readers = [
        threading.Thread(target=_relay, args=(half.name, session.stdout, screen))
        for half, session in zip(HALVES, sessions, strict=True)
    ]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    codes = [session.wait() for session in sessions]
    for half, code in zip(HALVES, codes, strict=True):
        screen.print(f"{half.name}: {'passed' if code == 0 else f'pytest ended with {code}'}", markup=False)
    screen.print(f"both in {time.monotonic() - started:.0f} s", markup=False)
    # Each cluster restores what it has found; the one that began second has found the other one's.
    sysctls.restore(settings)
    left = Footprint.now().beyond(before) if before is not None else {}
    if left:
        screen.print(f"left on the machine: {left}", markup=False)
    return 1 if any(codes) or left else 0


def _start(half: Half, further: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", *MARKED, *half.arguments, *further],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, COUNTED_OUTSIDE: "1"},
    )


def _relay(name: str, lines: IO[str] | None, screen: Console) -> None:
    for line in lines or ():
        screen.print(f"{name:>10} | {line.rstrip()}", markup=False, highlight=False)

"""The tests on a real cluster as sessions side by side, each with a cluster of its own.

They wait for KEDA's intervals and for kubelets far more than they compute, so that three at a time take little more than a third
as long. What they leave on the machine is counted once, around all.
"""

import os
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from rich.console import Console

from tests.cluster import sysctls
from tests.cluster.footprint import Footprint
from tests.cluster.requirements import missing_for_node

COUNTED_OUTSIDE = "NOCTAYA_TEST_FOOTPRINT_IS_COUNTED_OUTSIDE"
MARKED = ("-m", "cluster or containers")
SLOWEST = ("--durations=12", "--durations-min=10")
ACCEPTANCE = Path("tests/acceptance")
FAILURES = ACCEPTANCE / "failures"
INSTALLING = (ACCEPTANCE / "test_bad_environment.py", ACCEPTANCE / "test_install_document.py")
"""Those that install the product, or something wrong, themselves."""


@dataclass(frozen=True, slots=True)
class Session:
    """One session of pytest: what it collects."""

    name: str
    path: Path
    without: tuple[Path, ...] = ()

    @property
    def arguments(self) -> tuple[str, ...]:
        """For pytest."""
        return (str(self.path), *(f"--ignore={path}" for path in self.without))


SESSIONS = (
    Session("failures", FAILURES),
    Session("acceptance", ACCEPTANCE, (FAILURES, *INSTALLING)),
    Session(
        "the rest",
        Path("tests"),
        (FAILURES, *(path for path in sorted(ACCEPTANCE.glob("test_*.py")) if path not in INSTALLING)),
    ),
)
"""About a third of the time each, measured; together they collect everything that is marked."""


def run_tests(screen: Console, further: list[str]) -> int:
    """Run all sessions; 0 when all passed and nothing stays on the machine. `further`: arguments for pytest."""
    is_counted = not missing_for_node()
    before = Footprint.now() if is_counted else None
    settings = sysctls.current()
    started = time.monotonic()
    running = [_start(session, further) for session in SESSIONS]
    readers = [
        threading.Thread(target=_relay, args=(session.name, process.stdout, screen))
        for session, process in zip(SESSIONS, running, strict=True)
    ]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    codes = [process.wait() for process in running]
    for session, code in zip(SESSIONS, codes, strict=True):
        screen.print(
            f"{session.name}: {'passed' if code == 0 else f'pytest ended with {code}'}", markup=False
        )
    screen.print(f"all in {time.monotonic() - started:.0f} s", markup=False)
    # Each cluster restores what it has found; those that began later have found the first one's.
    sysctls.restore(settings)
    left = Footprint.now().beyond(before) if before is not None else {}
    if left:
        screen.print(f"left on the machine: {left}", markup=False)
    return 1 if any(codes) or left else 0


def _start(session: Session, further: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", *MARKED, *SLOWEST, *session.arguments, *further],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, COUNTED_OUTSIDE: "1"},
    )


def _relay(name: str, lines: IO[str] | None, screen: Console) -> None:
    for line in lines or ():
        screen.print(f"{name:>10} | {line.rstrip()}", markup=False, highlight=False)

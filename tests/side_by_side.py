"""The tests as sessions of pytest side by side: they wait for intervals and processes far more than they compute.

Each session has a name, its own files and its own ports; what they print is told line by line under their names.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from rich.console import Console

from tests.ports import SESSION_NUMBER

TESTS = Path("tests")


@dataclass(frozen=True, slots=True)
class Session:
    """One session of pytest: what it collects, below `paths` and not below `without`."""

    name: str
    paths: tuple[Path, ...]
    without: tuple[Path, ...] = ()

    @property
    def arguments(self) -> tuple[str, ...]:
        """For pytest."""
        return (*map(str, self.paths), *(f"--ignore={path}" for path in self.without))

    def collects(self, file: Path) -> bool:
        """Whether `file` is of this session."""
        return _is_below(file, self.paths) and not _is_below(file, self.without)


def _is_below(file: Path, paths: Sequence[Path]) -> bool:
    return any(file.is_relative_to(path) for path in paths)


def run_sessions(
    screen: Console, sessions: Sequence[Session], arguments: Sequence[str], environment: Mapping[str, str]
) -> bool:
    """Run all, each with `arguments` for pytest and `environment` besides its own; whether every one passed."""
    # A shell's background job ignores SIGINT, and so would all that the tests start and interrupt.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    started = time.monotonic()
    running = [
        _start(session, arguments, {**environment, SESSION_NUMBER: str(number)})
        for number, session in enumerate(sessions)
    ]
    readers = [
        threading.Thread(target=_relay, args=(session.name, process.stdout, screen))
        for session, process in zip(sessions, running, strict=True)
    ]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join()
    codes = [process.wait() for process in running]
    for session, code in zip(sessions, codes, strict=True):
        screen.print(
            f"{session.name}: {'passed' if code == 0 else f'pytest ended with {code}'}", markup=False
        )
    screen.print(f"all in {time.monotonic() - started:.0f} s", markup=False)
    return not any(codes)


def _start(
    session: Session, arguments: Sequence[str], environment: Mapping[str, str]
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "pytest", *arguments, *session.arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **environment},
    )


def _relay(name: str, lines: IO[str] | None, screen: Console) -> None:
    for line in lines or ():
        screen.print(f"{name:>10} | {line.rstrip()}", markup=False, highlight=False)

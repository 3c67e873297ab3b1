"""What the embedded cluster tells a person while it works: live steps on a terminal, plain lines elsewhere.

One narrator a command; everything that takes longer than a blink is one `step`, which ends with its duration or its error.
A reader that went (`| head`) ends the command quietly; an output that takes nothing more is an `OutputLost`.
"""

import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.status import Status

from noctaya.local.errors import OutputLost


class Narrator:
    """Prints steps and lines to standard output."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False, soft_wrap=True, file=sys.stdout)
        self._status: Status | None = None

    @contextmanager
    def step(self, doing: str, done: str) -> Iterator[None]:
        """Show `doing` while the body runs, then `done` with the seconds it took; an exception leaves a cross."""
        start = time.monotonic()
        if self.console.is_terminal:
            self._status = self.console.status(doing)
            self._status.start()
        else:
            self._print(f"… {doing}")
        try:
            yield
        except asyncio.CancelledError:
            self._stop()
            self._print(f"· {doing}: interrupted ({time.monotonic() - start:.1f} s); ending the cluster")
            raise
        except BaseException:
            self._stop()
            self._print(f"✗ {doing} ({time.monotonic() - start:.1f} s)", style="red")
            raise
        self._stop()
        self._print(f"✓ {done} ({time.monotonic() - start:.1f} s)", style="green")

    def update(self, doing: str) -> None:
        """Change what the current step says; without a terminal the change is left out."""
        if self._status is not None:
            self._status.update(doing)

    def line(self, text: str = "", *, style: str | None = None) -> None:
        """One line, as it is."""
        self._print(text, style=style)

    def piece(self, text: str) -> None:
        """A piece of a line: a model's answer as it comes."""
        self._print(text, end="")

    def _print(self, text: str, *, style: str | None = None, end: str = "\n") -> None:
        try:
            self.console.print(text, style=style, end=end, markup=False)
        except OSError as error:  # a broken pipe is not among them: rich ends the command then
            raise OutputLost(error.strerror or str(error)) from error

    def _stop(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

"""What a person sees while the cluster is built and started.

On a terminal one live line says what is being done; elsewhere (a CI log) the same is a plain line every 15 s, so that a
long build is never silent. A finished step is a line of its own in both.
"""

import time
from types import TracebackType

from rich.console import Console
from rich.status import Status

PLAIN_INTERVAL_SECONDS = 15.0


class Progress:
    """One run's narration. Use as a context manager: a live line needs an end."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(stderr=True, highlight=False, soft_wrap=True)
        self._status: Status | None = None
        self._plain_at = time.monotonic()
        self._started_at = time.monotonic()

    def __enter__(self) -> "Progress":
        self._plain_at = self._started_at = time.monotonic()
        if self.console.is_terminal:
            self._status = self.console.status("")
            self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None

    def working(self, text: str) -> None:
        """Say what is being done now."""
        line = f"{text} ({time.monotonic() - self._started_at:.0f} s)"
        if self._status is not None:
            self._status.update(line)
        elif time.monotonic() - self._plain_at >= PLAIN_INTERVAL_SECONDS:
            self._say(line)

    def finished(self, text: str, seconds: float) -> None:
        """Say that a step is done and how long it took."""
        self._say(f"{seconds:6.1f} s  {text}")

    def _say(self, line: str) -> None:
        self._plain_at = time.monotonic()
        self.console.print(line, markup=False)

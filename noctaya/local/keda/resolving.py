"""When the name in a scaler's address is looked up: at the first call, and later only after a connection was lost (C2).

Pure. Two look-ups that worked lie at least `apart_seconds` apart, so pods behind a headless Service that merely joined are
not noticed; one that failed is repeated after 1, 1.6, 2.56, ... seconds.
"""

GROWTH = 1.6


class Resolution:
    """One name's schedule. It is asked by a shell that looks up whenever `due` says zero."""

    def __init__(self, apart_seconds: float, first_retry_seconds: float, most_retry_seconds: float) -> None:
        self._apart_seconds = apart_seconds
        self._first_retry_seconds = first_retry_seconds
        self._most_retry_seconds = most_retry_seconds
        self._retry_seconds = first_retry_seconds
        self._is_wanted = True
        self._not_before: float | None = None

    def connection_lost(self) -> None:
        """A connection broke or could not be made: the name may point elsewhere by now."""
        self._is_wanted = True

    def started(self) -> None:
        """A look-up begins; a connection lost while it runs asks for another one."""
        self._is_wanted = False

    def succeeded(self, now: float) -> None:
        """The look-up gave at least one address."""
        self._retry_seconds = self._first_retry_seconds
        self._not_before = now + self._apart_seconds

    def failed(self, now: float) -> None:
        """The look-up failed or gave nothing; it stays wanted."""
        self._is_wanted = True
        self._not_before = now + self._retry_seconds
        self._retry_seconds = min(self._retry_seconds * GROWTH, self._most_retry_seconds)

    def due(self, now: float) -> float | None:
        """Seconds until the next look-up; None while nobody wants one."""
        if not self._is_wanted:
            return None
        return 0.0 if self._not_before is None else max(0.0, self._not_before - now)

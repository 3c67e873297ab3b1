"""A kubelet's back-off for things that fail again and again: the first retry at once, then base, doubling to a maximum.

Pure. The slate is clean again when the thing lasted for twice the maximum.
"""


class Backoff:
    """When may this be tried again?"""

    def __init__(self, base_seconds: float, maximum_seconds: float, *, first_at_once: bool = True) -> None:
        self.base_seconds = base_seconds
        self.maximum_seconds = maximum_seconds
        self._first_at_once = first_at_once
        self._last_try: float | None = None
        self.seconds = 0.0
        """The pause that the last call of `after` decided on."""

    def after(self, failed: float) -> float:
        """The time of the next try, for a failure at `failed`."""
        if self._last_try is not None and failed - self._last_try > 2 * self.maximum_seconds:
            self._last_try = None
            self.seconds = 0.0
        if self._last_try is None and self._first_at_once:
            self.seconds = 0.0
        else:
            self.seconds = min(max(self.seconds * 2, self.base_seconds), self.maximum_seconds)
        self._last_try = failed + self.seconds
        return self._last_try

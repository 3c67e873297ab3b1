"""What the push loop does with the end of a stream and with a message on it (keda.md, sections 2.3 and 4.5).

Pure: the shell in `scaleloop.py` tells what happened and does what it is told. Invariant: only an OK end brings the delay
back to two seconds; a stream that delivered for days and then broke still counts as one more failure.
"""

from collections.abc import Iterable

FIRST_DELAY_SECONDS = 2.0
LONGEST_DELAY_SECONDS = 60.0


class Reopening:
    """How long to wait before a StreamIsActive is opened again; lives as long as one scale loop."""

    def __init__(self) -> None:
        self._next_seconds = FIRST_DELAY_SECONDS

    def ended(self, *, ok: bool) -> float:
        """Seconds to wait after a stream ended, with status OK or with any error."""
        if ok:
            self._next_seconds = FIRST_DELAY_SECONDS
        delay = self._next_seconds
        self._next_seconds = min(2 * delay, LONGEST_DELAY_SECONDS)
        return delay


def is_heard(result: bool, trigger_index: int, external_metric_names: Iterable[str]) -> bool:
    """Whether a pushed value has any effect.

    `false` never has (since 2.18.0), and `true` has none until a reconcile has put this trigger's metric, `s<index>-…`, into
    `status.externalMetricNames` (since 2.20): a scaler that pushes only once may be lost.
    """
    prefix = f"s{trigger_index}-"
    return result and any(name.startswith(prefix) for name in external_metric_names)

"""The one clock by which leases, watches and back-off are judged.

CLOCK_BOOTTIME goes on while the machine sleeps; CLOCK_MONOTONIC does not, so a process woken from a suspended laptop or a
frozen VM would believe its lease and its watch fresh. Where the kernel has no BOOTTIME the monotonic clock must do.
"""

from __future__ import annotations

import time

_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def boottime() -> float:
    """Seconds since boot, suspended time included."""
    return time.clock_gettime(_CLOCK)

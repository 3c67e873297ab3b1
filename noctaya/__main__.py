"""`python -m noctaya` is the `noctaya` command."""

import os
import signal
from types import FrameType
from typing import NoReturn

ENDED_BY_SIGTERM = 143


def end_at_once(number: int, frame: FrameType | None) -> NoReturn:
    """There is nothing to finish yet."""
    del number, frame
    os._exit(ENDED_BY_SIGTERM)


if __name__ == "__main__":
    # A container's first process never sees a signal that it has no handler for: without this one a SIGTERM that comes while
    # our modules load is lost, and the pod hangs for its whole grace. Roles put their own in its place once they run.
    signal.signal(signal.SIGTERM, end_at_once)
    from noctaya.cli import main

    main()

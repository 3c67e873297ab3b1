"""A tiny process that outlives the agent by a moment and kills what the agent left behind.

Its standard input is a pipe from the agent: `+PID` when a process group starts, `-PID` when it is over. The end of the pipe
means that the agent is gone, cleanly or not; whatever group is still known then gets SIGKILL. PR_SET_PDEATHSIG alone
(`launch.py`) would miss the children of a container's own process. Run as `python -I -S warden.py`.
"""

import contextlib
import os
import signal
import sys


def main() -> None:
    """Keep the list until the pipe ends, then kill the rest."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # Ctrl-C and a terminal's end are for the agent
    groups: set[int] = set()
    for line in sys.stdin:
        group = int(line[1:])
        if line[0] == "+":
            groups.add(group)
        else:
            groups.discard(group)
    for group in groups:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)


if __name__ == "__main__":
    main()

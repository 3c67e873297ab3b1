"""Runs before a container's program: ties its life to the agent's, then becomes the program.

Started by path as `python -I -S launch.py AGENT_PID PROGRAM ARGUMENT…` (about 20 ms, no site packages). PR_SET_PDEATHSIG makes
the kernel SIGKILL the program when the agent dies, however it dies; it survives `exec`. Where there is no prctl (not Linux)
the warden alone does it (`warden.py`). A program that cannot be executed is exit 127, as a shell has it.
"""

import os
import signal
import sys

PR_SET_PDEATHSIG = 1
CANNOT_EXECUTE = 127


def main() -> None:
    """Become the program; return only by exiting."""
    agent, argv = int(sys.argv[1]), sys.argv[2:]
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != agent:  # it died before prctl could see it
        sys.exit(128 + signal.SIGKILL)
    for number in (signal.SIGPIPE, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)  # Python ignores SIGPIPE; a program expects the defaults
    try:
        os.execvp(argv[0], argv)
    except OSError as error:
        sys.stderr.write(f"cannot execute {argv[0]}: {error.strerror}\n")
        sys.exit(CANNOT_EXECUTE)


if __name__ == "__main__":
    main()

"""Linux namespaces by system call: the few that Python 3.11 has no name for.

`unshare` and `enter` act on the calling thread only, so callers have no other thread whose place would matter.
How it fails: without the right (root), as the system says, with the namespace's kind in the message.
"""

import ctypes
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from pathlib import Path

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG = 1


class Kind(IntEnum):
    """Kinds of namespaces, by the flags of clone(2)."""

    MOUNT = 0x00020000
    PROCESS = 0x20000000
    NETWORK = 0x40000000


def unshare(*kinds: Kind) -> None:
    """Give the caller new namespaces; a PROCESS one takes effect for the next child, which becomes its first process."""
    _check(_LIBC.unshare(sum(kinds)), f"unshare {', '.join(kind.name.lower() for kind in kinds)} namespace")


def end_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """Ask the kernel for a signal when the parent ends, however it ends."""
    _check(_LIBC.prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0), "prctl PR_SET_PDEATHSIG")


@contextmanager
def network_of(pid: int) -> Iterator[None]:
    """Be in the network of process `pid`: sockets made and processes started in the body belong there."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        there = os.open(Path(f"/proc/{pid}/ns/net"), os.O_RDONLY | os.O_CLOEXEC)
        try:
            _check(_LIBC.setns(there, int(Kind.NETWORK)), f"enter the network namespace of process {pid}")
        finally:
            os.close(there)
        try:
            yield
        finally:
            _check(_LIBC.setns(home, int(Kind.NETWORK)), "return to the network namespace before")
    finally:
        os.close(home)


def _check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")

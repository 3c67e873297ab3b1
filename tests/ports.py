"""Ports for programs that start a moment later.

They lie below the range from which the kernel takes the ports of outgoing connections (32768 and up on Linux, 49152 and up
elsewhere): one out of that range, free now, may be somebody's connection when the program comes to listen. A process never gives
the same one twice, and sessions side by side have ports of their own: whoever has one may not listen yet.
"""

from __future__ import annotations

import os
import random
import socket

LOOPBACK = "127.0.0.1"
SESSION_NUMBER = "TEST_SESSION_NUMBER"
"""From 0; which of the sessions side by side this is."""
A_SESSIONS = 2_500
_FIRST = 20_000 + A_SESSIONS * int(os.environ.get(SESSION_NUMBER, "0"))
RANGE = range(_FIRST, _FIRST + A_SESSIONS)
_given: set[int] = set()


class NoPortIsFree(Exception):
    """Something listens on all of them, or they were given before."""


def free_port() -> int:
    """A port of loopback on which nothing listens now."""
    return free_ports(1)[0]


def free_ports(count: int) -> list[int]:
    """Ports of loopback on which nothing listens now, all different."""
    found: list[int] = []
    for port in random.sample(RANGE, len(RANGE)):
        if len(found) == count:
            return found
        if port not in _given and _is_free(port):
            found.append(port)
            _given.add(port)
    raise NoPortIsFree(f"{count} ports of {LOOPBACK} were wanted, {len(found)} of {RANGE} are free")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as those do that will listen
        try:
            probe.bind((LOOPBACK, port))
        except OSError:
            return False
    return True

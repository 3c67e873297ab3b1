"""Sockets to listen on, with errors that name the port and the setting that changes it."""

import errno
import socket

from noctaya.gateway.errors import CannotListen, PortInUse

BACKLOG = 1024


def listening_socket(host: str, port: int, setting: str) -> socket.socket:
    """A bound, listening, non-blocking TCP socket; port 0 picks a free one.

    Raises:
        PortInUse: another process listens there.
        CannotListen: the address is not ours, or not allowed.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise PortInUse(host, port, setting) from error
        raise CannotListen(host, port, setting, error.strerror or str(error)) from error
    listener.setblocking(False)
    return listener

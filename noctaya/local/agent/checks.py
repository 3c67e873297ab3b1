"""Asking a container: HTTP, TCP or a command, each within its timeout, with an answer in a kubelet's words.

HTTP is spoken plainly on a fresh connection each time, as a kubelet does it; only the status line matters. TLS is not
verified. A failed check is an answer, not an error.
"""

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from noctaya.local.agent.spec import Check, Exec, HttpGet, TcpSocket

STATUS_LINE_BYTES = 1024

RunCommand = Callable[[tuple[str, ...]], Awaitable[tuple[int, str]]]
"""Runs a command as if in the container: (exit code, output)."""


@dataclass(frozen=True, slots=True)
class Answer:
    """Whether the check passed, and what to tell a person if not."""

    good: bool
    detail: str = ""


async def ask(check: Check, ip: str, timeout_seconds: float, run: RunCommand) -> Answer:
    """Perform one check."""
    try:
        async with asyncio.timeout(timeout_seconds):
            match check:
                case HttpGet():
                    return await ask_http(check, check.host or ip)
                case TcpSocket():
                    return await ask_tcp(check, check.host or ip)
                case Exec(command):
                    code, output = await run(command)
                    return Answer(code == 0, output.strip() or f"command ended with {code}")
    except TimeoutError:
        return Answer(False, f"no answer within {timeout_seconds:g} s")


async def ask_tcp(check: TcpSocket, host: str) -> Answer:
    """Open a connection and close it."""
    try:
        _, writer = await asyncio.open_connection(host, check.port)
    except OSError as error:
        return Answer(False, f"dial tcp {host}:{check.port}: {reason_of(error)}")
    writer.transport.abort()
    return Answer(True)


async def ask_http(check: HttpGet, host: str) -> Answer:
    """GET the path; 200-399 passes."""
    url = f"{check.scheme}://{host}:{check.port}{check.path}"
    tls = unverified() if check.scheme == "https" else None
    try:
        reader, writer = await asyncio.open_connection(host, check.port, ssl=tls, limit=STATUS_LINE_BYTES)
    except OSError as error:
        return Answer(False, f'Get "{url}": dial tcp {host}:{check.port}: {reason_of(error)}')
    try:
        headers = {
            "Host": f"{host}:{check.port}",
            "User-Agent": "kube-probe/1.35",
            "Accept": "*/*",
            "Connection": "close",
        }
        headers.update(check.headers)
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"GET {check.path} HTTP/1.1\r\n{lines}\r\n".encode())
        line = await reader.readline()
    except (OSError, ValueError) as error:
        return Answer(False, f'Get "{url}": {error}')
    finally:
        writer.transport.abort()
    words = line.split()
    if len(words) < 2 or not words[1].isdigit():
        return Answer(False, f'Get "{url}": malformed or empty HTTP answer')
    status = int(words[1])
    return Answer(200 <= status < 400, f"HTTP probe failed with statuscode: {status}")


def unverified() -> ssl.SSLContext:
    """A kubelet does not verify certificates of the pods that it asks."""
    tls = ssl.create_default_context()
    tls.check_hostname = False
    tls.verify_mode = ssl.CERT_NONE
    return tls


def reason_of(error: OSError) -> str:
    """`connect: connection refused` rather than Python's longer text."""
    if isinstance(error, ConnectionRefusedError):
        return "connect: connection refused"
    with contextlib.suppress(AttributeError):
        return str(error.strerror or error)
    return str(error)

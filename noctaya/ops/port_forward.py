"""`kubectl port-forward` to one pod, as a child process of ours that ends when we are done with it.

kubectl does it, and not we, because it knows every way of credentials and proxies that a person's kubeconfig may name. Fails
with `KubectlMissing`, or with `PortForwardFailed` and kubectl's own words.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil

from noctaya.ops.errors import KubectlMissing, PortForwardFailed

START_SECONDS = 20.0
END_SECONDS = 3.0
KEPT_BYTES = 4096
_LISTENS = re.compile(rb"Forwarding from (127\.0\.0\.1:\d+) ->")


class PortForward:
    """One running kubectl."""

    def __init__(self, transport: asyncio.SubprocessTransport, kubectl: _Kubectl, url: str) -> None:
        self.url = url
        self._transport = transport
        self._kubectl = kubectl

    async def close(self) -> None:
        """End it."""
        await _end(self._transport, self._kubectl)


async def port_forward(
    pod: str, namespace: str, port: int, *, kubeconfig: str | None = None, context: str | None = None
) -> PortForward:
    """Forward a free port of 127.0.0.1 to `port` of `pod`; `url` is where it listens."""
    program = shutil.which("kubectl")
    if program is None:
        raise KubectlMissing
    words = [
        program,
        "port-forward",
        "--address",
        "127.0.0.1",
        "--namespace",
        namespace,
        f"pod/{pod}",
        f":{port}",
    ]
    if context:
        words += ["--context", context]
    # A kubeconfig may be several files, which the variable takes and the option does not.
    environment = {**os.environ, "KUBECONFIG": kubeconfig} if kubeconfig else None
    transport, kubectl = await asyncio.get_running_loop().subprocess_exec(
        _Kubectl, *words, stdin=asyncio.subprocess.DEVNULL, env=environment
    )
    try:
        async with asyncio.timeout(START_SECONDS):
            await kubectl.has_begun.wait()
    except TimeoutError:
        await _end(transport, kubectl)
        raise PortForwardFailed(pod, f"nothing within {START_SECONDS:g} s: {kubectl.words()}") from None
    except BaseException:
        await _end(transport, kubectl)
        raise
    if kubectl.address is None:
        await _end(transport, kubectl)
        raise PortForwardFailed(pod, kubectl.words())
    return PortForward(transport, kubectl, f"http://{kubectl.address}")


class _Kubectl(asyncio.SubprocessProtocol):
    """What it says, bounded: it says something for every connection, and nobody reads that."""

    def __init__(self) -> None:
        self.has_begun = asyncio.Event()
        """It listens, or it has ended."""
        self.has_ended = asyncio.Event()
        self.address: str | None = None
        self._said = bytearray()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        del fd
        self._said += data
        if (found := _LISTENS.search(self._said)) is not None and self.address is None:
            self.address = found[1].decode()
            self.has_begun.set()
        del self._said[:-KEPT_BYTES]

    def connection_lost(self, exc: Exception | None) -> None:
        """It has ended, and all that it said has been read."""
        del exc
        self.has_begun.set()
        self.has_ended.set()

    def words(self) -> str:
        return " ".join(self._said.decode(errors="replace").split())


async def _end(transport: asyncio.SubprocessTransport, kubectl: _Kubectl) -> None:
    """Ask it to end, then make it; the transport closes in any case."""
    try:
        for end in (transport.terminate, transport.kill):
            if transport.get_returncode() is None:
                end()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(END_SECONDS):
                    await kubectl.has_ended.wait()
                return
    finally:
        transport.close()

"""The connections to other workers: one an address, opened when it is first wanted, closed when it has long not been.

Bounded: with `most` open and all in use, another address is not connected to; else the one that rested longest makes room.
Only a channel that nobody uses is closed, since closing cancels what is under way on it. One that is not `is_current` any more
(made with a certificate that was replaced since, which it would go on using) is not given out again.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

import grpc.aio

from noctaya.wire import PEER_OPTIONS, peer_grpc
from noctaya.wire.mutual_tls import open_plaintext
from noctaya.wire.options import PEER_IDLE_SECONDS

MAX_CHANNELS: Final = 256

OpenChannel = Callable[[str], grpc.aio.Channel]


def insecure(address: str) -> grpc.aio.Channel:
    """A channel in clear text; making it connects nothing yet."""
    return open_plaintext(address, PEER_OPTIONS)


@dataclass(slots=True)
class _Line:
    channel: grpc.aio.Channel
    stub: Any
    used_at: float
    users: int = 0


class PeerChannels:
    """See the module. Times are `clock`'s seconds."""

    def __init__(
        self,
        open_channel: OpenChannel,
        clock: Callable[[], float],
        *,
        most: int = MAX_CHANNELS,
        idle_seconds: float = PEER_IDLE_SECONDS,
        is_current: Callable[[grpc.aio.Channel], bool] = lambda channel: True,
    ) -> None:
        self._open_channel = open_channel
        self._is_current = is_current
        self._retired: list[_Line] = []
        self._clock = clock
        self._most = most
        self._idle_seconds = idle_seconds
        self._lines: dict[str, _Line] = {}
        """By address; who was used last is last."""
        self.is_closed = False

    @asynccontextmanager
    async def use(self, address: str) -> AsyncIterator[Any]:
        """A stub that speaks to `address` while the context lasts; None when there is no room, or all is over.

        Raises whatever `open_channel` does.
        """
        line = self._line(address)
        if line is None:
            yield None
            return
        line.users += 1
        try:
            yield line.stub
        finally:
            line.users -= 1
            line.used_at = self._clock()
            await self._close_idle()

    async def close(self) -> None:
        """Close all; what is under way is cancelled."""
        self.is_closed = True
        lines, self._lines, self._retired = [*self._lines.values(), *self._retired], {}, []
        for line in lines:
            await line.channel.close()

    @property
    def addresses(self) -> list[str]:
        """Those with a channel."""
        return list(self._lines)

    def _line(self, address: str) -> _Line | None:
        line = self._lines.pop(address, None)
        if line is not None and not self._is_current(line.channel):
            self._retired.append(line)
            line = None
        if line is None:
            if self.is_closed or not self._make_room():
                return None
            channel = self._open_channel(address)
            stub: Any = peer_grpc.PeerStub(channel)
            line = _Line(channel, stub, self._clock())
        self._lines[address] = line
        return line

    def _make_room(self) -> bool:
        if len(self._lines) < self._most:
            return True
        resting = next((address for address, line in self._lines.items() if not line.users), None)
        if resting is None:
            return False
        self._retired.append(self._lines.pop(resting))  # closed when the next call is over
        return True

    async def _close_idle(self) -> None:
        before = self._clock() - self._idle_seconds
        idle = [address for address, line in self._lines.items() if not line.users and line.used_at <= before]
        over = [self._lines.pop(address) for address in idle]
        over += [line for line in self._retired if not line.users]
        self._retired = [line for line in self._retired if line.users]
        for line in over:
            await line.channel.close()

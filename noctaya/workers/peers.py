"""Speaking to other workers: notes, signs of life, questions (`peer.proto`). The other side is `peer_service.py`.

Nothing here raises and nothing waits longer than its deadline: a peer that is gone, slow, another process or another fleet is
one that did not hear. Whoever calls goes on by its own clock. A note waits for its connection; a question does not: where a
connection has just failed, KEDA is better told at once what can be told without the owner.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

import grpc.aio

from noctaya.errors import NoctayaError
from noctaya.kube.clock import boottime
from noctaya.leader.lease_names import pod_of_incarnation
from noctaya.telemetry import context
from noctaya.wire import peer
from noctaya.workers.peer_channels import OpenChannel, PeerChannels, insecure
from noctaya.workers.peer_notes import Note, PeerRefused, Probe, sender_of, write
from noctaya.workers.questions import Answer, Question, read_answer, write_question

log = logging.getLogger(__name__)

TELL_SECONDS: Final = 1.0
ASK_SECONDS: Final = 1.0


class Peers:
    """See the module.

    `fleet()` and `me()` are our fleet's id and our incarnation at this moment, "" while there is none; `address_of(pod)` is
    the `host:port` in its member record, "" when that is not known; `open_channel` may raise a NoctayaError or OSError.
    """

    def __init__(
        self,
        *,
        fleet: Callable[[], str],
        me: Callable[[], str],
        address_of: Callable[[str], str],
        open_channel: OpenChannel = insecure,
        is_current: Callable[[grpc.aio.Channel], bool] = lambda channel: True,
        clock: Callable[[], float] = boottime,
    ) -> None:
        self.told = {"heard": 0, "not_heard": 0, "unanswered": 0, "unaddressed": 0}
        """Notes and probes by what became of them. Not heard: another process was there."""
        self.asked = {"answered": 0, "unanswered": 0, "unaddressed": 0}
        """Questions by what became of them."""
        self._fleet = fleet
        self._me = me
        self._address_of = address_of
        self._channels = PeerChannels(open_channel, clock, is_current=is_current)

    async def tell(self, receiver: str, note: Note) -> bool:
        """Whether the incarnation `receiver` has heard `note`, within a second."""
        return await self._deliver(receiver, self._where(receiver), note)

    async def probe(self, incarnation: str, address: str) -> bool:
        """Whether that very incarnation gave a sign of life at `address` within a second."""
        return await self._deliver(incarnation, address, Probe())

    async def ask(self, owner: str, question: Question) -> Answer | None:
        """What the worker of the incarnation `owner` answers within a second; None: nothing that can be used."""
        fleet, address = self._fleet(), self._where(owner)
        if not fleet or not address:
            self.asked["unaddressed"] += 1
            return None
        request = write_question(question, fleet)
        told = await self._call(address, "Ask", request, ASK_SECONDS, waits=False)
        answer: Answer | None = None
        if told is not None:
            try:
                answer = read_answer(told, question.about)
            except PeerRefused as error:
                log.warning("a peer's answer cannot be", extra=context(peer=owner, error=error))
        self.asked["unanswered" if answer is None else "answered"] += 1
        return answer

    async def close(self) -> None:
        """Close every connection. What is under way was not heard, and nothing is from now on."""
        await self._channels.close()

    # -- how ---------------------------------------------------------------------------------------------------------

    def _where(self, incarnation: str) -> str:
        pod = pod_of_incarnation(incarnation)
        return self._address_of(pod) if pod else ""

    async def _deliver(self, receiver: str, address: str, note: Note) -> bool:
        fleet, sender = self._fleet(), sender_of(note, self._me())
        if not (fleet and receiver and address) or not (sender or isinstance(note, Probe)):
            self.told["unaddressed"] += 1
            return False
        request = write(note, fleet=fleet, sender=sender, receiver=receiver)
        receipt: peer.Receipt | None = await self._call(address, "Tell", request, TELL_SECONDS, waits=True)
        if receipt is None:
            self.told["unanswered"] += 1
            return False
        self.told["heard" if receipt.is_heard else "not_heard"] += 1
        return receipt.is_heard

    async def _call(
        self, address: str, method: str, request: peer.Note | peer.Question, seconds: float, *, waits: bool
    ) -> Any:
        """The answer, or None when there was none in time."""
        try:
            async with self._channels.use(address) as stub:
                if stub is None:
                    return None
                return await getattr(stub, method)(request, timeout=seconds, wait_for_ready=waits)
        except (grpc.aio.AioRpcError, grpc.aio.BaseError, NoctayaError, OSError) as error:
            log.debug("a peer did not answer", extra=context(address=address, method=method, error=error))
            return None
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if self._channels.is_closed and task is not None and not task.cancelling():
                return None  # it is the call that was cancelled, by `close`
            raise

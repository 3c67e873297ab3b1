"""Hearing other workers: the servicer of `peer.proto`. The other side is `peers.py`.

A note is taken in by the very process that it is for, or by none: receiver and fleet are compared first, and while this
process has no incarnation, or no fleet, nothing is for it. Then it is read, and refused whole if anything in it cannot be.
Questions are answered from memory, at once; whether we may answer is decided by whoever we ask (`relay.Respondent`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc
import grpc.aio

from noctaya.wire import peer, peer_grpc
from noctaya.workers import shard_events as owns
from noctaya.workers.peer_notes import PeerRefused, Probe, read
from noctaya.workers.questions import Answer, Question, read_question, write_answer
from noctaya.workers.shard_memory import ShardMemory

Context = grpc.aio.ServicerContext[Any, Any]


class PeerService(peer_grpc.PeerServicer):
    """See the module.

    `fleet()` and `me()`: our fleet's id and incarnation at this moment, "" while there is none. `hear` is told what peers
    say, `adopt` what the former owner of a shard knew of it, `answer` is asked what a peer asks.
    """

    def __init__(
        self,
        fleet: Callable[[], str],
        me: Callable[[], str],
        hear: Callable[[owns.Event], None],
        adopt: Callable[[ShardMemory], None],
        answer: Callable[[Question], Answer],
    ) -> None:
        self.notes: dict[tuple[str, str], int] = {}
        """Notes by kind and what became of them: heard, stray (for another process) or refused."""
        self.questions: dict[tuple[str, str], int] = {}
        """Questions by what they were about and the kind of the answer, stray or refused."""
        self._fleet = fleet
        self._me = me
        self._hear = hear
        self._adopt = adopt
        self._answer = answer

    async def Tell(self, request: peer.Note, context: Context) -> peer.Receipt:  # noqa: N802
        """One note."""
        kind = request.WhichOneof("kind") or "unknown"
        if not (self._is_our_fleet(request.fleet) and self._is_us(request.receiver)):
            _count(self.notes, kind, "stray")
            return peer.Receipt(is_heard=False)
        try:
            heard = read(request)
        except PeerRefused as error:
            _count(self.notes, kind, "refused")
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        _count(self.notes, kind, "heard")
        if isinstance(heard, ShardMemory):
            self._adopt(heard)
        elif not isinstance(heard, Probe):
            self._hear(heard)
        return peer.Receipt(is_heard=True)

    async def Ask(self, request: peer.Question, context: Context) -> peer.Answer:  # noqa: N802
        """One question of KEDA's, relayed."""
        about = _about(request)
        if not self._is_our_fleet(request.fleet):
            _count(self.questions, about, "stray")
            await context.abort(
                grpc.StatusCode.FAILED_PRECONDITION, "the question is of another fleet than this worker's"
            )
        try:
            question = read_question(request)
        except PeerRefused as error:
            _count(self.questions, about, "refused")
            await context.abort(grpc.StatusCode.INVALID_ARGUMENT, str(error))
        answer = write_answer(self._answer(question))
        _count(self.questions, about, answer.WhichOneof("kind") or "unknown")
        return answer

    def _is_our_fleet(self, fleet: str) -> bool:
        return bool(fleet) and fleet == self._fleet()

    def _is_us(self, receiver: str) -> bool:
        return bool(receiver) and receiver == self._me()


def _about(question: peer.Question) -> str:
    known = question.about in peer.Question.About.values()
    return peer.Question.About.Name(question.about).lower() if known else "unknown"


def _count(counts: dict[tuple[str, str], int], kind: str, result: str) -> None:
    counts[kind, result] = counts.get((kind, result), 0) + 1

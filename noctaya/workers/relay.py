"""KEDA's questions about shards of other workers: asking their owner, and answering as one.

KEDA reaches any worker, and only a shard's owner knows its demand for certain. A question goes to whoever the shard's record
names, with the epoch that is known here, and once more only if the record has named another meanwhile.

Invariants: a question is answered by who owns the shard under the highest epoch that asker and asked know of, or not at all;
an owner that is told of a higher epoch doubts itself before it answers. `Respondent` has nobody to ask, so that a relayed
question is never relayed again. Bounded in number and time (`MAX_UNDER_WAY`, `RELAY_SECONDS`); beyond, there is no answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Final, Protocol

from noctaya.workers.permission import Permission
from noctaya.workers.questions import Answer, Question, WrongOwner

RELAY_SECONDS: Final = 1.0
MAX_UNDER_WAY: Final = 1000
ATTEMPTS: Final = 2


class Shards(Protocol):
    """What of `Ownership` is asked."""

    def permission(self, shard: int) -> Permission: ...
    def epoch(self, shard: int) -> int: ...
    def owner(self, shard: int) -> tuple[str, int]: ...
    def see_epoch(self, shard: int, epoch: int) -> None: ...


class Relay:
    """Asks owners. `ask(incarnation, question)` is `Peers.ask`; `me()` is our own incarnation."""

    def __init__(
        self,
        ask: Callable[[str, Question], Awaitable[Answer | None]],
        shards: Shards,
        *,
        me: Callable[[], str],
        most: int = MAX_UNDER_WAY,
        seconds: float = RELAY_SECONDS,
    ) -> None:
        self.under_way = 0
        self.relayed = {"answered": 0, "unanswered": 0, "refused": 0}
        """Questions by what became of them; refused: too many were under way."""
        self._ask = ask
        self._shards = shards
        self._me = me
        self._most = most
        self._seconds = seconds

    async def ask(self, question: Question) -> Answer | None:
        """The owner's word; None when nobody owns the shard, or its owner does not answer in time."""
        if self.under_way >= self._most:
            self.relayed["refused"] += 1
            return None
        self.under_way += 1
        answer: Answer | None = None
        try:
            async with asyncio.timeout(self._seconds):
                answer = await self._ask_owner(question)
        except TimeoutError:
            answer = None
        finally:
            self.under_way -= 1
        self.relayed["unanswered" if answer is None else "answered"] += 1
        return answer

    async def _ask_owner(self, question: Question) -> Answer | None:
        asked = {"", self._me()}
        for _ in range(ATTEMPTS):
            holder, epoch = self._shards.owner(question.shard)
            if holder in asked:
                return None
            asked.add(holder)
            answer = await self._ask(holder, replace(question, epoch_known=epoch))
            if not isinstance(answer, WrongOwner):
                return answer
            self._shards.see_epoch(question.shard, answer.epoch)
        return None


class Respondent:
    """Answers what peers ask. `answer(question)` is what this worker would tell KEDA itself (`ExternalScaler.answer`)."""

    def __init__(self, shards: Shards, answer: Callable[[Question], Answer]) -> None:
        self._shards = shards
        self._answer = answer

    def answer(self, question: Question) -> Answer:
        """Our word as the shard's owner."""
        shards, shard = self._shards, question.shard
        if self._is_behind(question):
            shards.see_epoch(shard, question.epoch_known)
        elif shards.permission(shard) is not Permission.NONE:
            return self._answer(question)
        return WrongOwner(max(shards.epoch(shard), shards.owner(shard)[1]))

    def _is_behind(self, question: Question) -> bool:
        return question.epoch_known > self._shards.epoch(question.shard)

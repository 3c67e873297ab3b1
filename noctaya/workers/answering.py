"""What KEDA is told about one service, whoever owns its shard.

Of our own shards we answer from memory (`metric.py`, `recency.py`), in the same words to KEDA and to a peer whom KEDA has
asked. About a shard of another worker its owner is asked, and the owner's word is told as it is.

Without the owner's word, nothing is told that could put a model to sleep: never inactive, never a number below what keeps the
replicas that it has. A model that is awake is active with just those (`metric.held_value`), as long as the view of the
Deployments is current: an error could close KEDA's cache of scalers (see `metric.py`). Of any other there is no answer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from noctaya.workers.audit import OFF, Audit
from noctaya.workers.demand import Demand
from noctaya.workers.metric import Answers, Silence, held_value
from noctaya.workers.permission import Permission
from noctaya.workers.questions import About, Active, Answer, Question, Stranger, Wanted
from noctaya.workers.recency import Recency


class Answering:
    """See the module; the arguments are those of `scaler.ExternalScaler`."""

    def __init__(
        self,
        *,
        demand: Callable[[str, float], Demand],
        permission: Callable[[int], Permission],
        is_known: Callable[[str], bool | None],
        replicas: Callable[[str], int],
        is_current: Callable[[], bool],
        recency: Recency,
        relay: Callable[[Question], Awaitable[Answer | None]] | None,
        clock: Callable[[], float],
        audit: Audit = OFF,
    ) -> None:
        self._audit = audit
        self.answers = Answers()
        self.ownerless = {"held": 0, "silent": 0}
        """Answers about shards of others without their owner's word, by whether the model's replicas were held."""
        self._demand = demand
        self._permission = permission
        self._is_known = is_known
        self._replicas = replicas
        self._is_current = is_current
        self._recency = recency
        self._relay = relay
        self._clock = clock

    def own(self, question: Question) -> Answer:
        """What this worker knows by itself. It asks nobody, so that a question of a peer goes no further."""
        now = self._clock()
        demand, permission = self._demand(question.key, now), self._permission(question.shard)
        answer = self._own(question, demand, permission, now)
        self._audit.told(question, answer, permission, demand)
        return answer

    def _own(self, question: Question, demand: Demand, permission: Permission, now: float) -> Answer:
        key = question.key
        if (unknown := self._unknown(key)) is not None:
            return unknown
        held = held_value(self._replicas(key), question.target)
        if question.about is About.DEMAND:
            value = self.answers.value(key, demand, permission, held)
            return value if isinstance(value, Silence) else Wanted(value)
        active = self.answers.is_active(key, demand, permission, held)
        if isinstance(active, Silence):
            return active
        return Active(active or self._recency.is_recent(key, now, question.hold_seconds))

    async def answer(self, question: Question) -> Answer:
        """The answer to KEDA: ours, or the owner's, or what may be told without it."""
        if self._is_ours(question):
            return self.own(question)
        told = await self._relay(question) if self._relay is not None else None
        if told is not None:
            return told
        # It may have become ours meanwhile.
        if self._is_ours(question):
            return self.own(question)
        answer = self._without_owner(question)
        self._audit.told(question, answer, Permission.NONE, None)
        return answer

    def _without_owner(self, question: Question) -> Answer:
        if (unknown := self._unknown(question.key)) is not None:
            return unknown
        held = held_value(self._replicas(question.key), question.target)
        if not held or not self._is_current():
            self.ownerless["silent"] += 1
            return Silence("this worker does not own the service's shard, and has no answer from who does")
        self.ownerless["held"] += 1
        return Active(True) if question.about is About.ACTIVE else Wanted(held)

    def _is_ours(self, question: Question) -> bool:
        return self._permission(question.shard) is not Permission.NONE

    def _unknown(self, key: str) -> Silence | Stranger | None:
        """Why nothing can be said of `key`; None for a service that is known."""
        known = self._is_known(key)
        if known is None:
            return Silence("this worker has just started and does not know yet")
        return None if known else Stranger()

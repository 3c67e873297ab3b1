"""A call of KEDA as a question that any worker can be asked, and the answers that there are. Pure.

The asker passes on what stands in the trigger (target, hold), so that the owner tells exactly what it would tell KEDA itself.
What comes over the wire is refused whole when something in it is out of bounds (`peer_notes.PeerRefused`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Final, TypeAlias, assert_never

from noctaya.leader.tenure import HIGHEST_CLAIM
from noctaya.wire import peer
from noctaya.workers.metric import Silence
from noctaya.workers.objects import shard_of_key, split_key
from noctaya.workers.peer_notes import PeerRefused, epoch_of, key_of
from noctaya.workers.recency import LONGEST_HOLD_SECONDS

MAX_DEMAND: Final = 2**53
MAX_REASON: Final = 500
"""Characters of a silence's reason."""


class About(Enum):
    """Which of KEDA's calls it is."""

    ACTIVE = peer.Question.ACTIVE
    DEMAND = peer.Question.DEMAND


@dataclass(frozen=True, slots=True)
class Question:
    """`target` is the trigger's; `hold_seconds` too, for ACTIVE (`recency.py`)."""

    about: About
    key: str
    target: float
    hold_seconds: float = 0.0
    epoch_known: int = 0
    """The highest epoch of the shard that the asker knows, when it asks another worker."""

    @property
    def shard(self) -> int:
        """Where its service lives."""
        return shard_of_key(self.key)


@dataclass(frozen=True, slots=True)
class Active:
    """To ACTIVE: whether anybody waits for the model, uses it, or used it a moment ago."""

    is_active: bool


@dataclass(frozen=True, slots=True)
class Wanted:
    """To DEMAND: the value of the metric."""

    demand: int


@dataclass(frozen=True, slots=True)
class Stranger:
    """There is no such LLMService."""


@dataclass(frozen=True, slots=True)
class WrongOwner:
    """Whoever was asked does not own the shard, or may not; `epoch` is the highest that it knows."""

    epoch: int


Answer: TypeAlias = Active | Wanted | Silence | Stranger | WrongOwner
"""`Silence`: there is no answer just now."""


def write_question(question: Question, fleet: str) -> peer.Question:
    """As it goes over the wire. An epoch that nobody would believe is told as the highest that is believed."""
    namespace, name = split_key(question.key)
    return peer.Question(
        fleet=fleet,
        epoch_known=min(question.epoch_known, HIGHEST_CLAIM),
        namespace=namespace,
        name=name,
        about=question.about.value,
        target=question.target,
        hold_ms=math.ceil(question.hold_seconds * 1000),
    )


def read_question(asked: peer.Question) -> Question:
    """Raises `PeerRefused` where something is out of bounds."""
    if asked.about not in (About.ACTIVE.value, About.DEMAND.value):
        raise PeerRefused("a question about nothing that this version knows")
    if not (math.isfinite(asked.target) and asked.target > 0):
        raise PeerRefused(f"target must be a number above zero, not {asked.target}")
    return Question(
        About(asked.about),
        key_of(asked.namespace, asked.name),
        asked.target,
        min(asked.hold_ms / 1000, LONGEST_HOLD_SECONDS),
        epoch_of(asked.epoch_known),
    )


def write_answer(answer: Answer) -> peer.Answer:
    """As it goes over the wire."""
    match answer:
        case Active(is_active):
            return peer.Answer(is_active=is_active)
        case Wanted(demand):
            return peer.Answer(demand=demand)
        case Silence(reason):
            return peer.Answer(silence=reason)
        case Stranger():
            return peer.Answer(stranger=peer.Stranger())
        case WrongOwner(epoch):
            return peer.Answer(wrong_owner=peer.WrongOwner(epoch=min(epoch, HIGHEST_CLAIM)))
        case _:
            assert_never(answer)


def read_answer(told: peer.Answer, about: About) -> Answer:
    """The answer to a question `about` that. Raises `PeerRefused` for one that answers another, or with what cannot be."""
    match told.WhichOneof("kind"):
        case "is_active" if about is About.ACTIVE:
            return Active(told.is_active)
        case "demand" if about is About.DEMAND:
            if told.demand > MAX_DEMAND:
                raise PeerRefused(f"a demand of {told.demand}")
            return Wanted(told.demand)
        case "silence":
            return Silence(told.silence[:MAX_REASON])
        case "stranger":
            return Stranger()
        case "wrong_owner":
            return WrongOwner(epoch_of(told.wrong_owner.epoch))
        case kind:
            raise PeerRefused(f"{kind} is no answer to a question about {about.name}")

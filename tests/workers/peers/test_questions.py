"""A relayed question reaches the owner as it was asked, its answer comes back as it was given, and nothing else does."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noctaya.leader.tenure import HIGHEST_CLAIM
from noctaya.wire import peer
from noctaya.workers.metric import Silence
from noctaya.workers.peer_notes import MAX_NAME, PeerRefused
from noctaya.workers.questions import (
    MAX_DEMAND,
    MAX_REASON,
    About,
    Active,
    Answer,
    Question,
    Stranger,
    Wanted,
    WrongOwner,
    read_answer,
    read_question,
    write_answer,
    write_question,
)
from noctaya.workers.recency import LONGEST_HOLD_SECONDS

abouts = st.sampled_from(About)


@given(
    abouts,
    st.floats(1e-3, 1e9),
    st.integers(0, int(LONGEST_HOLD_SECONDS)),
    st.integers(0, HIGHEST_CLAIM),
)
def test_a_question_arrives_as_it_was_asked(about: About, target: float, hold: int, epoch: int) -> None:
    question = Question(about, "ai/qwen", target, float(hold), epoch)
    sent = write_question(question, "f1").SerializeToString()
    assert read_question(peer.Question.FromString(sent)) == question


@given(st.floats(0, LONGEST_HOLD_SECONDS))
def test_a_hold_never_gets_shorter_on_its_way(hold: float) -> None:
    asked = read_question(write_question(Question(About.ACTIVE, "ai/qwen", 1.0, hold), "f1"))
    assert asked.hold_seconds >= hold


def test_an_epoch_that_nobody_believes_does_not_stand_in_a_questions_way() -> None:
    """An operator may have written it into the record; the owner acts under it, and knows at least as much."""
    question = Question(About.ACTIVE, "ai/qwen", 1.0, 0.0, HIGHEST_CLAIM + 5)
    assert read_question(write_question(question, "f1")).epoch_known == HIGHEST_CLAIM


def asked(**changed: object) -> peer.Question:
    fields = {"namespace": "ai", "name": "qwen", "about": peer.Question.ACTIVE, "target": 1.0} | changed
    return peer.Question(fleet="f1", **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "question",
    [
        asked(about=peer.Question.UNSPECIFIED),
        asked(about=99),
        asked(target=0.0),
        asked(target=math.nan),
        asked(target=math.inf),
        asked(name=""),
        asked(name="q" * (MAX_NAME + 1)),
        asked(namespace="a/b"),
        asked(epoch_known=HIGHEST_CLAIM + 1),
    ],
    ids=str,
)
def test_a_question_that_cannot_be_is_refused(question: peer.Question) -> None:
    with pytest.raises(PeerRefused):
        read_question(question)


ANSWERS: dict[About, list[Answer]] = {
    About.ACTIVE: [Active(True), Active(False), Silence("why"), Stranger(), WrongOwner(9)],
    About.DEMAND: [Wanted(0), Wanted(7), Silence("why"), Stranger(), WrongOwner(9)],
}


@pytest.mark.parametrize("about", About)
def test_every_answer_comes_back_as_it_was_given(about: About) -> None:
    for answer in ANSWERS[about]:
        sent = write_answer(answer).SerializeToString()
        assert read_answer(peer.Answer.FromString(sent), about) == answer


@pytest.mark.parametrize(
    ("answer", "about"),
    [
        (peer.Answer(), About.ACTIVE),
        (peer.Answer(), About.DEMAND),
        (peer.Answer(is_active=False), About.DEMAND),
        (peer.Answer(demand=0), About.ACTIVE),
        (peer.Answer(demand=MAX_DEMAND + 1), About.DEMAND),
        (peer.Answer(wrong_owner=peer.WrongOwner(epoch=HIGHEST_CLAIM + 1)), About.ACTIVE),
    ],
    ids=str,
)
def test_what_answers_no_question_is_not_taken_for_zero_or_inactive(
    answer: peer.Answer, about: About
) -> None:
    with pytest.raises(PeerRefused):
        read_answer(answer, about)


def test_a_long_reason_is_cut() -> None:
    silence = read_answer(peer.Answer(silence="x" * 10_000), About.ACTIVE)
    assert isinstance(silence, Silence)
    assert len(silence.reason) == MAX_REASON

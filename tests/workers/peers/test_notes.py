"""What the core of one worker wants said arrives at the core of another as what it is meant to be, or not at all."""

from __future__ import annotations

from typing import get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from noctaya.api.names import SHARD_COUNT, shard_of
from noctaya.leader.tenure import HIGHEST_CLAIM, HIGHEST_EPOCH
from noctaya.wire import peer
from noctaya.workers import shard_events as owns
from noctaya.workers.peer_notes import (
    MAX_INCARNATION,
    MAX_NAME,
    MAX_NAMESPACE,
    Heard,
    Note,
    PeerRefused,
    Probe,
    note_of,
    read,
    sender_of,
    write,
)
from noctaya.workers.shard_memory import MAX_SERVICES, ServiceMemory, ShardMemory

ME, YOU, HEIR, FORMER = "w0_aaaaaaaa_n1", "w1_bbbbbbbb_n1", "w2_cccccccc_n1", "w0_aaaaaaaa_n0"
KEY = "ai/qwen"
SHARD = shard_of("ai", "qwen")

shards = st.integers(0, SHARD_COUNT - 1)
epochs = st.integers(0, HIGHEST_CLAIM)
versions = st.integers(1, 2**63).map(str)


def heard(note: Note, receiver: str = YOU) -> Heard:
    """What the receiver makes of it, after a trip over the wire."""
    written = write(note, fleet="f1", sender=sender_of(note, ME), receiver=receiver)
    return read(peer.Note.FromString(written.SerializeToString()))


@given(shards, epochs, versions)
def test_every_action_for_a_peer_arrives_as_its_event(shard: int, epoch: int, version: str) -> None:
    pairs: list[tuple[owns.Action, owns.Event]] = [
        (owns.Prepare(YOU, shard), owns.PrepareAsked(ME, shard)),
        (owns.AnswerPrepared(YOU, shard), owns.Prepared(ME, shard)),
        (owns.Announce(shard, YOU, epoch, version), owns.Told(shard, YOU, epoch, version)),
        (owns.AskResign(shard, YOU, epoch), owns.ResignAsked(ME, shard, YOU, epoch)),
        (owns.AnswerResigned(YOU, shard, ME, epoch), owns.Resigned(shard, ME, epoch)),
        (owns.AskEpoch(shard), owns.EpochAsked(ME, shard)),
        (owns.AnswerEpoch(YOU, shard, epoch), owns.HigherEpochSeen(shard, epoch)),
    ]
    for action, event in pairs:
        assert heard(note_of(action)) == event


def test_who_has_resigned_speaks_for_the_incarnation_that_did() -> None:
    """This process may go on as another one by then, which has resigned nothing."""
    assert heard(owns.AnswerResigned(YOU, 3, FORMER, 8)) == owns.Resigned(3, FORMER, 8)


def test_an_action_is_a_note_or_refused_as_one() -> None:
    local = {owns.CasShard, owns.StartShard, owns.StopShard, owns.SendState, owns.Drained}
    assert {kind for kind in get_args(owns.Action) if kind not in get_args(Note)} == local
    with pytest.raises(TypeError):
        note_of(owns.StopShard(3))


def test_a_probe_says_nothing_and_needs_no_sender() -> None:
    assert read(write(Probe(), fleet="f1", sender="", receiver=YOU)) == Probe()


@given(st.integers(0, 2**32 - 1), st.integers(0, 700_000))
@example(0, 517_901)  # 517.901 * 1000 is a little less than 517901
def test_a_memory_arrives_whole(at_least: int, idle_ms: int) -> None:
    memory = ShardMemory(SHARD, 7, (ServiceMemory(KEY, at_least, idle_ms / 1000),))
    assert heard(memory) == memory


def addressed(**kind: object) -> peer.Note:
    return peer.Note(fleet="f1", sender=ME, receiver=YOU, **kind)  # type: ignore[arg-type]


def state(*names: tuple[str, str], shard: int = SHARD) -> peer.ShardState:
    services = [peer.ServiceState(namespace=namespace, name=name) for namespace, name in names]
    return peer.ShardState(shard=shard, epoch=1, services=services)


OUT_OF_BOUNDS = {
    "no kind": addressed(),
    "no sender": peer.Note(fleet="f1", receiver=YOU, prepare=peer.Prepare(shard=1)),
    "a long sender": peer.Note(
        fleet="f1", sender="w" * (MAX_INCARNATION + 1), receiver=YOU, prepare=peer.Prepare()
    ),
    "a sender with a line feed": peer.Note(fleet="f1", sender="w\n", receiver=YOU, prepare=peer.Prepare()),
    "no such shard: prepare": addressed(prepare=peer.Prepare(shard=SHARD_COUNT)),
    "no such shard: prepared": addressed(prepared=peer.Prepared(shard=SHARD_COUNT)),
    "no such shard: owned": addressed(owned=peer.Owned(shard=SHARD_COUNT, holder=HEIR, epoch=1, version="1")),
    "no such shard: resign": addressed(resign=peer.Resign(shard=SHARD_COUNT, epoch=1)),
    "no such shard: resigned": addressed(resigned=peer.Resigned(shard=SHARD_COUNT, epoch=1)),
    "no such shard: ask_epoch": addressed(ask_epoch=peer.AskEpoch(shard=SHARD_COUNT)),
    "no such shard: epoch": addressed(epoch=peer.Epoch(shard=SHARD_COUNT, epoch=1)),
    "no such shard: state": addressed(state=peer.ShardState(shard=SHARD_COUNT)),
    "an epoch beyond belief: owned": addressed(
        owned=peer.Owned(shard=1, holder=HEIR, epoch=HIGHEST_EPOCH + 1, version="1")
    ),
    "an epoch beyond belief: resign": addressed(resign=peer.Resign(shard=1, epoch=HIGHEST_EPOCH + 1)),
    "an epoch beyond belief: resigned": addressed(resigned=peer.Resigned(shard=1, epoch=HIGHEST_EPOCH + 1)),
    "an epoch beyond belief: epoch": addressed(epoch=peer.Epoch(shard=1, epoch=2**64 - 1)),
    "an epoch beyond belief: state": addressed(state=peer.ShardState(shard=1, epoch=HIGHEST_EPOCH + 1)),
    "owned by nobody": addressed(owned=peer.Owned(shard=1, epoch=1, version="1")),
    "owned at no version": addressed(owned=peer.Owned(shard=1, holder=HEIR, epoch=1)),
    "owned at a long version": addressed(owned=peer.Owned(shard=1, holder=HEIR, epoch=1, version="1" * 65)),
    "a service without a name": addressed(state=state(("ai", ""))),
    "a long name": addressed(state=state(("ai", "q" * (MAX_NAME + 1)))),
    "a long namespace": addressed(state=state(("a" * (MAX_NAMESPACE + 1), "qwen"))),
    "a name with a slash": addressed(state=state(("ai", "qwen/x"), shard=shard_of("ai", "qwen/x"))),
    "a service of another shard": addressed(state=state(("ai", "qwen"), shard=(SHARD + 1) % SHARD_COUNT)),
    "too many services": addressed(state=state(*[("ai", "qwen")] * (MAX_SERVICES + 1))),
}


@pytest.mark.parametrize("note", OUT_OF_BOUNDS.values(), ids=OUT_OF_BOUNDS)
def test_what_cannot_be_is_refused_whole(note: peer.Note) -> None:
    with pytest.raises(PeerRefused):
        read(note)


def test_as_many_services_as_are_allowed_are_taken() -> None:
    memory = read(addressed(state=state(*[("ai", "qwen")] * MAX_SERVICES)))
    assert isinstance(memory, ShardMemory)
    assert len(memory.services) == MAX_SERVICES


uint32 = st.integers(0, 2**32 - 1)
uint64 = st.integers(0, 2**64 - 1)
words = st.text(max_size=400)
kinds: st.SearchStrategy[dict[str, object]] = st.one_of(
    st.builds(dict, prepare=st.builds(peer.Prepare, shard=uint32)),
    st.builds(dict, owned=st.builds(peer.Owned, shard=uint32, holder=words, epoch=uint64, version=words)),
    st.builds(dict, resign=st.builds(peer.Resign, shard=uint32, epoch=uint64)),
    st.builds(dict, resigned=st.builds(peer.Resigned, shard=uint32, epoch=uint64)),
    st.builds(dict, epoch=st.builds(peer.Epoch, shard=uint32 | shards, epoch=uint64 | epochs)),
)


@given(kinds, words)
def test_whatever_a_peer_sends_only_what_is_in_bounds_comes_in(kind: dict[str, object], sender: str) -> None:
    note = peer.Note(fleet="f1", sender=sender, receiver=YOU, **kind)  # type: ignore[arg-type]
    try:
        event = read(note)
    except PeerRefused:
        return
    assert not isinstance(event, Probe)
    assert 0 <= getattr(event, "shard", 0) < SHARD_COUNT
    highest = HIGHEST_CLAIM if isinstance(event, owns.HigherEpochSeen) else HIGHEST_EPOCH
    assert 0 <= getattr(event, "epoch", 0) <= highest
    for name in ("peer", "holder"):
        assert 0 < len(getattr(event, name, ME)) <= MAX_INCARNATION

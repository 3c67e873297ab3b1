"""What one worker tells another, between the ownership core's language and the wire's (`peer.proto`). Pure.

On the sending side a note is the core's own action (`shard_events`), a shard's memory, or a probe; on the receiving side it is
the core's event. The two cores never see a message, nor whom it came from other than by incarnation.

Strict at the edge: whatever is out of bounds is refused whole (`PeerRefused`), before anything of it is used. The bounds are
those of the fleet (shards, believable epochs, names) and of what a receiver is willing to keep.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias, assert_never

from noctaya.api.names import SHARD_COUNT, shard_of
from noctaya.errors import NoctayaError
from noctaya.leader.tenure import HIGHEST_CLAIM, HIGHEST_EPOCH
from noctaya.wire import peer
from noctaya.workers import shard_events as owns
from noctaya.workers.objects import service_key, split_key
from noctaya.workers.shard_memory import MAX_SERVICES, ServiceMemory, ShardMemory

MAX_INCARNATION: Final = 300
"""Characters: a pod's name has up to 253."""
MAX_VERSION: Final = 64
MAX_NAMESPACE: Final = 63
MAX_NAME: Final = 253
MAX_COUNT: Final = 2**32 - 1


class PeerRefused(NoctayaError):
    """A note or question with something in it that cannot be; the message names it."""


@dataclass(frozen=True, slots=True)
class Probe:
    """Nothing but the receipt is wanted."""


Note: TypeAlias = (
    owns.Prepare
    | owns.AnswerPrepared
    | owns.Announce
    | owns.AskResign
    | owns.AnswerResigned
    | owns.AskEpoch
    | owns.AnswerEpoch
    | ShardMemory
    | Probe
)
Heard: TypeAlias = owns.Event | ShardMemory | Probe


def note_of(action: owns.Action) -> Note:
    """The note that carries `action` out. Raises TypeError for an action that is not a word to a peer."""
    if isinstance(action, owns.CasShard | owns.StartShard | owns.StopShard | owns.SendState | owns.Drained):
        raise TypeError(f"{action} is not a word to a peer")
    return action


def sender_of(note: Note, me: str) -> str:
    """Who says it: who has resigned speaks for the incarnation that did, which may be over by now."""
    return note.holder if isinstance(note, owns.AnswerResigned) else me


def write(note: Note, *, fleet: str, sender: str, receiver: str) -> peer.Note:
    """`note` as it goes over the wire."""
    made = peer.Note(fleet=fleet, sender=sender, receiver=receiver)
    match note:
        case owns.Prepare(_, shard):
            made.prepare.CopyFrom(peer.Prepare(shard=shard))
        case owns.AnswerPrepared(_, shard):
            made.prepared.CopyFrom(peer.Prepared(shard=shard))
        case owns.Announce(shard, holder, epoch, version):
            made.owned.CopyFrom(peer.Owned(shard=shard, holder=holder, epoch=epoch, version=version))
        case owns.AskResign(shard, _, epoch):
            made.resign.CopyFrom(peer.Resign(shard=shard, epoch=epoch))
        case owns.AnswerResigned(_, shard, _, epoch):
            made.resigned.CopyFrom(peer.Resigned(shard=shard, epoch=epoch))
        case owns.AskEpoch(shard):
            made.ask_epoch.CopyFrom(peer.AskEpoch(shard=shard))
        case owns.AnswerEpoch(_, shard, epoch):
            made.epoch.CopyFrom(peer.Epoch(shard=shard, epoch=epoch))
        case ShardMemory():
            made.state.CopyFrom(_state(note))
        case Probe():
            made.probe.CopyFrom(peer.Probe())
        case _:
            assert_never(note)
    return made


def read(note: peer.Note) -> Heard:
    """What `note`, which is for this process, says.

    Raises:
        PeerRefused: it is of no kind that this version knows, or something in it is out of bounds.
    """
    kind = note.WhichOneof("kind")
    if kind == "probe":
        return Probe()
    sender = _text("sender", note.sender, MAX_INCARNATION)
    match kind:
        case "prepare":
            return owns.PrepareAsked(sender, _shard(note.prepare.shard))
        case "prepared":
            return owns.Prepared(sender, _shard(note.prepared.shard))
        case "owned":
            owned = note.owned
            holder = _text("holder", owned.holder, MAX_INCARNATION)
            version = _text("version", owned.version, MAX_VERSION)
            return owns.Told(_shard(owned.shard), holder, _held(owned.epoch), version)
        case "resign":
            asked = note.resign
            return owns.ResignAsked(sender, _shard(asked.shard), note.receiver, _held(asked.epoch))
        case "resigned":
            return owns.Resigned(_shard(note.resigned.shard), sender, _held(note.resigned.epoch))
        case "ask_epoch":
            return owns.EpochAsked(sender, _shard(note.ask_epoch.shard))
        case "epoch":
            return owns.HigherEpochSeen(_shard(note.epoch.shard), epoch_of(note.epoch.epoch))
        case "state":
            return _memory(note.state)
        case _:
            raise PeerRefused("a note of no kind that this version knows")


# --- bounds ----------------------------------------------------------------------------------------------------------------


def epoch_of(epoch: int) -> int:
    """An epoch that somebody claims to know, where it is believable. Raises PeerRefused."""
    return _bounded(epoch, HIGHEST_CLAIM)


def _held(epoch: int) -> int:
    """An epoch under which a record was written. Raises PeerRefused for none that a Lease can have."""
    return _bounded(epoch, HIGHEST_EPOCH)


def _bounded(epoch: int, highest: int) -> int:
    if epoch > highest:
        raise PeerRefused(f"epoch {epoch} is above {highest}: no fleet gets there")
    return epoch


def key_of(namespace: str, name: str) -> str:
    """The key of the service. Raises PeerRefused for what cannot be a name."""
    parts = _text("namespace", namespace, MAX_NAMESPACE), _text("name", name, MAX_NAME)
    if any("/" in part for part in parts):
        raise PeerRefused("a namespace or name with a slash in it")
    return service_key(*parts)


def _shard(shard: int) -> int:
    if shard >= SHARD_COUNT:
        raise PeerRefused(f"there is no shard {shard}, of {SHARD_COUNT}")
    return shard


def _text(what: str, text: str, longest: int) -> str:
    if not text or len(text) > longest or not text.isprintable():
        raise PeerRefused(f"{what} must be 1 to {longest} printable characters")
    return text


# --- a shard's memory ------------------------------------------------------------------------------------------------------


def _state(memory: ShardMemory) -> peer.ShardState:
    state = peer.ShardState(shard=memory.shard, epoch=memory.epoch)
    for service in memory.services:
        namespace, name = split_key(service.key)
        state.services.add(
            namespace=namespace,
            name=name,
            at_least=min(service.at_least, MAX_COUNT),
            idle_ms=round(service.idle_seconds * 1000),
        )
    return state


def _memory(state: peer.ShardState) -> ShardMemory:
    shard, epoch = _shard(state.shard), _held(state.epoch)
    if len(state.services) > MAX_SERVICES:
        raise PeerRefused(f"{len(state.services)} services are more than {MAX_SERVICES}")
    return ShardMemory(shard, epoch, tuple(_service(shard, service) for service in state.services))


def _service(shard: int, service: peer.ServiceState) -> ServiceMemory:
    key = key_of(service.namespace, service.name)
    if shard_of(service.namespace, service.name) != shard:
        raise PeerRefused(f"{key} is not in shard {shard}")
    return ServiceMemory(key, service.at_least, service.idle_ms / 1000)

"""The reflector's decisions, and its one law: after any interleaving the copy is the server's state, and the changes replay to it."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from noctaya.kube.errors import (
    Call,
    Gone,
    KindNotServed,
    KubeError,
    TooManyRequests,
    Unavailable,
)
from noctaya.kube.metadata import Metadata, Object
from noctaya.kube.reflector import (
    Action,
    Bookmarked,
    Change,
    ChangeKind,
    Deleted,
    Event,
    Key,
    List,
    Listed,
    ListFailed,
    Reflector,
    Started,
    UnreadableObject,
    Upserted,
    Watch,
    WatchEnded,
    WatchOpened,
    WatchSettings,
)
from noctaya.kube.watching import EventTooLarge

CALL = Call("watch", "pods")
NAMES = ("a", "b", "c")


def thing(name: str, uid: str, version: int) -> Object:
    return Object(metadata=Metadata(name=name, namespace="models", uid=uid, resource_version=str(version)))


def new_reflector(**more: float) -> Reflector[Object]:
    return Reflector(WatchSettings(**more), Random(1))  # type: ignore[arg-type]


def the_step(actions: list[Action[Object]]) -> List | Watch:
    """The single thing to do next."""
    steps = [action for action in actions if not isinstance(action, Change)]
    assert len(steps) == 1
    assert isinstance(steps[0], (List, Watch))
    return steps[0]


def changes(actions: list[Action[Object]]) -> list[tuple[str, str]]:
    return [(action.kind.value, action.subject.name) for action in actions if isinstance(action, Change)]


def synced(*items: Object, version: int = 10) -> Reflector[Object]:
    core = new_reflector()
    core.on(Started(), 0)
    core.on(Listed(str(version), list(items)), 0)
    core.on(WatchOpened(), 0)
    return core


# -- the law -------------------------------------------------------------------------------------------------------


@dataclass
class Server:
    """The truth: a table, its history, and how far the history was compacted."""

    version: int = 10
    compacted: int = 0
    uids: int = 0
    table: dict[str, Object] = field(default_factory=dict)
    history: list[tuple[int, Event[Object]]] = field(default_factory=list)

    def write(self, name: str) -> None:
        self.version += 1
        if name in self.table:
            uid = self.table[name].uid
        else:
            self.uids += 1
            uid = f"uid-{self.uids}"
        self.table[name] = thing(name, uid, self.version)
        self.history.append((self.version, Upserted(self.table[name])))

    def delete(self, name: str) -> None:
        if name in self.table:
            self.version += 1
            gone = self.table.pop(name)
            self.history.append((self.version, Deleted(thing(name, gone.uid, self.version).metadata)))


class Conversation:
    """Runs a reflector against the server with faults, checking the law at every step."""

    def __init__(self, seed: int) -> None:
        self.core: Reflector[Object] = Reflector(WatchSettings(), Random(seed))
        self.server = Server()
        self.replayed: dict[Key, Object] = {}
        self.now = 0.0
        self.position: int | None = None
        self.step: List | Watch | None = None
        self.tell(Started())

    def tell(self, event: Event[Object]) -> None:
        step: List | Watch | None = None
        for action in self.core.on(event, self.now):
            if isinstance(action, Change):
                self.replay(action)
            else:
                assert step is None, "one thing at a time"
                assert action.after_seconds >= 0
                step = action
        if step is not None:
            self.step, self.position = step, None
        assert self.replayed == self.core.items

    def replay(self, change: Change[Object]) -> None:
        key = ("models", change.subject.name)
        if change.kind is ChangeKind.ADDED:
            assert key not in self.replayed
            assert change.old is None
        else:
            assert self.replayed[key] is change.old
        if change.new is None:
            del self.replayed[key]
        else:
            assert change.old is None or change.old.uid == change.new.uid, (
                "a replaced object is deleted, then added"
            )
            self.replayed[key] = change.new

    def perform(self, *, fault: KubeError | None = None) -> None:
        """Do what the reflector asked for, well or badly; or let an open stream bring one event."""
        if self.position is not None:
            self.deliver()
        elif isinstance(self.step, List):
            self.now += self.step.after_seconds
            if fault is None:
                self.tell(Listed(str(self.server.version), list(self.server.table.values())))
            else:
                self.tell(ListFailed(fault))
        elif isinstance(self.step, Watch):
            self.now += self.step.after_seconds
            since = int(self.step.resource_version)
            if fault is None and since < self.server.compacted:
                fault = Gone(CALL, "expired")
            if fault is not None:
                self.tell(WatchEnded(fault))
            else:
                self.position = since
                self.tell(WatchOpened())

    def deliver(self) -> bool:
        assert self.position is not None
        for version, event in self.server.history:
            if version > self.position:
                self.position = version
                self.tell(event)
                return True
        return False

    def drain(self) -> None:
        for _ in range(100):
            if self.position is not None and not self.deliver():
                return
            self.perform()
        raise AssertionError("never in step with the server")


OPERATIONS = st.one_of(
    st.tuples(st.just("write"), st.sampled_from(NAMES)),
    st.tuples(st.just("delete"), st.sampled_from(NAMES)),
    st.tuples(st.just("compact"), st.none()),
    st.tuples(st.just("go"), st.none()),
    st.tuples(
        st.just("fail"), st.sampled_from([Unavailable, TooManyRequests, Gone, KindNotServed, EventTooLarge])
    ),
    st.tuples(st.just("end"), st.sampled_from([None, Unavailable, Gone, EventTooLarge])),
    st.tuples(st.just("bookmark"), st.none()),
    st.tuples(st.just("wait"), st.none()),
)


@given(st.lists(OPERATIONS, max_size=60), st.integers(0, 1000))
@settings(max_examples=300, deadline=None)
def test_after_any_interleaving_the_copy_is_the_servers_state(
    operations: list[tuple[str, object]], seed: int
) -> None:
    talk = Conversation(seed)
    for name, detail in operations:
        match name, detail:
            case "write", str():
                talk.server.write(detail)
            case "delete", str():
                talk.server.delete(detail)
            case "compact", _:
                talk.server.compacted = talk.server.version
                if talk.position is None:
                    talk.server.history.clear()
            case "go", _:
                talk.perform()
            case "fail", type():
                talk.perform(fault=detail(CALL, "fault"))
            case "end", _ if talk.position is not None:
                talk.tell(WatchEnded(detail(CALL, "fault") if isinstance(detail, type) else None))
            case "bookmark", _ if talk.position is not None and not talk.deliver():
                talk.tell(Bookmarked(str(talk.server.version)))
            case "wait", _:
                talk.now += 10
            case _:
                pass
    talk.drain()
    assert {name: item for (_, name), item in talk.core.items.items()} == talk.server.table
    assert talk.core.problem is None
    assert talk.core.has_synced
    assert talk.core.serves


# -- single decisions ----------------------------------------------------------------------------------------------


def test_it_lists_first_and_watches_from_the_lists_version() -> None:
    core = new_reflector()
    assert core.on(Started(), 0) == [List(0.0, paged=True)]
    actions = core.on(Listed("41", [thing("a", "1", 7)]), 1)
    step = the_step(actions)
    assert isinstance(step, Watch)
    assert (step.resource_version, step.after_seconds) == ("41", 0.0)
    assert 300 <= step.stream_seconds <= 600
    assert changes(actions) == [("added", "a")]
    assert core.last_contact == 1


def test_a_bookmark_moves_the_version_and_the_contact_but_nothing_else() -> None:
    core = synced(thing("a", "1", 7))
    assert core.on(Bookmarked("99"), 5) == []
    assert core.last_contact == 5
    step = the_step(core.on(WatchEnded(), 6))
    assert isinstance(step, Watch)
    assert step.resource_version == "99"


def test_an_expired_version_leads_to_a_list_and_synthetic_deletes() -> None:
    core = synced(thing("a", "1", 7), thing("b", "2", 8))
    step = the_step(core.on(WatchEnded(Gone(CALL, "expired")), 1))
    assert isinstance(step, List)
    actions = core.on(Listed("60", [thing("b", "2", 8), thing("c", "3", 50)]), 2)
    assert changes(actions) == [("deleted", "a"), ("added", "c")]


def test_an_object_replaced_during_a_gap_is_deleted_and_added() -> None:
    core = synced(thing("a", "1", 7))
    core.on(WatchEnded(Gone(CALL, "expired")), 1)
    assert changes(core.on(Listed("60", [thing("a", "2", 55)]), 2)) == [("deleted", "a"), ("added", "a")]


def test_streams_that_die_at_once_back_off_and_a_good_one_resets() -> None:
    core = synced()
    delays = []
    for _ in range(30):
        core.on(WatchOpened(), 0)
        delays.append(the_step(core.on(WatchEnded(Unavailable(CALL, "lost")), 0)).after_seconds)
    assert max(delays) > 10
    assert max(delays) <= 30
    assert len(set(delays[:5])) == 5, "jittered"
    core.on(WatchOpened(), 100)
    core.on(Upserted(thing("a", "1", 20)), 100)
    assert the_step(core.on(WatchEnded(), 100)).after_seconds <= 0.1, "it delivered"
    core.on(WatchOpened(), 100)
    assert the_step(core.on(WatchEnded(), 100)).after_seconds == 0.5, "from the start again"
    core.on(WatchOpened(), 200)
    assert the_step(core.on(WatchEnded(), 260)).after_seconds <= 0.1, "it lived"
    core.on(WatchOpened(), 300)
    core.on(Bookmarked("30"), 300)
    assert the_step(core.on(WatchEnded(), 300)).after_seconds >= 0.5, "a bookmark alone proves nothing"


def test_a_list_in_between_does_not_reset_the_back_off() -> None:
    core = synced()
    delays = []
    for round_ in range(20):
        step = the_step(core.on(WatchEnded(Gone(CALL, "expired")), 0))
        assert isinstance(step, List)
        delays.append(step.after_seconds)
        core.on(Listed(str(100 + round_), []), 0)
    assert max(delays) > 10, "410 after every list must not become a hot loop of lists"


def test_retry_after_is_a_lower_bound_and_jittered() -> None:
    core = new_reflector()
    core.on(Started(), 0)
    refused = TooManyRequests(CALL, "busy")
    refused.retry_after_seconds = 40.0
    delays = {the_step(core.on(ListFailed(refused), 0)).after_seconds for _ in range(5)}
    assert min(delays) >= 40
    assert max(delays) <= 50
    assert len(delays) == 5


def test_a_list_older_than_what_was_seen_is_refused_until_it_must_be_a_restore() -> None:
    core = synced(thing("a", "1", 7), version=1000)
    core.on(WatchEnded(Gone(CALL, "expired")), 0)
    actions = core.on(Listed("900", []), 10)
    assert isinstance(the_step(actions), List)
    assert changes(actions) == []
    assert isinstance(core.problem, Unavailable)
    assert "1000" in str(core.problem)
    assert core.items
    actions = core.on(Listed("901", []), 71)
    assert changes(actions) == [("deleted", "a")]
    assert isinstance(the_step(actions), Watch)
    assert changes(core.on(Listed("902", []), 72)) == []


def test_a_lagging_server_that_catches_up_starts_the_patience_anew() -> None:
    core = synced(version=1000)
    core.on(Listed("900", []), 10)
    core.on(Listed("1001", []), 40)
    assert isinstance(the_step(core.on(Listed("950", []), 75)), List)


def test_a_kind_that_is_not_served_is_looked_for_slowly_and_keeps_what_is_known() -> None:
    core = synced(thing("a", "1", 7))
    for _ in range(5):
        step = the_step(core.on(WatchEnded(KindNotServed(CALL, "no CRD")), 0))
        assert isinstance(step, List)
        assert 4.5 <= step.after_seconds <= 5.5
    assert not core.serves
    assert isinstance(core.problem, KindNotServed)
    assert list(core.items) == [("models", "a")]
    core.on(Listed("60", []), 10)
    assert core.serves


def test_an_event_that_is_too_large_leads_to_a_list() -> None:
    core = synced(thing("a", "1", 7))
    assert isinstance(the_step(core.on(WatchEnded(EventTooLarge(CALL, "huge")), 1)), List)


def test_pages_that_expired_are_asked_for_in_one_piece() -> None:
    core = new_reflector()
    core.on(Started(), 0)
    step = the_step(core.on(ListFailed(Gone(CALL, "continue token expired")), 0))
    assert isinstance(step, List)
    assert not step.paged


def test_an_unreadable_object_is_kept_as_it_was_until_it_is_another_one() -> None:
    core = synced(thing("a", "1", 7))
    assert core.on(UnreadableObject(thing("a", "1", 20).metadata, "bad field"), 1) == []
    assert core.items["models", "a"].metadata.resource_version == "7"
    assert core.unreadable == {("models", "a"): "bad field"}
    assert changes(core.on(UnreadableObject(thing("a", "2", 21).metadata, "bad field"), 2)) == [
        ("deleted", "a")
    ]
    assert changes(core.on(Upserted(thing("a", "2", 22)), 3)) == [("added", "a")]
    assert core.unreadable == {}


def test_an_unreadable_object_in_a_list_is_not_taken_for_deleted() -> None:
    core = synced(thing("a", "1", 7))
    core.on(WatchEnded(Gone(CALL, "expired")), 1)
    assert (
        changes(core.on(Listed("60", [], [UnreadableObject(thing("a", "1", 50).metadata, "bad")]), 2)) == []
    )
    assert ("models", "a") in core.items
    core.on(Deleted(thing("a", "1", 61).metadata), 3)
    assert core.unreadable == {}
    assert core.items == {}


def test_the_same_version_twice_is_no_change() -> None:
    core = synced(thing("a", "1", 7))
    assert core.on(Upserted(thing("a", "1", 7)), 1) == []
    assert core.on(Deleted(thing("nobody", "9", 8).metadata), 1) == []
